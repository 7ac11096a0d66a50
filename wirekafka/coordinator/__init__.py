"""The coordinators of groups, transactions and share states: machines on internal topics.

`groups/` has the kinds of groups and committed offsets, `transactions/` the states of transactions
and their markers, `share_state/` the stored states of share partitions. The modules beside them are
shared by all coordinators: the shard of a key, the coordinators' view of the cluster's topics,
requests to other brokers, and the orders of Java's collections.

Not here: the generic runtime of machines (`runtime/`), request schemas (`protocol/`), authorization
(`apis/`), and metadata that the controller owns (`metadata/`).
"""
