"""The iteration order of Java's hash maps and hash sets, and its order of strings.

Kafka's assignors iterate over such collections, so this order decides which member gets a
partition, and the order within the records they write.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import Generic, TypeVar

from wirekafka.bounded_memory import Remembered
from wirekafka.coordinator.java_hash import java_hash_code

T = TypeVar("T")

_SMALLEST = 16
_MASK = 0xFFFFFFFF
_LONG_MASK = (1 << 64) - 1
_FIBONACCI = -7046029254386353131
_STRINGS_BYTES = 8 << 20
"""Of strings whose hashes are kept: the same member ids are sorted repeatedly."""

_COUNTS_KEPT = 1024
"""Sizes of collections whose number of buckets is kept."""


def grown_capacity(count: int, capacity: int = _SMALLEST) -> int:
    """Return the buckets of a `HashMap` of initial `capacity` after `count` insertions."""
    while count > capacity * 3 // 4:
        capacity *= 2
    return capacity


@lru_cache(_COUNTS_KEPT)
def copied_capacity(count: int) -> int:
    """Return the buckets of `new HashSet(collection)` of `count` elements in Java 17."""
    return _power_of_two(max(count * 4 // 3 + 1, _SMALLEST))


def hash_ordered(items: Iterable[T], hash_of: Callable[[T], int], capacity: int) -> list[T]:
    """Return `items`, given in insertion order, in iteration order.

    Entries that share a bucket stay in insertion order.
    """
    ordered = list(items)
    if len(ordered) < 2:
        return ordered
    mask = capacity - 1
    return _sorted_by([_spread(code) & mask for code in map(hash_of, ordered)], ordered)


def _spread(code: int) -> int:
    """Return the number that selects a `HashMap`'s bucket: the halves of a hash code combined."""
    return (code & _MASK) ^ ((code & _MASK) >> 16)


def _mixed(code: int) -> int:
    """Return the number that selects the slot of a `TimelineHashMap`."""
    return code * _FIBONACCI & _LONG_MASK


_spread_hash_codes = Remembered[str, int](
    _STRINGS_BYTES, find=lambda text: _spread(java_hash_code(text))
)
_mixed_hash_codes = Remembered[str, int](
    _STRINGS_BYTES, find=lambda text: _mixed(java_hash_code(text))
)


def _sorted_by(keys: list[int], items: list[T]) -> list[T]:
    """Return the items in the order of their keys; items with equal keys stay in order."""
    return [items[index] for index in sorted(range(len(items)), key=keys.__getitem__)]


@lru_cache(_COUNTS_KEPT)
def sized_capacity(expected: int) -> int:
    """Return the buckets of a `HashMap` made for `expected` entries at load factor 0.75."""
    return _power_of_two(expected * 4 // 3 + 1)


class HashOrder(Generic[T]):
    """The keys of a `HashMap` whose history decides their order within a bucket."""

    def __init__(self, hash_of: Callable[[T], int], capacity: int = _SMALLEST):
        self._hash_of = hash_of
        self._capacity = capacity
        self._keys: OrderedDict[T, None] = OrderedDict()

    def put(self, key: T) -> None:
        """Insert a key as `put` does: a new key goes last in its bucket."""
        if key not in self._keys:
            self._keys[key] = None
            self._capacity = grown_capacity(len(self._keys), self._capacity)

    def compute(self, key: T) -> None:
        """Insert a key as `computeIfAbsent` does: a new key goes first.

        The table grows before the insertion.
        """
        self._capacity = grown_capacity(len(self._keys), self._capacity)
        if key not in self._keys:
            self._keys[key] = None
            self._keys.move_to_end(key, last=False)

    def remove(self, key: T) -> None:
        """Remove a key; the table does not shrink."""
        del self._keys[key]

    def walk(self) -> list[T]:
        """Return the keys in the map's iteration order."""
        return hash_ordered(self._keys, self._hash_of, self._capacity)


def strings_in_order(texts: Iterable[str], capacity: int) -> list[str]:
    """Return strings in the order of a `HashMap` with `capacity` buckets."""
    ordered = list(texts)
    mask = capacity - 1
    return _sorted_by(
        [code & mask for code in map(_spread_hash_codes.__getitem__, ordered)], ordered
    )


def uuids_in_order(ids: Iterable[bytes], capacity: int) -> list[bytes]:
    """Return UUIDs in the order of a `HashMap` with `capacity` buckets."""
    return hash_ordered(ids, uuid_hash_code, capacity)


def integers_in_order(numbers: Collection[int], capacity: int) -> list[int]:
    """Return non-negative numbers in the order of a `HashSet` with `capacity` buckets."""
    if not numbers:
        return []
    largest = max(numbers)
    if largest < capacity:
        return sorted(numbers)
    if largest >> 16:
        return hash_ordered(numbers, int, capacity)
    return sorted(numbers, key=(capacity - 1).__and__)


FIRST_SLOTS = 2
"""The initial slots of a coordinator's `TimelineHashMap` made without a size."""


def timeline_slots(slots: int, count: int) -> int:
    """Return the slots of a `TimelineHashMap` of `count` entries once a key is put."""
    return slots * 2 if (count + 1) * 3 > slots * 4 else slots


def timeline_ordered(keys: Iterable[str], slots: int) -> list[str]:
    """Return strings, given in insertion order, in the order of a `TimelineHashMap`."""
    newest_first = list(keys)[::-1]
    shift = _shift(slots)
    return _sorted_by(
        [code >> shift for code in map(_mixed_hash_codes.__getitem__, newest_first)], newest_first
    )


def timeline_hash_ordered(keys: Iterable[T], hash_of: Callable[[T], int], slots: int) -> list[T]:
    """Return keys, given in insertion order, in the order of a `TimelineHashMap`.

    `hash_of` returns the signed hash code of a key.
    """
    newest_first = list(keys)[::-1]
    shift = _shift(slots)
    return _sorted_by([_mixed(code) >> shift for code in map(hash_of, newest_first)], newest_first)


def _shift(slots: int) -> int:
    """Return by how many bits `_mixed` is shifted to get one of so many slots."""
    return 65 - slots.bit_length()


def uuid_hash_code(id: bytes) -> int:
    """Return `org.apache.kafka.common.Uuid.hashCode()`, unsigned."""
    halves = int.from_bytes(id[:8], "big") ^ int.from_bytes(id[8:], "big")
    return (halves >> 32) ^ (halves & _MASK)


def uuid_sort_key(id: bytes) -> tuple[int, int]:
    """Return a sort key with the order of `Uuid.compareTo`, whose halves are signed."""
    return (int.from_bytes(id[:8], "big", signed=True), int.from_bytes(id[8:], "big", signed=True))


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def java_text_order(text: str) -> bytes:
    """Return a sort key for strings: Java compares them by UTF-16 code unit."""
    return text.encode("utf-16-be", "surrogatepass")
