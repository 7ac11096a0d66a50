"""Commands for operators of a cluster: users, rights, moves, elections, and what is wrong."""
