"""Tiered storage (KIP-405): copies closed segments to the object store, reads and deletes them."""
