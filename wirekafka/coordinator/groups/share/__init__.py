"""Share groups (KIP-932): members, assignments, and the share partitions that this broker leads."""
