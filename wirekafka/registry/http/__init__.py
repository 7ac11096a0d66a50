"""The HTTP API of a schema registry, path by path."""
