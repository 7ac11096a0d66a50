"""Checks of the data directories of one node, which runs or is stopped."""
