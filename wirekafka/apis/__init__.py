"""One file per API: its schema and its handler."""
