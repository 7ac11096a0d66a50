"""The metrics listener of a node: collects, renders and serves its metrics and its health."""
