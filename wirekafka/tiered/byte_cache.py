"""A bounded cache of what was read from the store; equal reads at the same time are one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from threading import Event, Lock
from typing import Generic, TypeVar

from wirekafka.codec.batch import Buffer

Key = TypeVar("Key", bound=Hashable)


class ByteCache(Generic[Key]):
    """The least recently used entries go first. May be used in any thread."""

    def __init__(self, limit_bytes: int):
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._entries: OrderedDict[Key, Buffer] = OrderedDict()
        self._loading: dict[Key, Event] = {}
        self._lock = Lock()

    def __contains__(self, key: Key) -> bool:
        return key in self._entries or key in self._loading

    @property
    def size_bytes(self) -> int:
        """The bytes of all entries."""
        return self._size_bytes

    def __iter__(self) -> Iterator[Key]:
        with self._lock:
            return iter(list(self._entries))

    def get(self, key: Key, load: Callable[[], Buffer]) -> Buffer:
        """The entry of a key, loaded if necessary. Raises what `load` does.

        If `load` fails in one thread, each thread that waited for it tries itself.
        """
        while True:
            with self._lock:
                found = self._entries.get(key)
                if found is not None:
                    self._entries.move_to_end(key)
                    return found
                loading = self._loading.get(key)
                if loading is None:
                    mine = self._loading[key] = Event()
                    break
            loading.wait()
        try:
            found = load()
            self._add(key, found)
            return found
        finally:
            with self._lock:
                del self._loading[key]
            mine.set()

    def forget(self, matches: Callable[[Key], bool]) -> None:
        """Remove all entries whose keys match."""
        with self._lock:
            for key in [each for each in self._entries if matches(each)]:
                self._size_bytes -= len(self._entries.pop(key))

    def _add(self, key: Key, data: Buffer) -> None:
        with self._lock:
            self._entries[key] = data
            self._size_bytes += len(data)
            while self._size_bytes > self._limit_bytes and len(self._entries) > 1:
                _, oldest = self._entries.popitem(last=False)
                self._size_bytes -= len(oldest)
