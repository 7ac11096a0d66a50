"""Copies closed segments to the object store, reads them from there, and deletes them."""
