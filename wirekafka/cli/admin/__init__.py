"""Commands for operators of a cluster."""
