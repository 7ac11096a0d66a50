"""The name of the socket at which a running node reports an instant, imported at every start."""

SNAPSHOT_SOCKET = "snapshot.sock"
"""A file in the first log directory, where Kafka ignores all but directories."""
