"""The coordinators of groups and transactions: machines on the partitions of internal topics.

Here: the group kinds, committed offsets, transactions, their records and the code that finds the
shard of a group or transactional id. Not here: the generic runtime of machines (`replication/`),
request schemas and authorization (`apis/`), and metadata that the controller owns (`metadata/`).
"""
