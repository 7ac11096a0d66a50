"""The cases of streams groups (KIP-1071)."""
