"""Replicated logs and the state machines that run on them, and what reading a partition needs.

Here: the contract of a machine and its runtime, a partition with its leader and follower roles,
the metadata log of the controllers (`raft`), fetch sessions, parked requests (`waiting`).
Not here: what is in a log's files (`log/`), what a machine decides (`metadata/`, `coordinator/`),
the sockets over which followers fetch (`server/`).
"""
