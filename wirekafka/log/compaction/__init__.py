"""Compaction: the offset map, cleaned segments, and the swap into the live log."""
