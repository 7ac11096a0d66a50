"""An object store in memory for tiered topics, which tests can slow down and let fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from threading import Event, Lock
from typing import Literal, Self, TypeAlias

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

StoreRequest: TypeAlias = Literal["put", "get", "delete", "list"]
_REQUESTS = ("put", "get", "delete", "list")


class StoreFault:
    """A fault of the store, in force until its `with` ends or `remove` is called."""

    def __init__(
        self,
        *,
        seconds: float | None,
        times: int | None,
        request: StoreRequest | None,
        containing: str,
    ):
        if request is not None and request not in _REQUESTS:
            raise ValueError(f"request={request!r}: it is one of {', '.join(_REQUESTS)}")
        self.hits = 0
        """How many requests the fault acted on."""
        self._seconds = seconds
        """How long a request waits; None lets it fail."""
        self._times = times
        self._request = request
        self._containing = containing
        self._ended = Event()

    def remove(self) -> None:
        """End the fault, and let requests that it delays continue. A second call does nothing."""
        self._ended.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def takes(self, request: StoreRequest, key: str) -> bool:
        """Whether the fault acts on a request, which is counted then."""
        if self._ended.is_set() or self._times == self.hits:
            return False
        if self._request not in (None, request) or self._containing not in key:
            return False
        self.hits += 1
        return True

    def act(self, key: str) -> None:
        """Delay a request, or let it fail. Raises StoreError."""
        if self._seconds is None:
            raise StoreError(f"{key}: the store fails, as the test wants")
        self._ended.wait(self._seconds)


class MemoryTier:
    """The store of `Broker(tier="memory:")`. It outlives restarts and crashes of the broker."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._faults: list[StoreFault] = []
        self._lock = Lock()

    @property
    def objects(self) -> dict[str, int]:
        """The size of each object in bytes, by its key."""
        with self._lock:
            return {key: len(data) for key, data in self._objects.items()}

    def fail(
        self, times: int | None = 1, *, request: StoreRequest | None = None, containing: str = ""
    ) -> StoreFault:
        """Let the next requests fail, as requests to a store that cannot be reached.

        times: None is every request, until the fault ends. request: "put", "get", "delete" or
        "list"; None is each. containing: only requests whose key has this text.
        """
        return self._add(
            StoreFault(seconds=None, times=times, request=request, containing=containing)
        )

    def delay(
        self,
        seconds: float,
        times: int | None = None,
        *,
        request: StoreRequest | None = None,
        containing: str = "",
    ) -> StoreFault:
        """Let requests wait so long before they take effect, or until the fault ends.

        The other arguments are as for `fail`. It is the machine's time, not the broker's clock.
        """
        return self._add(
            StoreFault(seconds=seconds, times=times, request=request, containing=containing)
        )

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
        self._disturb("put", key)
        with self._lock:
            self._objects[key] = data

    def get(self, key: str) -> Buffer:
        self._disturb("get", key)
        with self._lock:
            if key not in self._objects:
                raise ObjectMissing(key)
            return self._objects[key]

    def get_range(self, key: str, start: int, end: int) -> Buffer:
        return memoryview(self.get(key))[start:end]

    def delete(self, key: str) -> None:
        self._disturb("delete", key)
        with self._lock:
            self._objects.pop(key, None)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        self._disturb("list", prefix)
        for key, size_bytes in self.objects.items():
            if key.startswith(prefix):
                yield StoredObject(key, size_bytes)

    def _add(self, fault: StoreFault) -> StoreFault:
        with self._lock:
            self._faults.append(fault)
        return fault

    def _disturb(self, request: StoreRequest, key: str) -> None:
        """Let all faults act, in the order in which they were made."""
        with self._lock:
            faults = [each for each in self._faults if each.takes(request, key)]
        for fault in faults:
            fault.act(key)
