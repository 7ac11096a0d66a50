"""Fetches replicas from their leaders, by `num.replica.fetchers` connections to each broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from wirekafka.broker import Broker
from wirekafka.clock import Clock
from wirekafka.codec.message import Request
from wirekafka.codec.outgoing_request import OutgoingRequest
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.coordinator.java_hash import java_hash_code
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.image.followers import replication_throttle
from wirekafka.replication.fetching.fetcher import Fetcher
from wirekafka.replication.fetching.fetcher_session import FollowedKey, Plan
from wirekafka.replication.fetching.follower_fetch import FollowerFetch, LeaderResponse
from wirekafka.replication.fetching.leader_offsets import leader_offsets
from wirekafka.replication.fetching.throttle import ReplicationThrottle
from wirekafka.replication.fetching.tier_start import tier_start
from wirekafka.replication.partition.partition import Partition
from wirekafka.runtime.driver import start_later
from wirekafka.runtime.promise import DirectPromise, Promise
from wirekafka.server.peers.broker_connections import BrokerConnections

logger = logging.getLogger(__name__)

_TURN_MS = 2
"""How long a response is processed before yielding to the event loop."""
_SESSION_ERRORS = frozenset(
    {
        Error.FETCH_SESSION_ID_NOT_FOUND,
        Error.INVALID_FETCH_SESSION_EPOCH,
        Error.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class LeaderConnection(Protocol):
    """A connection to a leader; `Peer` is one."""

    def post(
        self, outgoing: OutgoingRequest, answered: Callable[[Any], None], *, timeout_ms: int
    ) -> None:
        """Send a request, and pass its response or a KafkaError to `answered`."""

    def close(self) -> None:
        """Close it permanently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The broker, as its fetchers see it."""

    node_id: int
    clock: Clock
    config: Callable[[], BrokerConfig]
    broker_epoch: Callable[[], int]
    """The epoch of this broker's registration, which leaders check (KIP-903)."""
    connect: Callable[[int, str], LeaderConnection]
    """Returns a connection to a broker, given its id and a client id; it may connect lazily.

    Raises KafkaError(BROKER_NOT_AVAILABLE) while the broker's address is unknown.
    """
    throttle: ReplicationThrottle


def replica_fetchers(broker: Broker, connections: BrokerConnections) -> ReplicaFetchers:
    """Return the fetchers of a broker."""
    return ReplicaFetchers(
        Surroundings(
            node_id=broker.node_id,
            clock=connections.clock,
            config=lambda: broker.config,
            broker_epoch=lambda: broker.epoch,
            connect=connections.connect,
            throttle=replication_throttle(broker.image, broker.config, "follower"),
        )
    )


class _Place(NamedTuple):
    """The fetcher of a partition: the leader's id, and the number among its fetchers."""

    leader_id: int
    number: int


class ReplicaFetchers:
    """All fetchers of a broker (`replication.fetching.Fetching`).

    As in Kafka, a partition's fetcher is chosen by a hash of its name, and the client ids are
    `broker-<id>-fetcher-<number>`. A fetcher whose last partition is removed ends at once.
    """

    def __init__(self, surroundings: Surroundings):
        self._surroundings = surroundings
        self._fetchers: dict[_Place, _LeaderFetcher] = {}
        self._places: dict[FollowedKey, tuple[_Place, Partition]] = {}
        self._has_stopped = False
        config = surroundings.config()
        self._fetcher_count = config.num_replica_fetchers

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its current leader, if it has one. Raises KafkaError."""
        leader_id = partition.leader_id
        if leader_id < 0 or self._has_stopped:
            self.forget(partition)
            return
        key = partition.topic_id, partition.index
        place = _Place(leader_id, _number(partition, self._fetcher_count))
        known = self._places.get(key)
        if known is not None and known != (place, partition):
            self._remove(*known)
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = _LeaderFetcher(place, self._surroundings)
        self._places[key] = place, partition
        fetcher.fetcher.follow(partition, self._surroundings.clock.now_ms())

    def forget(self, partition: Partition) -> None:
        """Stop fetching a partition."""
        known = self._places.pop((partition.topic_id, partition.index), None)
        if known is not None:
            self._remove(*known)

    def configured(self) -> None:
        """Reassign the partitions to fetchers if `num.replica.fetchers` has changed."""
        config = self._surroundings.config()
        count = config.num_replica_fetchers
        if count == self._fetcher_count:
            return
        self._fetcher_count = count
        for _, partition in list(self._places.values()):
            self.follow(partition)

    def lags(self) -> Iterator[tuple[str, Partition, int]]:
        """The fetcher, by its name in Kafka's metrics, and the lag in records of each partition."""
        for place, fetcher in list(self._fetchers.items()):
            name = f"ReplicaFetcherThread-{place.number}-{place.leader_id}"
            for partition, lag in fetcher.fetcher.lags():
                yield name, partition, lag

    def stop(self) -> None:
        """Close all connections; nothing is fetched or appended afterwards."""
        self._has_stopped = True
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
        self._places.clear()

    def _remove(self, place: _Place, partition: Partition) -> None:
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            return
        fetcher.fetcher.forget(partition)
        if not len(fetcher.fetcher):
            fetcher.stop()
            del self._fetchers[place]


class _LeaderFetcher:
    """One connection to one leader, and the task that fetches over it."""

    def __init__(self, place: _Place, surroundings: Surroundings):
        self._surroundings = surroundings
        self._clock = surroundings.clock
        self._leader_id = place.leader_id
        self._client_id = f"broker-{surroundings.node_id}-fetcher-{place.number}"
        self._connection: LeaderConnection | None = None
        self._pause: Promise[None] | None = None
        self._last_failure: int | None = None
        self.fetcher = Fetcher(self._backoff_ms, surroundings.throttle)
        self.fetcher.on_ready = self._wake
        self._fetches = FollowerFetch(
            surroundings.node_id, surroundings.config, surroundings.broker_epoch
        )
        self._run = start_later(self._fetch_all)

    def stop(self) -> None:
        """End fetching, and close the connection."""
        self._run.stop()
        self._disconnect()

    async def _fetch_all(self) -> None:
        while True:
            try:
                plan = self.fetcher.plan(self._clock.now_ms())
                if plan is None:
                    await self._until(self.fetcher.next_retry_ms(self._clock.now_ms()))
                else:
                    await self._fetch(plan)
            except Exception as error:
                self._failed(error)
                await self._until(self._clock.now_ms() + self._backoff_ms())

    async def _fetch(self, plan: Plan) -> None:
        """Send one request, and process its response. Raises KafkaError."""
        answer: DirectPromise[LeaderResponse] = DirectPromise()
        self._post(self._fetches.planned(plan), answer)
        response = await answer
        if response.error:
            self.fetcher.refuse(response.error)
            if response.error not in _SESSION_ERRORS:
                raise KafkaError.of(response.error)
            return
        if self._last_failure is not None:
            logger.info("Fetching from broker %d succeeds again", self._leader_id)
            self._last_failure = None
        self.fetcher.accept(response.session_id)
        await self._take(response)
        out_of_range = self.fetcher.out_of_range()
        if out_of_range:
            await self._return_to_range(out_of_range)
        moved = self.fetcher.moved()
        if moved:
            await asyncio.gather(*map(self._begin_after_remote, moved))

    async def _take(self, response: LeaderResponse) -> None:
        """Apply a response, yielding to other requests every `_TURN_MS`."""
        now, take = self._clock.now_ms, self.fetcher.take
        turn_ends_ms = now() + _TURN_MS
        for key, fetched in response.partitions:
            now_ms = now()
            if now_ms >= turn_ends_ms:
                await asyncio.sleep(0)
                turn_ends_ms = now_ms + _TURN_MS
            take(key, fetched, now_ms)

    async def _return_to_range(self, partitions: list[Partition]) -> None:
        """Request the leader's offsets for partitions that are out of its range, and apply them."""
        asked = {partition: partition.leader_epoch for partition in partitions}
        try:
            found = await leader_offsets(self._surroundings.node_id, partitions, self._send)
        except KafkaError as error:
            for partition in partitions:
                self.fetcher.fail(partition, error, self._clock.now_ms())
            raise
        now_ms = self._clock.now_ms()
        for partition, offsets in found.items():
            if partition.leader_epoch != asked[partition]:
                continue
            if isinstance(offsets, KafkaError):
                self.fetcher.fail(partition, offsets, now_ms)
            else:
                self.fetcher.return_to_range(partition, *offsets, now_ms)

    async def _begin_after_remote(self, partition: Partition) -> None:
        """Begin a log where the leader's remote part ends."""
        surroundings, epoch = self._surroundings, partition.leader_epoch
        try:
            found = await tier_start(
                surroundings.node_id,
                partition,
                self._send,
                after_all_copied=surroundings.config().follower_fetch_last_tiered_offset_enable,
            )
        except KafkaError as error:
            self.fetcher.fail(partition, error, self._clock.now_ms())
            return
        if partition.leader_epoch == epoch:
            now_ms = self._clock.now_ms()
            self.fetcher.restart_after_remote(partition, found.start_offset, found.local, now_ms)

    async def _send(self, request: Request) -> Any:
        # Not a `DirectPromise`: several partitions begin after their remote parts, each in a task.
        answer: Promise[Any] = Promise()
        self._post(OutgoingRequest(request), answer)
        return await answer

    def _post(self, outgoing: OutgoingRequest, answer: Promise[Any]) -> None:
        """Send a request; `answer` gets its response or a KafkaError."""
        if self._connection is None:
            self._connection = self._surroundings.connect(self._leader_id, self._client_id)
        config = self._surroundings.config()
        self._connection.post(outgoing, answer.set, timeout_ms=config.replica_socket_timeout_ms)

    def _failed(self, error: Exception) -> None:
        """Close the connection, and log the error unless it repeats the last KafkaError."""
        self._disconnect()
        self.fetcher.interrupt()
        if not isinstance(error, KafkaError):
            logger.exception("Fetching from broker %d failed", self._leader_id)
        elif error.error != self._last_failure:
            self._last_failure = error.error
            logger.warning("Cannot fetch from broker %d: %s", self._leader_id, error)

    def _disconnect(self) -> None:
        # The next connection uses the address that the leader has then.
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _backoff_ms(self) -> int:
        config = self._surroundings.config()
        return config.replica_fetch_backoff_ms

    async def _until(self, due_ms: int | None) -> None:
        """Wait until `due_ms`, None for no limit, or until a partition can be fetched."""
        pause = self._pause = Promise()
        try:
            if due_ms is None:
                await pause
            else:
                await pause.within(self._clock, max(due_ms - self._clock.now_ms(), 0))
        finally:
            self._pause = None

    def _wake(self) -> None:
        if self._pause is not None:
            self._pause.set(None)


def _number(partition: Partition, fetcher_count: int) -> int:
    """Return which of a leader's fetchers fetches a partition, by the hash that Kafka uses."""
    code = (31 * java_hash_code(partition.topic) + partition.index) & 0xFFFFFFFF
    if code & 0x80000000:
        code = 0 if code == 0x80000000 else (1 << 32) - code
    return code % fetcher_count
