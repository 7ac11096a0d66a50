"""Requests about `__remote_log_metadata` to the brokers that lead its partitions."""

from __future__ import annotations

from typing import NamedTuple

from wirekafka.coordinator.routing import Routing
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.produce import ProduceRequest

_CLIENT = "__remote_log_metadata_client"
_ALL, _CONSUMER, _WITHOUT_SESSION = -1, -1, -1
_LATEST = -1


class MetadataPartition(NamedTuple):
    """A partition of the metadata topic that another broker leads."""

    leader_id: int
    topic: str
    topic_id: bytes
    number: int


class FoundRange(NamedTuple):
    """Batches, the last of which may be cut off, and where the partition's log begins."""

    records: bytes | memoryview
    start_offset: int


async def append(routing: Routing, to: MetadataPartition, batch: bytes) -> None:
    """Append a batch, and wait until it is committed. Raises KafkaError."""
    topic = ProduceRequest.TopicProduceData(name=to.topic, topic_id=to.topic_id)
    topic.partition_data = [topic.PartitionProduceData(index=to.number, records=batch)]
    request = ProduceRequest(
        acks=_ALL, timeout_ms=routing.links.request_timeout_ms, topic_data=[topic]
    )
    client_id = f"{_CLIENT}_{routing.node_id}_producer"
    response = await routing.links.send(to.leader_id, client_id, request)
    for part in response.responses:
        for result in part.partition_responses:
            if result.error_code:
                raise KafkaError(Error.of(result.error_code), result.error_message)


async def read(
    routing: Routing, to: MetadataPartition, offset: int, *, max_bytes: int, max_wait_ms: int
) -> FoundRange:
    """Committed records from an offset on, or from the start of the log. Raises KafkaError."""
    part = FetchRequest.Topic.Partition(
        partition=to.number, fetch_offset=offset, partition_max_bytes=max_bytes
    )
    topic = FetchRequest.Topic(topic=to.topic, topic_id=to.topic_id, partitions=[part])
    request = FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=_WITHOUT_SESSION,
        topics=[topic],
    )
    client_id = f"{_CLIENT}_{routing.node_id}_consumer"
    response = await routing.links.send(to.leader_id, client_id, request)
    if response.error_code:
        raise KafkaError.of(response.error_code)
    [found] = [each for topic in response.responses for each in topic.partitions]
    if found.error_code == Error.OFFSET_OUT_OF_RANGE and found.log_start_offset > offset:
        return FoundRange(b"", found.log_start_offset)
    if found.error_code:
        raise KafkaError.of(found.error_code)
    return FoundRange(found.records or b"", found.log_start_offset)


async def end_offset(routing: Routing, to: MetadataPartition) -> int:
    """The end of the leader's log, as replicas get it: with what is not committed yet.

    It is asked for on the connection of `append`: what was sent there before is counted.
    Raises KafkaError.
    """
    part = ListOffsetsRequest.Topic.Partition(partition_index=to.number, timestamp=_LATEST)
    topic = ListOffsetsRequest.Topic(name=to.topic, partitions=[part])
    request = ListOffsetsRequest(replica_id=routing.node_id, topics=[topic])
    client_id = f"{_CLIENT}_{routing.node_id}_producer"
    response = await routing.links.send(to.leader_id, client_id, request)
    [found] = [each for topic in response.topics for each in topic.partitions]
    if found.error_code:
        raise KafkaError.of(found.error_code)
    offset: int = found.offset
    return offset
