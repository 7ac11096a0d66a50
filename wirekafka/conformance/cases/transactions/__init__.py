"""Transactions: producer ids, partitions and offsets in transactions, their ends and markers."""
