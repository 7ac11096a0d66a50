"""The cluster's metadata: the image folded over its records, and the controller's commands.

Rooms: `image` (the image and how records are framed), `controller` (the controller's machine with
one command class per kind of change), `broker` (a broker's side: membership, feed, publisher).
Not here: the records (`protocol/records/metadata.py`), the quorum's log (`replication/raft`), the
requests that carry commands (`apis/`), and the connections between nodes (`server/`).
"""
