"""Work beside requests: housekeeping, compaction, recovery, relocation and fsync."""
