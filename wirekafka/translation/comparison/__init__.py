"""A table and its log side by side: their rows by offset, and how they differ."""
