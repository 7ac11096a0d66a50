"""One replica of a partition: leader, follower, reads, relocation, and waiting requests."""
