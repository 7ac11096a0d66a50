"""Follows the active controller's metadata log by Fetch and FetchSnapshot, as an observer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wirekafka.apis.fetch import FetchRequest, FetchResponse
from wirekafka.apis.fetch_snapshot import FetchSnapshotRequest
from wirekafka.clock import Clock
from wirekafka.codec.message import Request
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log.log_directory import METADATA_TOPIC_ID, UnusableDirectory
from wirekafka.replication.backoff import Backoff
from wirekafka.replication.internal_topics import METADATA_TOPIC
from wirekafka.replication.promise import Promise, pause
from wirekafka.replication.quorum_observer import Fetched, Position, QuorumObserver
from wirekafka.replication.replica import NO_LEADER
from wirekafka.replication.snapshot_file import BadSnapshot, SnapshotId
from wirekafka.server.controller_search import Controller, ControllerSearch
from wirekafka.server.peer import Peer

logger = logging.getLogger(__name__)

_MAX_WAIT_MS = 500
_LONGEST_BACKOFF_MS = 320
_LEADERSHIP = frozenset(
    {Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH, Error.UNKNOWN_LEADER_EPOCH}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The ids in an observer's requests: of the node, its cluster and its metadata directory."""

    node_id: int
    cluster_id: str
    directory_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerParts:
    """The dependencies of a follower.

    `connect` returns a new, unconnected peer at a host and port; `failed` is called with the error
    after which the metadata can no longer be followed.
    """

    search: ControllerSearch
    connect: Callable[[str, int], Peer]
    clock: Clock
    config: BrokerConfig
    static_voters: tuple[int, ...]
    identity: Identity
    failed: Callable[[Exception], None]


class MetadataFollower:
    """Keeps an observer's log up to date with the leader's, over one connection.

    After a failed request it searches for the leader again, and repeats the request there.
    """

    def __init__(self, observer: QuorumObserver, parts: FollowerParts):
        self._observer = observer
        self._parts = parts
        self._controller: Controller | None = None
        self._peer: Peer | None = None
        self._task: asyncio.Task[None] | None = None
        self._caught_up = Promise()
        self._has_caught_up = False
        self._failures = 0

    def start(self) -> None:
        """Begin to fetch, until `stop`."""
        self._task = asyncio.get_running_loop().create_task(self._follow())

    def stop(self) -> None:
        """Close the connection; no further response is applied."""
        if self._task is not None:
            self._task.cancel()
        if self._peer is not None:
            self._peer.close()

    async def caught_up(self) -> None:
        """Wait until the log covers the high watermark of the leader's response.

        Raises UnusableDirectory, KafkaError, OSError if the metadata cannot be followed.
        """
        await self._caught_up

    async def _follow(self) -> None:
        while True:
            try:
                await self._fetch()
                self._failures = 0
            except KafkaError as error:
                if error.error is Error.KAFKA_STORAGE_ERROR:
                    self._fail(error)
                    return
                is_corrupt = error.error is Error.CORRUPT_MESSAGE
                level = logging.WARNING if is_corrupt else logging.DEBUG
                logger.log(level, "Fetching metadata failed; it is retried: %s", error)
                if self._controller is not None:
                    self._parts.search.forget(self._controller)
                await self._back_off()
            except (UnusableDirectory, OSError) as error:
                self._fail(error)
                return
            except Exception as error:
                logger.exception("Following the metadata log failed")
                self._fail(error)
                return

    async def _back_off(self) -> None:
        """Wait for twice as long after each failure in a row: an election takes a second or two."""
        first_ms = self._parts.config.controller_quorum_retry_backoff_ms
        delay_ms = Backoff(first_ms, max(first_ms, _LONGEST_BACKOFF_MS)).delay_ms(self._failures)
        self._failures += 1
        await pause(self._parts.clock, delay_ms)

    async def _fetch(self) -> None:
        """Fetch once, and process the response. After a KafkaError the leader is searched again."""
        position = self._observer.position
        response = await self._send(_fetch_request(position, self._parts))
        _check(response.error_code)
        partition = _only_partition(response.responses)
        self._learn(partition.current_leader, response)
        if partition.error_code in _LEADERSHIP and self._observer.epoch > position.leader_epoch:
            return  # The response has a newer epoch, which the next request uses.
        _check(partition.error_code)
        if partition.snapshot_id.end_offset >= 0:
            id = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
            await self._download(id, position.leader_epoch)
            return
        diverging = partition.diverging_epoch
        fetched = Fetched(
            asked=position,
            high_watermark=partition.high_watermark,
            records=partition.records or b"",
            diverging=(diverging.epoch, diverging.end_offset) if diverging.epoch >= 0 else None,
        )
        if self._observer.take(fetched) and not self._has_caught_up:
            self._note_progress(partition.high_watermark)

    async def _send(self, request: Request) -> Any:
        """Send a request to the active controller and return its response. Raises KafkaError."""
        controller = await self._parts.search.find()
        if self._peer is None or controller != self._controller:
            if self._peer is not None:
                self._peer.close()
            self._controller = controller
            self._peer = self._parts.connect(controller.host, controller.port)
        timeout_ms = self._parts.config.controller_quorum_request_timeout_ms
        return await self._peer.send(request, timeout_ms=timeout_ms)

    def _learn(self, leader: Any, response: FetchResponse) -> None:
        """Store the leader and epoch in a response, and its address if that is included.

        Raises NOT_LEADER_OR_FOLLOWER if the request was sent to another node than that leader.
        """
        if leader.leader_epoch < 0 or not self._observer.elect(
            leader.leader_id, leader.leader_epoch, self._parts.static_voters
        ):
            return
        for node in response.node_endpoints:
            if node.node_id == leader.leader_id:
                found = Controller(node.node_id, node.host, node.port)
                self._parts.search.learned(found, leader.leader_epoch)
        active = self._parts.search.active
        if leader.leader_id not in (NO_LEADER, active.node_id if active else NO_LEADER):
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)

    async def _download(self, id: SnapshotId, leader_epoch: int) -> None:
        """Fetch a snapshot in pieces and install it. Raises KafkaError, UnusableDirectory."""
        logger.info("Fetching the metadata snapshot %s", id.file_name)
        data = bytearray()
        size = 1
        while len(data) < size:
            request = _snapshot_request(id, len(data), leader_epoch, self._parts)
            response = await self._send(request)
            _check(response.error_code)
            partition = _only_partition(response.topics)
            _check(partition.error_code)
            piece = partition.unaligned_records
            if partition.position != len(data) or not len(piece):
                raise KafkaError(Error.INVALID_REQUEST, "a part of the snapshot is missing")
            data += piece
            size = partition.size
        try:
            self._observer.install(id, bytes(data))
        except BadSnapshot as error:
            raise KafkaError(Error.CORRUPT_MESSAGE, str(error)) from error

    def _note_progress(self, high_watermark: int) -> None:
        if 0 <= high_watermark <= self._observer.committed_offset:
            self._has_caught_up = True
            self._caught_up.set(None)

    def _fail(self, error: Exception) -> None:
        self._observer.end(error)
        if self._has_caught_up:
            logger.critical("The metadata cannot be followed: %s", error)
            self._parts.failed(error)
        self._caught_up.set(error)


def _check(code: int) -> None:
    """Raise the error of a response, if it has one."""
    if code == Error.INCONSISTENT_CLUSTER_ID:
        raise UnusableDirectory("the log directories belong to another cluster")
    if code == Error.KAFKA_STORAGE_ERROR:
        raise KafkaError(Error.UNKNOWN_SERVER_ERROR, "the controller's disk has failed")
    if code:
        raise KafkaError.of(code)


def _only_partition(topics: Sequence[Any]) -> Any:
    """The one partition of a response. Raises UNKNOWN_TOPIC_OR_PARTITION."""
    partitions = [partition for topic in topics for partition in topic.partitions]
    if len(partitions) != 1:
        reason = f"a response with {len(partitions)} partitions of the metadata log"
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, reason)
    return partitions[0]


def _fetch_request(position: Position, parts: FollowerParts) -> FetchRequest:
    identity = parts.identity
    topic = FetchRequest.Topic
    return FetchRequest(
        cluster_id=identity.cluster_id,
        replica_id=identity.node_id,
        replica_state=FetchRequest.ReplicaState(replica_id=identity.node_id),
        max_wait_ms=_MAX_WAIT_MS,
        min_bytes=0,
        max_bytes=parts.config.controller_quorum_fetch_max_bytes,
        topics=[
            topic(
                topic=METADATA_TOPIC,
                topic_id=METADATA_TOPIC_ID,
                partitions=[
                    topic.Partition(
                        partition=0,
                        current_leader_epoch=position.leader_epoch,
                        fetch_offset=position.offset,
                        last_fetched_epoch=position.last_fetched_epoch,
                        partition_max_bytes=0,
                        replica_directory_id=identity.directory_id,
                        high_watermark=position.high_watermark,
                    )
                ],
            )
        ],
    )


def _snapshot_request(
    id: SnapshotId, position: int, leader_epoch: int, parts: FollowerParts
) -> FetchSnapshotRequest:
    topic = FetchSnapshotRequest.TopicSnapshot
    partition = topic.PartitionSnapshot
    return FetchSnapshotRequest(
        cluster_id=parts.identity.cluster_id,
        replica_id=parts.identity.node_id,
        max_bytes=parts.config.controller_quorum_fetch_snapshot_max_bytes,
        topics=[
            topic(
                name=METADATA_TOPIC,
                partitions=[
                    partition(
                        partition=0,
                        current_leader_epoch=leader_epoch,
                        snapshot_id=partition.SnapshotId(end_offset=id.end_offset, epoch=id.epoch),
                        position=position,
                        replica_directory_id=parts.identity.directory_id,
                    )
                ],
            )
        ],
    )
