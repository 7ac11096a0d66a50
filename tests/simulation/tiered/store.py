"""An object store in virtual time, which all nodes share and which outlives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from tests.simulation.loop import VirtualLoop
from tests.simulation.tiered.threads import Threads
from wirekafka.codec.batch import Buffer
from wirekafka.tiered.store import ObjectMissing, StoredObject, StoreError

Result = TypeVar("Result")


@dataclass(slots=True)
class StoreFaults:
    """How often a request fails, before or after it has taken effect, or takes very long."""

    refused: float = 0.0
    lost: float = 0.0
    """The answer to a request that has taken effect is lost."""
    hanging: float = 0.0
    hanging_s: float = 4.0
    lag_s: float = 0.0
    """How old listings are."""


@dataclass(slots=True)
class _Change:
    at_s: float
    key: str
    data: bytes | None
    """None for a deletion."""


class SimulatedStore:
    """The objects, and what happens to the requests for them."""

    def __init__(self, loop: VirtualLoop, random: Random):
        self.loop = loop
        self.random = random
        self.faults = StoreFaults()
        self.objects: dict[str, bytes] = {}
        self.violations: list[str] = []
        self.requests = 0
        self.on_step: Callable[[str, str], None] = lambda node, what: None
        """Called before and after each request takes effect, with the name of the node."""
        self._changes: list[_Change] = []

    def heal(self) -> None:
        """End all faults."""
        self.faults = StoreFaults()

    def put(self, key: str, data: bytes) -> None:
        """Store an object."""
        if self.objects.get(key, data) != data:
            self.violations.append(f"CHANGED the object {key}")
        self.objects[key] = data
        self._changes.append(_Change(self.loop.time(), key, data))

    def delete(self, key: str) -> None:
        """Delete an object."""
        if self.objects.pop(key, None) is not None:
            self._changes.append(_Change(self.loop.time(), key, None))

    def listed(self) -> dict[str, bytes]:
        """The objects as a listing has them, which may be old."""
        found: dict[str, bytes] = {}
        for change in self._changes:
            if change.at_s > self.loop.time() - self.faults.lag_s:
                break
            if change.data is None:
                found.pop(change.key, None)
            else:
                found[change.key] = change.data
        return found


class StoreClient:
    """A `Store` as one process of a node has it."""

    def __init__(self, store: SimulatedStore, node: str, threads: Threads):
        self._store = store
        self._node = node
        self._threads = threads

    def put(self, key: str, pieces: Iterable[Buffer]) -> None:
        # The object exists as a whole or not at all: a process that ends before has stored nothing.
        parts = []
        for piece in pieces:
            self._threads.wait(self._store.random.expovariate(1_000))
            parts.append(bytes(piece))
        self._request(f"put {key}", lambda: self._store.put(key, b"".join(parts)))

    def get(self, key: str) -> Buffer:
        return self._request(f"get {key}", lambda: self._found(key))

    def get_range(self, key: str, start: int, end: int) -> Buffer:
        return self._request(f"get {key} {start}", lambda: self._found(key)[start:end])

    def delete(self, key: str) -> None:
        self._request(f"delete {key}", lambda: self._store.delete(key))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        found = self._request(f"list {prefix}", self._store.listed)
        for key, data in found.items():
            if key.startswith(prefix):
                yield StoredObject(key, len(data))

    def _found(self, key: str) -> bytes:
        if key not in self._store.objects:
            raise ObjectMissing(key)
        return self._store.objects[key]

    def _request(self, what: str, effect: Callable[[], Result]) -> Result:
        store, faults, random = self._store, self._store.faults, self._store.random
        self._threads.check()
        store.requests += 1
        self._threads.wait(self._delay_s())
        if random.random() < faults.refused:
            raise StoreError(f"{what}: the store is not available")
        store.on_step(self._node, f"before {what}")
        self._threads.wait(0)  # The node may have crashed.
        result = effect()
        store.on_step(self._node, f"after {what}")
        self._threads.wait(self._delay_s())
        if random.random() < faults.lost:
            raise StoreError(f"{what}: the answer was lost")
        return result

    def _delay_s(self) -> float:
        store = self._store
        if store.random.random() < store.faults.hanging:
            return store.random.uniform(0, store.faults.hanging_s)
        return store.random.expovariate(300)
