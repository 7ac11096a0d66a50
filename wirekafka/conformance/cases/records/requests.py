"""Requests about partitions, with usual values for what a case does not care about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from wirekafka.conformance.stage import Stage
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.produce import ProduceRequest

MOST_BYTES = 1 << 20
FetchPart: TypeAlias = FetchRequest.Topic.Partition
Forgotten: TypeAlias = tuple[str, list[int]]
"""A topic and partitions that a session no longer has."""
_PART_FIELDS = {
    "epoch": "current_leader_epoch",
    "last_epoch": "last_fetched_epoch",
    "most": "partition_max_bytes",
    "start": "log_start_offset",
}


def part(partition: int = 0, offset: int = 0, **options: int) -> FetchPart:
    """A partition to fetch. Options: epoch, last_epoch, start, most (bytes)."""
    named = {_PART_FIELDS[key]: value for key, value in options.items()}
    return FetchPart(
        partition=partition, fetch_offset=offset, **{"partition_max_bytes": MOST_BYTES, **named}
    )


def fetch_all(
    stage: Stage,
    topics: Iterable[tuple[str, list[FetchPart]]],
    *,
    forgotten: Iterable[Forgotten] = (),
    **options: Any,
) -> FetchRequest:
    """A Fetch request for several topics; options are the request's own fields."""
    topic, gone = FetchRequest.Topic, FetchRequest.ForgottenTopic
    return FetchRequest(
        topics=[
            topic(topic=name, topic_id=stage.id_of(name), partitions=parts)
            for name, parts in topics
        ],
        forgotten_topics_data=[
            gone(topic=name, topic_id=stage.id_of(name), partitions=numbers)
            for name, numbers in forgotten
        ],
        **{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": MOST_BYTES, "rack_id": "", **options},
    )


def fetch(
    stage: Stage, name: str, offset: int = 0, partition: int = 0, **options: Any
) -> FetchRequest:
    """A Fetch request for one partition; options of `part` and of the request."""
    of_part = {key: options.pop(key) for key in _PART_FIELDS if key in options}
    return fetch_all(stage, [(name, [part(partition, offset, **of_part)])], **options)


def list_offsets(
    name: str, *timestamps: int, partition: int = 0, epoch: int = -1, isolation: int = 0
) -> ListOffsetsRequest:
    """A ListOffsets request for one partition, asked once for each timestamp."""
    topic = ListOffsetsRequest.Topic
    parts = [
        topic.Partition(partition_index=partition, current_leader_epoch=epoch, timestamp=each)
        for each in timestamps
    ]
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[topic(name=name, partitions=parts)],
        timeout_ms=1000,
    )


def delete_records(name: str, offset: int, partition: int = 0) -> DeleteRecordsRequest:
    """A DeleteRecords request for one partition."""
    topic = DeleteRecordsRequest.Topic
    asked = topic.Partition(partition_index=partition, offset=offset)
    return DeleteRecordsRequest(topics=[topic(name=name, partitions=[asked])], timeout_ms=5000)


def produce_all(
    stage: Stage, topics: Iterable[tuple[str, list[tuple[int, bytes]]]], *, acks: int = -1
) -> ProduceRequest:
    """A Produce request for several topics, with the records by partition."""
    topic = ProduceRequest.TopicProduceData
    return ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[
            topic(
                name=name,
                topic_id=stage.id_of(name),
                partition_data=[
                    topic.PartitionProduceData(index=index, records=records)
                    for index, records in parts
                ],
            )
            for name, parts in topics
        ],
    )
