"""The transaction coordinator: transactions, their shard, and the delivery of their markers."""
