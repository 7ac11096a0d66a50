"""Which partition a record goes to: the hash of its key, as Java clients place it."""

from __future__ import annotations

MULTIPLIER = 0x5BD1E995
SEED = 0x9747B28C
_MASK = 0xFFFFFFFF
POSITIVE = 0x7FFFFFFF
"""Java clears the sign of the hash before the division."""


def partition_of(key: bytes, count: int) -> int:
    """The partition of `count` that Java's default partitioner gives a key."""
    return (murmur2(key) & POSITIVE) % count


def murmur2(data: bytes) -> int:
    """Austin Appleby's 32-bit MurmurHash2 with Kafka's seed, unsigned."""
    size = len(data)
    mixed = SEED ^ size
    whole = size - size % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * MULTIPLIER & _MASK
        word = (word ^ word >> 24) * MULTIPLIER & _MASK
        mixed = mixed * MULTIPLIER & _MASK ^ word
    if whole < size:
        mixed = (mixed ^ int.from_bytes(data[whole:], "little")) * MULTIPLIER & _MASK
    mixed = (mixed ^ mixed >> 13) * MULTIPLIER & _MASK
    return mixed ^ mixed >> 15
