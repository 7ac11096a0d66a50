"""Segments of logs in an object store (KIP-405): their metadata, layouts, reads and retention."""
