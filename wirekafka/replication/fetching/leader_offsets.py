"""Requests the start and end offsets of a leader's logs, for followers that are out of range."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import groupby
from typing import Any

from wirekafka.codec.message import Request
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.replication.partition.partition import Partition

Send = Callable[[Request], Awaitable[Any]]
"""Sends a request to the leader and returns the response. Raises KafkaError."""

_LATEST, _EARLIEST = -1, -2


async def leader_offsets(
    replica_id: int, partitions: Iterable[Partition], send: Send
) -> dict[Partition, tuple[int, int] | KafkaError]:
    """Return the start and end offset of each partition's log on the leader, or its error.

    Raises KafkaError if `send` does.
    """
    ends = await _listed(_request(replica_id, partitions, _LATEST), send)
    starts = await _listed(_request(replica_id, partitions, _EARLIEST), send)
    found: dict[Partition, tuple[int, int] | KafkaError] = {}
    missing = KafkaError(Error.UNKNOWN_SERVER_ERROR, "the leader has not returned its offsets")
    for partition in partitions:
        key = partition.topic, partition.index
        start, end = starts.get(key, missing), ends.get(key, missing)
        if isinstance(end, KafkaError):
            found[partition] = end
        elif isinstance(start, KafkaError):
            found[partition] = start
        else:
            found[partition] = start, end
    return found


async def _listed(
    request: ListOffsetsRequest, send: Send
) -> dict[tuple[str, int], int | KafkaError]:
    response = await send(request)
    return {
        (topic.name, each.partition_index): KafkaError.of(each.error_code)
        if each.error_code
        else each.offset
        for topic in response.topics
        for each in topic.partitions
    }


def _request(
    replica_id: int, partitions: Iterable[Partition], timestamp: int
) -> ListOffsetsRequest:
    by_topic = groupby(sorted(partitions, key=_place), lambda partition: partition.topic)
    return ListOffsetsRequest(
        replica_id=replica_id,
        topics=[
            ListOffsetsRequest.Topic(
                name=topic,
                partitions=[
                    ListOffsetsRequest.Topic.Partition(
                        partition_index=partition.index,
                        current_leader_epoch=partition.leader_epoch,
                        timestamp=timestamp,
                    )
                    for partition in each
                ],
            )
            for topic, each in by_topic
        ],
    )


def _place(partition: Partition) -> tuple[str, int]:
    return partition.topic, partition.index
