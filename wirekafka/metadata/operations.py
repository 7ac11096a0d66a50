"""The bit fields of authorized operations in responses (KIP-430)."""

from __future__ import annotations

NOT_ASKED = -(1 << 31)
"""The value when the request does not ask for authorized operations."""
