"""The append-only log and its files."""
