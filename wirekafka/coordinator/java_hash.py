"""Java's String.hashCode, which decides the partition that coordinates a group or a transaction."""

from __future__ import annotations

import struct


def java_hash_code(text: str) -> int:
    """`text.hashCode()` as a signed 32-bit number: over UTF-16 code units, not characters."""
    raw = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in struct.unpack(f">{len(raw) // 2}H", raw):
        code = (code * 31 + unit) & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code


def coordinator_partition(key: str, partition_count: int) -> int:
    """The partition of the internal topic that owns `key`.

    Kafka's `Utils.abs` maps the smallest int to 0 and negates all other negative numbers.
    """
    code = java_hash_code(key)
    return 0 if code == -(1 << 31) else abs(code) % partition_count


def java_map_order(text: str) -> int:
    """The position of `text` in the iteration of a small `java.util.HashMap`: its bucket of 16.

    Kafka breaks ties between assignors by the order of such a map.
    """
    code = java_hash_code(text) & 0xFFFFFFFF
    return (code ^ (code >> 16)) & 15
