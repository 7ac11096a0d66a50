"""Stored states of share partitions in memory, for tests of their users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from wirekafka.coordinator.share_state.states import (
    NO_COUNT,
    NO_OFFSET,
    ShareKey,
    StateBatch,
    StateInitialization,
    StateRead,
    StateSummary,
    StateWrite,
    StoredState,
)
from wirekafka.errors import Error, KafkaError


@dataclass
class MemoryState:
    """One stored state; `deliveries` are (delivery state, delivery count) by offset."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = NO_COUNT
    deliveries: dict[int, tuple[int, int]] = field(default_factory=dict)

    def batches(self) -> tuple[StateBatch, ...]:
        """The state of each offset, adjacent equal ones as one batch."""
        batches: list[StateBatch] = []
        for offset, (state, count) in sorted(self.deliveries.items()):
            last = batches[-1] if batches else None
            if last is not None and last[1:] == (offset - 1, state, count):
                batches[-1] = last._replace(last_offset=offset)
            else:
                batches.append(StateBatch(offset, offset, state, count))
        return tuple(batches)


class MemoryShareStates:
    """Implements `ShareStates` in memory.

    `failures` are the errors of the next partitions in calls, of any kind; `calls` has every
    request, in order.
    """

    def __init__(self) -> None:
        self.states: dict[ShareKey, MemoryState] = {}
        self.failures: list[KafkaError] = []
        self.calls: list[StateInitialization | StateRead | StateWrite | ShareKey] = []

    async def initialize(
        self, initializations: Sequence[StateInitialization]
    ) -> list[KafkaError | None]:
        return [self._run(self._initialize, each) for each in initializations]

    async def read(self, reads: Sequence[StateRead]) -> list[StoredState | KafkaError]:
        return [self._run(self._read, each) for each in reads]

    async def write(self, writes: Sequence[StateWrite]) -> list[KafkaError | None]:
        return [self._run(self._write, each) for each in writes]

    async def delete(self, keys: Sequence[ShareKey]) -> list[KafkaError | None]:
        return [self._run(self._delete, each) for each in keys]

    async def read_summaries(self, reads: Sequence[StateRead]) -> list[StateSummary | KafkaError]:
        return [self._run(self._summarize, each) for each in reads]

    def _run(self, method: Callable[[Any], Any], request: Any) -> Any:
        self.calls.append(request)
        if self.failures:
            return self.failures.pop(0)
        try:
            return method(request)
        except KafkaError as error:
            return error

    def _initialize(self, request: StateInitialization) -> None:
        known = self.states.get(request.key)
        if known is not None and request.state_epoch < known.state_epoch:
            raise KafkaError(Error.FENCED_STATE_EPOCH)
        count = NO_COUNT if request.start_offset == NO_OFFSET else 0
        self.states[request.key] = MemoryState(
            request.state_epoch, 0, request.start_offset, delivery_complete_count=count
        )

    def _read(self, request: StateRead) -> StoredState:
        known = self._found(request.key, request.leader_epoch)
        return StoredState(known.state_epoch, known.start_offset, known.batches())

    def _write(self, request: StateWrite) -> None:
        known = self._found(request.key, request.leader_epoch)
        if request.state_epoch < known.state_epoch:
            raise KafkaError(Error.FENCED_STATE_EPOCH)
        count = request.delivery_complete_count
        if request.start_offset == known.start_offset:
            known.delivery_complete_count = max(known.delivery_complete_count, count)
        elif request.start_offset > known.start_offset:
            known.start_offset, known.delivery_complete_count = request.start_offset, count
        for batch in request.batches:
            delivery = batch.delivery_count, batch.delivery_state
            for offset in range(batch.first_offset, batch.last_offset + 1):
                stored_state, stored_count = known.deliveries.get(offset, (0, -1))
                stored_count, stored_state = max((stored_count, stored_state), delivery)
                known.deliveries[offset] = stored_state, stored_count
        for offset in [each for each in known.deliveries if each < known.start_offset]:
            del known.deliveries[offset]

    def _delete(self, key: ShareKey) -> None:
        self.states.pop(key, None)

    def _summarize(self, request: StateRead) -> StateSummary:
        known = self.states.get(request.key)
        if known is None:
            return StateSummary(0, 0, NO_OFFSET, NO_COUNT)
        return StateSummary(
            known.state_epoch, known.leader_epoch, known.start_offset, known.delivery_complete_count
        )

    def _found(self, key: ShareKey, leader_epoch: int) -> MemoryState:
        known = self.states.get(key)
        if known is None or leader_epoch < 0:
            raise KafkaError(Error.INVALID_REQUEST)
        if leader_epoch < known.leader_epoch:
            raise KafkaError(Error.FENCED_LEADER_EPOCH)
        known.leader_epoch = max(known.leader_epoch, leader_epoch)
        return known
