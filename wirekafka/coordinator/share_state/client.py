"""Reads and writes the states of share partitions at their coordinators, with retries."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from wirekafka.clock import Clock
from wirekafka.coordinator.routing import Routing
from wirekafka.coordinator.share_state.commands import KeyedCommand, StateDeletion, SummaryRead
from wirekafka.coordinator.share_state.coordinator import ShareCoordinator
from wirekafka.coordinator.share_state.states import (
    ShareKey,
    StateInitialization,
    StateRead,
    StateSummary,
    StateWrite,
    StoredState,
    coordinator_key,
)
from wirekafka.coordinator.share_state.wire import run_on_share_states
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.partition.internal_topics import SHARE_STATE_TOPIC
from wirekafka.replication.partition.replica import NO_LEADER
from wirekafka.runtime.backoff import Backoff
from wirekafka.runtime.driver import start
from wirekafka.runtime.promise import Pauses, Promise

logger = logging.getLogger(__name__)

_RETRIED = frozenset(
    {Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE, Error.COORDINATOR_LOAD_IN_PROGRESS}
)
_OF_REQUESTS = dict.fromkeys(
    (Error.BROKER_NOT_AVAILABLE, Error.NETWORK_EXCEPTION, Error.REQUEST_TIMED_OUT),
    Error.COORDINATOR_NOT_AVAILABLE,
)
"""Errors of whole requests between brokers, and the errors reported for their partitions."""

_BACKOFF = Backoff(first_ms=50, longest_ms=5_000)
_RETRIES = 9
"""About 15 seconds in all."""


class ShareStateClient:
    """The `ShareStates` of a broker.

    `coordinator` has the shards that this broker leads; `routing` finds all other shards.
    `ensure_topic` creates `__share_group_state` if it does not exist; it may raise KafkaError.
    Errors that say that the coordinator is moving, loading or cannot be reached are returned only
    after retries with a growing delay.
    """

    def __init__(
        self,
        coordinator: ShareCoordinator,
        routing: Routing,
        ensure_topic: Callable[[], Awaitable[None]],
        clock: Clock,
    ):
        self._coordinator = coordinator
        self._routing = routing
        self._ensure_topic = ensure_topic
        self._pauses = Pauses(clock)

    async def initialize(
        self, initializations: Sequence[StateInitialization]
    ) -> list[KafkaError | None]:
        """Create or reset states, at their coordinators; see `ShareStates`."""
        return await self._run(initializations)

    async def read(self, reads: Sequence[StateRead]) -> list[StoredState | KafkaError]:
        """Read states from their coordinators; see `ShareStates`."""
        return await self._run(reads)

    async def write(self, writes: Sequence[StateWrite]) -> list[KafkaError | None]:
        """Change states at their coordinators; see `ShareStates`."""
        return await self._run(writes)

    async def delete(self, keys: Sequence[ShareKey]) -> list[KafkaError | None]:
        """Delete states at their coordinators; see `ShareStates`."""
        return await self._run([StateDeletion(key) for key in keys])

    async def read_summaries(self, reads: Sequence[StateRead]) -> list[StateSummary | KafkaError]:
        """Read states without their batches; see `ShareStates`."""
        return await self._run([SummaryRead(each.key) for each in reads])

    def stop(self) -> None:
        """End all delays: requests that wait for a retry get one more attempt, and no other."""
        self._pauses.end()

    async def _run(self, commands: Sequence[KeyedCommand]) -> list[Any]:
        results = await self._attempt(commands)
        for failures in range(_RETRIES):
            failed = [index for index, result in enumerate(results) if _is_retried(result)]
            if not failed or self._pauses.has_ended:
                break
            await self._pauses.wait(_BACKOFF.delay_ms(failures))
            again = await self._attempt([commands[index] for index in failed])
            for index, result in zip(failed, again, strict=True):
                results[index] = result
        return results

    async def _attempt(self, commands: Sequence[KeyedCommand]) -> list[Any]:
        try:
            await self._ensure_topic()
        except KafkaError:
            return [KafkaError(Error.COORDINATOR_NOT_AVAILABLE) for _ in commands]
        elsewhere: dict[tuple[int, str], list[KeyedCommand]] = {}
        here = []
        for command in commands:
            broker_id = self._broker_of(command)
            if broker_id == self._routing.node_id:
                here.append(command)
            else:
                elsewhere.setdefault((broker_id, command.key.group_id), []).append(command)
        if not elsewhere:
            return await self._coordinator.submit_all(commands)
        # All requests are sent before the first response is awaited.
        requests: list[Promise[Sequence[Any]]] = [Promise() for _ in elsewhere]
        for ((broker_id, _), wanted), request in zip(elsewhere.items(), requests, strict=True):
            start(self._request(broker_id, wanted, request))
        found = dict(zip(here, await self._coordinator.submit_all(here), strict=True))
        for wanted, request in zip(elsewhere.values(), requests, strict=True):
            found.update(zip(wanted, await request, strict=True))
        return [found[command] for command in commands]

    def _broker_of(self, command: KeyedCommand) -> int:
        """The broker of a command's coordinator; without one, this broker, which refuses."""
        try:
            index = self._coordinator.partition_for(coordinator_key(command.key))
        except KafkaError:
            return self._routing.node_id
        leader = self._routing.leader_of(SHARE_STATE_TOPIC, index)
        return self._routing.node_id if leader is None or leader == NO_LEADER else leader

    async def _request(
        self, broker_id: int, commands: Sequence[KeyedCommand], results: Promise[Sequence[Any]]
    ) -> None:
        """Run commands on states of one group at another broker, and set `results`."""
        try:
            results.set(await run_on_share_states(self._routing, broker_id, commands))
        except KafkaError as error:
            code = _OF_REQUESTS.get(error.error, error.error)
            results.set([KafkaError(code, error.message) for _ in commands])
        except Exception:
            logger.exception("A request for share-group states to broker %d failed", broker_id)
            results.set([KafkaError(Error.UNKNOWN_SERVER_ERROR) for _ in commands])


def _is_retried(result: Any) -> bool:
    return isinstance(result, KafkaError) and result.error in _RETRIED
