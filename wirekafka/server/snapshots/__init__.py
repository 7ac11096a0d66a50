"""Snapshots of a running node: the instant on its event loop, and the socket that reports it."""
