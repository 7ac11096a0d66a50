"""Share partitions (KIP-932): which records are acquired by whom, as machines without I/O."""
