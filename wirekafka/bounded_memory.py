"""A dictionary for names that clients choose: bounded in bytes, the oldest is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from sys import getsizeof
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_SHARE = 64
"""A key that takes a larger part of a store than one of this number is not remembered."""
_FORGOTTEN = 64
"""One of so many entries is forgotten at once when there is no room for another."""
_ENTRY_BYTES = 100
"""Of a dictionary, for each entry."""


class Remembered(dict[K, V], Generic[K, V]):
    """A dictionary of at most `most_bytes`: of its keys, of values that are bytes, of other values
    with `value_bytes` each.

    Everything that is kept by names of clients, groups, topics, members or users, and that outlives
    its request, belongs into one: a client may send any number of names, of any length. To read is
    as fast as from any dictionary. With `find`, a missing value is computed at its first use.
    """

    __slots__ = ("_find", "_most_bytes", "_value_bytes", "size_bytes")

    def __init__(
        self, most_bytes: int, value_bytes: int = 32, find: Callable[[K], V] | None = None
    ):
        super().__init__()
        self._most_bytes = most_bytes
        self._value_bytes = value_bytes
        self._find = find
        self.size_bytes = 0
        """The approximate size of the entries."""

    def __missing__(self, key: K) -> V:
        if self._find is None:
            raise KeyError(key)
        value = self._find(key)
        self.keep(key, value)
        return value

    def keep(self, key: K, value: V) -> None:
        """Remember a value, unless its key is too long, and forget the oldest ones for it."""
        self.forget(key)
        size_bytes = self._size_of(key, value)
        if size_bytes > self._most_bytes // _SHARE:
            return
        self[key] = value
        self.size_bytes += size_bytes
        while self.size_bytes > self._most_bytes:
            # Several at once: to find the oldest, a dictionary passes all places of earlier ones.
            for oldest in list(islice(self, len(self) // _FORGOTTEN + 1)):
                self.forget(oldest)

    def forget(self, key: K) -> None:
        """Forget a key, if it is remembered."""
        if key in self:
            self.size_bytes -= self._size_of(key, self.pop(key))

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self.size_bytes = 0

    def _size_of(self, key: Any, value: Any) -> int:
        parts = key if isinstance(key, tuple) else ()
        value_bytes = getsizeof(value) if isinstance(value, bytes) else self._value_bytes
        return getsizeof(key) + sum(map(getsizeof, parts)) + value_bytes + _ENTRY_BYTES
