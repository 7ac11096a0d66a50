"""Replicated logs: partitions, the metadata log of the controllers, and how they are fetched.

Rooms: `partition` (one replica as leader or follower, and the requests that wait for it),
`fetching` (fetch sessions and the fetchers of followers), `raft` (the quorum and its log), `share`
(the records of share partitions that are in flight). Not here: the files of a log (`log/`), the
runtime of machines (`runtime/`), the decisions of machines (`metadata/`, `coordinator/`), the
sockets over which followers fetch (`server/`).
"""
