"""Sockets, tasks and the wall clock."""
