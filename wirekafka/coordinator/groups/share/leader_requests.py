"""Requests of this broker's share groups to the brokers that lead partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wirekafka.coordinator.routing import Routing, TopicPartition, by_topic
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.produce import ProduceRequest

_DEAD_LETTERS = "ShareGroupDLQManager"
_LATEST_OFFSETS = "NetworkPartitionMetadataClient"
"""Client ids, as Kafka's brokers send them."""

_ALL, _CONSUMER, _LATEST = -1, -1, -1


class OutgoingBatch(NamedTuple):
    """A record batch for a partition that another broker leads."""

    topic: str
    topic_id: bytes
    partition: int
    records: bytes


async def append(routing: Routing, broker_id: int, batch: OutgoingBatch) -> None:
    """Append a batch to a partition that a broker leads, and wait until it is committed.

    This is Produce with acks=all. Raises the errors of `Links.send`, or the partition's error.
    """
    topic = ProduceRequest.TopicProduceData(name=batch.topic, topic_id=batch.topic_id)
    data = topic.PartitionProduceData(index=batch.partition, records=batch.records)
    topic.partition_data = [data]
    request = ProduceRequest(
        acks=_ALL, timeout_ms=routing.links.request_timeout_ms, topic_data=[topic]
    )
    response = await routing.links.send(broker_id, _DEAD_LETTERS, request)
    for part in response.responses:
        for result in part.partition_responses:
            if result.error_code:
                raise KafkaError(Error.of(result.error_code), result.error_message)


async def latest_offsets(
    routing: Routing, broker_id: int, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, int | KafkaError]:
    """Return the high watermarks of partitions that a broker leads (ListOffsets).

    Raises the errors of `Links.send`.
    """
    kind = ListOffsetsRequest.Topic
    request = ListOffsetsRequest(
        replica_id=_CONSUMER,
        topics=[
            kind(
                name=name,
                partitions=[
                    kind.Partition(partition_index=index, timestamp=_LATEST) for index in indexes
                ],
            )
            for name, indexes in by_topic(partitions).items()
        ],
        timeout_ms=routing.links.request_timeout_ms,
    )
    response = await routing.links.send(broker_id, _LATEST_OFFSETS, request)
    return {
        (topic.name, each.partition_index): (
            KafkaError(Error.of(each.error_code)) if each.error_code else each.offset
        )
        for topic in response.topics
        for each in topic.partitions
    }
