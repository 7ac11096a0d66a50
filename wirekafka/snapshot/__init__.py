"""Snapshots of a node's log directories: what belongs to an instant, its files, and their check."""
