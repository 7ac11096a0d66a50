"""How a registry changes: pure decisions on its newest state, and who writes their records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from wirekafka.registry.entry import Entry
from wirekafka.registry.state import RegistryState

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decided(Generic[T]):
    """What a decision writes, and the answer once all of it is written and replayed."""

    entries: Sequence[Entry]
    answer: T


Decision = Callable[[RegistryState], Decided[T]]
"""A pure function of the newest state. Raises RegistryError."""


class Writer(Protocol):
    """Takes the decisions of a registry one after the other."""

    async def submit(self, decision: Decision[T]) -> T:
        """Decide on the newest state, write and replay the records; returns the answer.

        Raises RegistryError. A decision may parse schemas: a writer runs decisions in a thread,
        one at a time, and replays nothing meanwhile.
        """

    def state(self) -> RegistryState:
        """What has been read, for look-ups; changed on the loop's thread only."""


class MemoryWriter:
    """A registry whose records are in a list: for tests, and for brokers that keep nothing."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self.entries: list[Entry] = []
        self._state = RegistryState()
        self._turn = asyncio.Lock()
        self._write(entries)

    async def submit(self, decision: Decision[T]) -> T:
        """Decide, write and replay."""
        async with self._turn:
            decided = await asyncio.to_thread(decision, self._state)
            self._write(decided.entries)
            return decided.answer

    def state(self) -> RegistryState:
        """All that was written."""
        return self._state

    def _write(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._state.replay(entry, len(self.entries), time.time_ns() // 1_000_000)
            self.entries.append(entry)
        if entries:
            self.entries[-1:] = self._state.stamped(self.entries[-1:])
