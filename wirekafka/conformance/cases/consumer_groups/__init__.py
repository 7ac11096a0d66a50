"""The cases of consumer groups, whose coordinator assigns partitions (KIP-848)."""
