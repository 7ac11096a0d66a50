"""Drives a node of the metadata quorum: its timers, and its requests to the other nodes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wirekafka.clock import Clock, Timer
from wirekafka.config.address import Address
from wirekafka.errors import Error, KafkaError
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.replication.raft.messages import (
    Answer,
    FetchAnswer,
    FetchPosition,
    FetchSnapshot,
    Outgoing,
)
from wirekafka.replication.raft.raft import Raft
from wirekafka.replication.raft.wire import QuorumWire, decoded, encoded, exact_version
from wirekafka.runtime.promise import Promise
from wirekafka.server.peers.peer import Peer

logger = logging.getLogger(__name__)

_STOP_MS = 5_000
"""How long a leader that stops waits for its successor, as in Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverParts:
    """The dependencies of a driver.

    `connect` returns a new, unconnected peer at a host and port. `servers` are the controllers
    from which a leader can be found: `controller.quorum.bootstrap.servers`, or the static voters.
    `failed` is called with the error after which the metadata log can no longer be followed.
    """

    clock: Clock
    wire: QuorumWire
    connect: Callable[[str, int], Peer]
    servers: Sequence[Address]
    failed: Callable[[Exception], None]


class QuorumDriver:
    """Performs the I/O of one `Raft`: sends its requests, and calls it when they are answered.

    Fetches have connections of their own: a leader lets them wait, and serves the requests of a
    connection one after the other.
    """

    def __init__(self, raft: Raft, parts: DriverParts):
        self._raft = raft
        self._parts = parts
        self._peers: dict[tuple[Address, bool], Peer] = {}
        self._exchanges: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None
        self._is_scheduled = False
        self._next_server = 0
        self._caught_up: Promise[None] = Promise()
        self._is_awaited = False
        self._succeeded: Promise[None] | None = None
        self._resigned_epoch = 0
        self._cut_off: Promise[None] | None = None
        self._is_closed = False
        self.last_failure: KafkaError | None = None
        """Why the last request that was not answered was not, or was refused."""

    def start(self) -> None:
        """Take part in the quorum until `stop`; the only voter leads it when this returns."""
        self._raft.on_output = self._schedule
        self._raft.start(self._parts.clock.now_ms())
        self._flush()

    async def caught_up(self) -> None:
        """Wait until the log is committed up to the high watermark that the leader reported.

        At the leader, until a record of its epoch is committed. Raises UnusableDirectory,
        KafkaError, OSError if the metadata cannot be followed.
        """
        self._is_awaited = True
        if not self._raft.is_established:
            await self._caught_up

    async def cut_off(self) -> None:
        """Wait until no majority of the voters can be reached; forever after `stop`."""
        self._cut_off = Promise()
        if self._raft.is_cut_off:
            self._cut_off.set(None)
        await self._cut_off

    async def stop(self) -> None:
        """Leave the quorum: a leader first waits for its successor, at most 5 s.

        It does not wait if no majority is left to elect one.
        """
        raft = self._raft
        if raft.is_leader and len(raft.voters) > 1:
            self._resigned_epoch = raft.leadership.epoch
            self._succeeded = Promise()
            raft.resign(self._parts.clock.now_ms())
            self._flush()
            await self._succeeded.within(self._parts.clock, _STOP_MS)
        self.abort()

    def abort(self) -> None:
        """Close all connections at once; no further response is processed."""
        self._is_closed = True
        self._raft.on_output = None
        if self._timer is not None:
            self._timer.cancel()
        peers = self._peers
        self._peers = {}
        for peer in peers.values():
            peer.close()

    def _schedule(self) -> None:
        """Send the requests in the outbox, after the call that added them has returned."""
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._parts.clock.call_later(0, self._flush)

    def _flush(self) -> None:
        """Call `Raft.tick` if it is due, send the outbox, and set the timer."""
        if self._is_closed:
            return
        self._is_scheduled = True  # What `tick` puts into the outbox is sent below.
        raft = self._raft
        now_ms = self._parts.clock.now_ms()
        due_ms = raft.deadline()
        if due_ms is not None and due_ms <= now_ms:
            try:
                raft.tick(now_ms)
            except (UnusableDirectory, OSError, KafkaError) as error:
                self._fail(error)
                return
        self._is_scheduled = False
        for outgoing in raft.take_outbox():
            exchange = asyncio.get_running_loop().create_task(self._exchange(outgoing))
            self._exchanges.add(exchange)
            exchange.add_done_callback(self._exchanges.discard)
        if raft.is_established:
            self._caught_up.set(None)
        is_succeeded = raft.leadership.epoch > self._resigned_epoch
        if self._succeeded is not None and (is_succeeded or raft.is_cut_off):
            self._succeeded.set(None)
        if self._cut_off is not None and raft.is_cut_off:
            self._cut_off.set(None)
        self._set_timer(raft.deadline(), now_ms)

    def _set_timer(self, due_ms: int | None, now_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_ms is not None:
            delay_ms = max(due_ms - now_ms, 1)
            self._timer = self._parts.clock.call_later(delay_ms, self._flush)

    async def _exchange(self, outgoing: Outgoing) -> None:
        """Send a request, and pass on its response, or the reason why there is none."""
        answer: Answer | KafkaError
        try:
            answer = await self._send(outgoing)
        except KafkaError as error:
            answer = self.last_failure = error
        if self._is_closed:
            return
        self._is_scheduled = True  # `_flush` is called below.
        try:
            _check_cluster(outgoing, answer)
            self._raft.answered(outgoing, answer, self._parts.clock.now_ms())
        except (UnusableDirectory, OSError, KafkaError) as error:
            self._fail(error)
            return
        except Exception as error:
            logger.exception("Following the metadata quorum failed")
            self._fail(error)
            return
        self._note_progress(answer)
        self._flush()

    async def _send(self, outgoing: Outgoing) -> Answer:
        """Send a request and return the answer. Raises KafkaError."""
        request, wire = outgoing.request, self._parts.wire
        is_fetch = isinstance(request, FetchPosition | FetchSnapshot)
        peer = self._peer(self._address(outgoing), is_fetch)
        response = await peer.send(
            encoded(request, wire), exact_version(request), timeout_ms=outgoing.timeout_ms
        )
        return decoded(request, response, wire.listener)

    def _address(self, outgoing: Outgoing) -> Address:
        """The address of the receiver; if any server will do, one server after the other."""
        if outgoing.endpoint is not None:
            return Address(*outgoing.endpoint)
        servers = self._parts.servers
        if not servers:
            raise KafkaError(Error.NETWORK_EXCEPTION, "no address of a controller is known")
        self._next_server += 1
        return servers[self._next_server % len(servers)]

    def _peer(self, address: Address, is_fetch: bool) -> Peer:
        key = address, is_fetch
        peer = self._peers.get(key)
        if peer is None:
            peer = self._peers[key] = self._parts.connect(address.host, address.port)
        return peer

    def _note_progress(self, answer: Answer | KafkaError) -> None:
        if (
            isinstance(answer, FetchAnswer)
            and answer.error is Error.NONE
            and answer.diverging is None
            and answer.snapshot is None
            and 0 <= answer.high_watermark <= self._raft.log.committed_offset
        ):
            self._caught_up.set(None)

    def _fail(self, error: Exception) -> None:
        self.abort()
        if self._caught_up.done or not self._is_awaited:
            logger.critical("The metadata cannot be followed: %s", error)
            self._parts.failed(error)
        self._caught_up.set(error)


def _check_cluster(outgoing: Outgoing, answer: Answer | KafkaError) -> None:
    """Raise UnusableDirectory if a leader refuses fetches because it is of another cluster."""
    if (
        isinstance(answer, KafkaError)
        and answer.error is Error.INCONSISTENT_CLUSTER_ID
        and isinstance(outgoing.request, FetchPosition)
    ):
        raise UnusableDirectory("the log directories belong to another cluster")
