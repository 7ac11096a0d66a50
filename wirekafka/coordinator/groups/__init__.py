"""The group coordinator: the contract of a kind of groups, the kinds, offsets, and the shard."""
