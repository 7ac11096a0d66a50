"""Finds where a follower begins whose leader has its older records in remote storage only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from wirekafka.codec.message import Request
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.remote_log import LocalStart

Send = Callable[[Request], Awaitable[Any]]
"""Sends a request to the leader and returns the response. Raises KafkaError."""

_LATEST, _EARLIEST, _EARLIEST_LOCAL, _EARLIEST_PENDING_UPLOAD = -1, -2, -4, -6


@dataclass(frozen=True, slots=True)
class TierStart:
    """The start offset of the leader's log, and what the follower begins with."""

    start_offset: int
    local: LocalStart


async def tier_start(
    replica_id: int, partition: Partition, send: Send, *, after_all_copied: bool
) -> TierStart:
    """Where to begin: at the start of the leader's local log.

    With `after_all_copied`, a follower without records begins after all that has been copied
    (KIP-1023). Raises KafkaError.
    """
    remote = partition.remote
    if remote is None:
        raise KafkaError(Error.OFFSET_MOVED_TO_TIERED_STORAGE)
    leader = _Leader(replica_id, partition, send)
    start_offset, _ = await leader.offset(_EARLIEST)
    offset, epoch = await leader.offset(_EARLIEST_LOCAL)
    if after_all_copied and partition.log.end_offset == 0 and (await leader.offset(_LATEST))[0]:
        pending_offset, pending_epoch = await leader.offset(_EARLIEST_PENDING_UPLOAD)
        if pending_offset >= 0:
            offset, epoch = pending_offset, pending_epoch
        elif offset != start_offset:
            raise KafkaError(Error.OFFSET_NOT_AVAILABLE, "the leader has copied nothing it knows")
    if offset <= start_offset:
        # Nothing is remote any more: the fetch from there succeeds.
        return TierStart(start_offset, LocalStart(offset=offset, epochs=(), producers=None))
    if epoch > 0:
        earlier_epoch, end_offset = await leader.end_of_epoch(epoch - 1)
        if end_offset > offset - 1:
            epoch = earlier_epoch
    return TierStart(start_offset, await remote.local_start(epoch, offset - 1))


class _Leader:
    """Requests about one partition."""

    def __init__(self, replica_id: int, partition: Partition, send: Send):
        self._replica_id = replica_id
        self._partition = partition
        self._send = send

    async def offset(self, timestamp: int) -> tuple[int, int]:
        """The offset of a special timestamp and its leader epoch."""
        kind, partition = ListOffsetsRequest.Topic, self._partition
        part = kind.Partition(
            partition_index=partition.index,
            current_leader_epoch=partition.leader_epoch,
            timestamp=timestamp,
        )
        response = await self._send(
            ListOffsetsRequest(
                replica_id=self._replica_id, topics=[kind(name=partition.topic, partitions=[part])]
            )
        )
        [found] = [each for topic in response.topics for each in topic.partitions]
        if found.error_code:
            raise KafkaError.of(found.error_code)
        return found.offset, found.leader_epoch

    async def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch of the leader's log that is not above another one, and its end."""
        kind, partition = OffsetForLeaderEpochRequest.OffsetForLeaderTopic, self._partition
        part = kind.OffsetForLeaderPartition(
            partition=partition.index,
            current_leader_epoch=partition.leader_epoch,
            leader_epoch=epoch,
        )
        response = await self._send(
            OffsetForLeaderEpochRequest(
                replica_id=self._replica_id, topics=[kind(topic=partition.topic, partitions=[part])]
            )
        )
        [found] = [each for topic in response.topics for each in topic.partitions]
        if found.error_code:
            raise KafkaError.of(found.error_code)
        return found.leader_epoch, found.end_offset
