"""An object store in memory for tiered topics, which tests can let fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from threading import Lock

from wirekafka.codec.batch import Buffer
from wirekafka.tiered.store import ObjectMissing, StoredObject, StoreError

MEMORY = "memory:"
SETTINGS: Mapping[str, str] = {
    "remote.log.storage.system.enable": "true",
    "wirekafka.tier": MEMORY,
    "remote.log.manager.task.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
}
"""Options of a broker with a store in memory: it copies and deletes without a long wait."""


class MemoryTier:
    """The store of `Broker(tier="memory:")`. It outlives restarts and crashes of the broker."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._failures = 0
        self._lock = Lock()

    @property
    def objects(self) -> dict[str, int]:
        """The size of each object in bytes, by its key."""
        with self._lock:
            return {key: len(data) for key, data in self._objects.items()}

    def fail(self, times: int = 1) -> None:
        """Let the next requests fail, as requests to a store that cannot be reached."""
        with self._lock:
            self._failures = times

    def lose(self, containing: str = "") -> int:
        """Lose the objects whose keys contain a text; how many they were."""
        with self._lock:
            lost = [key for key in self._objects if containing in key]
            for key in lost:
                del self._objects[key]
            return len(lost)

    # Store

    def put(self, key: str, pieces: Iterable[Buffer]) -> None:
        data = b"".join(pieces)
        with self._lock:
            self._fail_if_wanted(key)
            self._objects[key] = data

    def get(self, key: str) -> Buffer:
        with self._lock:
            self._fail_if_wanted(key)
            if key not in self._objects:
                raise ObjectMissing(key)
            return self._objects[key]

    def get_range(self, key: str, start: int, end: int) -> Buffer:
        return memoryview(self.get(key))[start:end]

    def delete(self, key: str) -> None:
        with self._lock:
            self._fail_if_wanted(key)
            self._objects.pop(key, None)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        with self._lock:
            self._fail_if_wanted(prefix)
        for key, size_bytes in self.objects.items():
            if key.startswith(prefix):
                yield StoredObject(key, size_bytes)

    def _fail_if_wanted(self, key: str) -> None:
        if self._failures:
            self._failures -= 1
            raise StoreError(f"{key}: the store fails, as the test wants")
