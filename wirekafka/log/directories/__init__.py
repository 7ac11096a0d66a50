"""Log directories: identity, opening and recovery of their logs, checkpoints, hand-over, repair."""
