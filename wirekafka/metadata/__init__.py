"""The cluster's metadata: its records, the image folded over them, and the controller's commands.

Here: the records of `__cluster_metadata` and their framing, the image, the controller machine with
one command class per kind of change, and a broker's side of it (membership, feed, publisher).
Not here: the quorum's log (`replication/raft`), the requests that carry commands (`apis/`), and
the connections between brokers and controllers (`server/`).
"""
