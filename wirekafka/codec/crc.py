"""CRC-32C, the checksum of record batches and of the producer snapshot files."""

from __future__ import annotations

from crc32c import crc32c

__all__ = ["crc32c"]
