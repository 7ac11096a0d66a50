"""The bit fields of authorized operations in responses (KIP-430)."""

NOT_REQUESTED = -(1 << 31)
"""The value if the request does not ask for authorized operations."""
