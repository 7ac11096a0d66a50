"""A broker's channel to the active controller on another node."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from wirekafka.apis import envelope as envelopes
from wirekafka.apis.shared.call import Call
from wirekafka.clock import Clock
from wirekafka.codec.message import Request
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.broker.feed import MetadataFeed
from wirekafka.metadata.controller.channel import ControllerChannel
from wirekafka.protocol.alter_partition import AlterPartitionRequest
from wirekafka.protocol.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from wirekafka.protocol.broker_heartbeat import BrokerHeartbeatRequest
from wirekafka.protocol.broker_registration import BrokerRegistrationRequest
from wirekafka.protocol.describe_quorum import DescribeQuorumRequest
from wirekafka.protocol.list_partition_reassignments import ListPartitionReassignmentsRequest
from wirekafka.replication.partition.internal_topics import METADATA_TOPIC
from wirekafka.runtime.backoff import Backoff
from wirekafka.runtime.driver import start
from wirekafka.runtime.promise import Promise, computed, pause
from wirekafka.server.controllers.controller_search import ControllerSearch, FoundController
from wirekafka.server.peers.peer import Peer

logger = logging.getLogger(__name__)

BACKOFF = Backoff(first_ms=50, longest_ms=500, jitter=0.2)
"""As in Kafka's quorum: the brokers of a cluster lose their controller at the same time."""
_FORWARD_FOR_MS = 60_000
_FOLLOW_FOR_MS = 2_000
_LEAVE_AFTER_MS = 500
_NEWEST_DESCRIBE_QUORUM = 2
_READS: frozenset[type[Request]] = frozenset(
    {DescribeQuorumRequest, ListPartitionReassignmentsRequest}
)
"""Forwarded requests that only read, after which there is no change to wait for."""
_UNREACHABLE = frozenset({Error.NETWORK_EXCEPTION, Error.REQUEST_TIMED_OUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRoute:
    """A channel's connections to the controllers, and the broker's own metadata."""

    search: ControllerSearch
    connect: Callable[[str, int], Peer]
    """Returns a new, unconnected peer at a host and port."""
    clock: Clock
    config: Callable[[], BrokerConfig]
    feed: MetadataFeed
    """The broker's own metadata, which `forward` and `create_topics` wait for."""


class RemoteChannel(ControllerChannel):
    """Sends a broker's requests to the active controller.

    A request is sent again, to the controller then active, when the connection is lost, no response
    arrives in time, another controller has become active, or the response is NOT_CONTROLLER.
    Heartbeats, ISR changes, directory assignments and all other requests each have a connection of
    their own, as in Kafka, because controllers serve the requests of a connection one after the
    other.
    """

    def __init__(self, route: ControllerRoute):
        self._route = route
        config = route.config
        self._general = _Lane(route, lambda: _FORWARD_FOR_MS)
        self._directories = _Lane(route, lambda: _FORWARD_FOR_MS)
        self._isrs = _Lane(route, lambda: _FORWARD_FOR_MS)
        self._heartbeats = _Lane(route, lambda: config().broker_session_timeout_ms // 2)
        self._lanes = (self._general, self._directories, self._isrs, self._heartbeats)
        route.search.on_learned = self._leave_others

    @property
    def controller_versions(self) -> Mapping[int, tuple[int, int]]:
        """As `ControllerChannel`, of the controller that was sent the last heartbeat."""
        return self._heartbeats.versions or self._general.versions

    async def send(self, request: Request, version: int) -> Any:
        """As `MessageChannel`; in an older version than `version` if the controller requires it.

        Raises KafkaError: REQUEST_TIMED_OUT if no controller has answered within half of
        `broker.session.timeout.ms` for registrations and heartbeats, and within a minute for other
        requests.
        """
        return await self._lane_of(type(request)).send(request, version)

    async def follow(self) -> None:
        """As `ControllerChannel`, but for two seconds at most: the change itself has been made.

        Waits for the high watermark that the controller reports, which covers the change. Clients
        do not wait longer for a controller that is lost after the change, or for its successor.
        """
        over: Promise[None] = Promise()
        start(self._follow(over))
        await over.within(self._route.clock, _FOLLOW_FOR_MS)

    async def forward(self, request: Any, call: Call) -> Any:
        """As `ControllerChannel`; None if the client must connect again (KIP-590).

        Raises KafkaError if the controller refuses the envelope, and REQUEST_TIMED_OUT.
        """
        wrapped = await computed(call.run_apart, partial(envelopes.wrap, request, call))
        envelope = await self._general.send(wrapped, 0)
        if envelope.error_code == Error.UNSUPPORTED_VERSION:
            # A controller with other versions became active; on a new connection the client
            # negotiates the versions again.
            call.close()
            return None
        unwrap = partial(envelopes.unwrap, envelope, request, call)
        response = await computed(call.run_apart, unwrap)
        call.throttle_ms = max(call.throttle_ms, getattr(response, "throttle_time_ms", 0))
        if type(request) not in _READS:
            await self.follow()
        return response

    def close(self) -> None:
        """Close all connections; outstanding and later requests fail."""
        for lane in self._lanes:
            lane.close()

    def _leave_others(self, active: FoundController) -> None:
        for lane in self._lanes:
            lane.leave_others(active)

    def _lane_of(self, request: type[Request]) -> _Lane:
        if request in (BrokerRegistrationRequest, BrokerHeartbeatRequest):
            return self._heartbeats
        if request is AssignReplicasToDirsRequest:
            return self._directories
        if request is AlterPartitionRequest:
            return self._isrs
        return self._general

    async def _follow(self, over: Promise[None]) -> None:
        """Set `over` once the metadata has been followed, or to the reason why it cannot be.

        The question to the controller is not cut short, because a request that times out closes the
        connection, on which the requests of other clients may wait for their responses.
        """
        try:
            offset = await self._offset_to_reach()
            if offset is not None and not over.done:
                await self._route.feed.reached(offset)
        except Exception as error:
            over.set(error)
        over.set(None)

    async def _offset_to_reach(self) -> int | None:
        """The controller's high watermark; None if it is unknown, because the change is made."""
        try:
            return await self._high_watermark()
        except KafkaError as error:
            logger.debug("The controller's high watermark is unknown: %s", error)
            return None

    async def _high_watermark(self) -> int:
        kind = DescribeQuorumRequest.TopicData
        partition = kind.PartitionData(partition_index=0)
        response = await self._general.send(
            DescribeQuorumRequest(topics=[kind(topic_name=METADATA_TOPIC, partitions=[partition])]),
            _NEWEST_DESCRIBE_QUORUM,
        )
        if response.error_code:
            raise KafkaError.of(response.error_code)
        [found] = response.topics[0].partitions
        if found.error_code:
            raise KafkaError.of(found.error_code)
        high_watermark: int = found.high_watermark
        return high_watermark


class _Connected(NamedTuple):
    controller: FoundController
    peer: Peer


class _Lane:
    """A connection to the active controller, replaced when another controller becomes active."""

    def __init__(self, route: ControllerRoute, retry_for_ms: Callable[[], int]):
        self._route = route
        self._retry_for_ms = retry_for_ms
        self._connected: _Connected | None = None
        self._is_closed = False

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """As `RemoteChannel.controller_versions`."""
        return self._connected.peer.versions if self._connected is not None else {}

    async def send(self, request: Request, version: int) -> Any:
        """Send the request until the active controller responds. Raises KafkaError."""
        clock = self._route.clock
        give_up_ms = clock.now_ms() + self._retry_for_ms()
        for attempt in count():
            left_ms = give_up_ms - clock.now_ms()
            if left_ms <= 0 or self._is_closed:
                reason = f"no active controller has answered {type(request).__name__}"
                raise KafkaError(Error.REQUEST_TIMED_OUT, reason)
            try:
                return await self._try(request, version, left_ms)
            except _NotAnswered as failure:
                logger.debug("%s is sent again: %s", type(request).__name__, failure)
            await pause(clock, BACKOFF.delay_ms(attempt))

    def leave_others(self, active: FoundController) -> None:
        """Close a connection to a controller that is not active in half a second.

        The other controller may be cut off and never respond; otherwise it responds in this time.
        """
        connected = self._connected
        if connected is not None and connected.controller != active:
            self._route.clock.call_later(_LEAVE_AFTER_MS, partial(self._leave, connected))

    def _leave(self, connected: _Connected) -> None:
        if self._connected is connected and connected.controller != self._route.search.active:
            self._connected = None
            connected.peer.close()

    def close(self) -> None:
        """Close the connection permanently."""
        self._is_closed = True
        if self._connected is not None:
            self._connected.peer.close()

    async def _try(self, request: Request, version: int, left_ms: int) -> Any:
        """Send once. Raises _NotAnswered if the request is to be sent again, and KafkaError."""
        timeout_ms = min(left_ms, self._route.config().controller_socket_timeout_ms)
        try:
            controller = await self._route.search.find()
        except KafkaError as error:
            raise _NotAnswered(str(error)) from None
        peer = self._at(controller)
        try:
            response = await peer.send(request, most=version, timeout_ms=timeout_ms)
        except KafkaError as error:
            if error.error not in _UNREACHABLE:
                raise
            self._route.search.forget(controller)
            raise _NotAnswered(str(error)) from None
        if _is_from_inactive(response):
            self._route.search.forget(controller)
            raise _NotAnswered(f"{controller} is not active")
        return response

    def _at(self, controller: FoundController) -> Peer:
        connected = self._connected
        if connected is None or connected.controller != controller:
            if connected is not None:
                connected.peer.close()
            peer = self._route.connect(controller.host, controller.port)
            self._connected = connected = _Connected(controller, peer)
            if self._is_closed:
                peer.close()
        return connected.peer


class _NotAnswered(Exception):
    """No active controller has handled the request."""


def _is_from_inactive(response: Any) -> bool:
    """Whether the response has the error NOT_CONTROLLER, which CreateTopics has in its topics."""
    if hasattr(response, "error_code"):
        return bool(response.error_code == Error.NOT_CONTROLLER)
    topics = getattr(response, "topics", ())
    return any(topic.error_code == Error.NOT_CONTROLLER for topic in topics)
