"""The records of `__remote_log_metadata`: decodes what brokers wrote, encodes what they accept.

Apache Kafka's brokers stop to consume a partition of that topic for good at a record that they
cannot decode. `encode` therefore refuses everything that they refuse.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias, assert_never

from wirekafka.client.partitioner import murmur2
from wirekafka.codec.message import MalformedMessage, Message
from wirekafka.codec.varint import decode_uvarint, encode_uvarint
from wirekafka.log.epochs import EpochEntry
from wirekafka.protocol.records.remote_log_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    TopicIdPartition,
)
from wirekafka.tiered.remote_segment import (
    PartitionDeletion,
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
    TieredPartition,
)

REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"

MetadataRecord: TypeAlias = RemoteSegment | SegmentUpdate | PartitionDeletion

_FRAME_VERSION = 1
_VERSION = 0
_MASK = 0xFFFFFFFF
_LAST_PARTITION_STATE = 2


class MalformedMetadata(ValueError):
    """A record that Apache Kafka's brokers do not accept either."""


def metadata_partition(partition: TieredPartition, count: int) -> int:
    """Which of the topic's `count` partitions has the metadata of a partition's segments."""
    high, low = partition.topic_id[:8], partition.topic_id[8:]
    code = 1
    for part in (_folded(low), _folded(high), partition.number):
        code = (code * 31 + part) & _MASK
    return (murmur2(code.to_bytes(4, "big")) & 0x7FFFFFFF) % count


def encode(record: MetadataRecord) -> bytes:
    """The value of a record, without a key. Raises MalformedMetadata for what no broker accepts."""
    message: Message
    match record:
        case RemoteSegment():
            if record.state is not SegmentState.COPY_STARTED:
                raise MalformedMetadata(f"a new segment must be COPY_STARTED, not {record.state}")
            _check_segment(record)
            message, key = _segment_message(record), RemoteLogSegmentMetadataRecord.key
        case SegmentUpdate():
            if record.state is SegmentState.COPY_STARTED:
                raise MalformedMetadata("an update cannot lead to COPY_STARTED")
            message, key = _update_message(record), RemoteLogSegmentMetadataUpdateRecord.key
        case PartitionDeletion():
            message = RemotePartitionDeleteMetadataRecord(
                topic_id_partition=_place_message(record.partition),
                broker_id=record.broker_id,
                event_timestamp_ms=record.event_ms,
                remote_partition_delete_state=record.state,
            )
            key = RemotePartitionDeleteMetadataRecord.key
        case _:
            assert_never(record)
    head = encode_uvarint(_FRAME_VERSION) + encode_uvarint(key) + encode_uvarint(_VERSION)
    return head + message.encode(_VERSION)


def decode(value: bytes | memoryview | None) -> MetadataRecord:
    """Decode the value of a record. Raises MalformedMetadata."""
    if value is None:
        raise MalformedMetadata("a record without a value")
    try:
        frame, at = decode_uvarint(value, 0)
        key, at = decode_uvarint(value, at)
        version, at = decode_uvarint(value, at)
    except (IndexError, ValueError) as error:
        raise MalformedMetadata(f"a cut off header: {error}") from error
    if frame != _FRAME_VERSION or version != _VERSION:
        raise MalformedMetadata(f"frame version {frame}, record version {version}")
    try:
        if key == RemoteLogSegmentMetadataRecord.key:
            return _segment(RemoteLogSegmentMetadataRecord.decode(value, version, at))
        if key == RemoteLogSegmentMetadataUpdateRecord.key:
            return _update(RemoteLogSegmentMetadataUpdateRecord.decode(value, version, at))
        if key == RemotePartitionDeleteMetadataRecord.key:
            return _deletion(RemotePartitionDeleteMetadataRecord.decode(value, version, at))
    except MalformedMessage as error:
        raise MalformedMetadata(str(error)) from error
    raise MalformedMetadata(f"unknown key {key}")


def _folded(part: bytes) -> int:
    value = int.from_bytes(part, "big")
    return (value ^ (value >> 32)) & _MASK


def _check_segment(segment: RemoteSegment) -> None:
    start_offset, end_offset, epochs = segment.start_offset, segment.end_offset, segment.epochs
    if not 0 <= start_offset < end_offset:
        raise MalformedMetadata(f"a segment from offset {start_offset} up to {end_offset}")
    if not epochs:
        raise MalformedMetadata("a segment without leader epochs")
    if any(a.epoch >= b.epoch or a.start_offset >= b.start_offset for a, b in pairwise(epochs)):
        raise MalformedMetadata(f"leader epochs out of order: {epochs}")


def _segment_message(segment: RemoteSegment) -> RemoteLogSegmentMetadataRecord:
    entry = RemoteLogSegmentMetadataRecord.SegmentLeaderEpochEntry
    return RemoteLogSegmentMetadataRecord(
        remote_log_segment_id=_id_message(segment.partition, segment.id),
        start_offset=segment.start_offset,
        end_offset=segment.end_offset - 1,
        broker_id=segment.broker_id,
        max_timestamp_ms=segment.max_timestamp_ms,
        event_timestamp_ms=segment.event_ms,
        segment_leader_epochs=[
            entry(leader_epoch=epoch, offset=start_offset) for epoch, start_offset in segment.epochs
        ],
        segment_size_in_bytes=segment.size_bytes,
        custom_metadata=segment.custom_metadata,
        remote_log_segment_state=segment.state,
        txn_index_empty=segment.has_no_transactions,
    )


def _update_message(update: SegmentUpdate) -> RemoteLogSegmentMetadataUpdateRecord:
    return RemoteLogSegmentMetadataUpdateRecord(
        remote_log_segment_id=_id_message(update.partition, update.id),
        broker_id=update.broker_id,
        event_timestamp_ms=update.event_ms,
        custom_metadata=update.custom_metadata,
        remote_log_segment_state=update.state,
    )


def _id_message(partition: TieredPartition, segment_id: bytes) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(topic_id_partition=_place_message(partition), id=segment_id)


def _place_message(partition: TieredPartition) -> TopicIdPartition:
    return TopicIdPartition(name=partition.topic, id=partition.topic_id, partition=partition.number)


def _segment(message: RemoteLogSegmentMetadataRecord) -> RemoteSegment:
    segment = RemoteSegment(
        partition=_place(message.remote_log_segment_id.topic_id_partition),
        id=bytes(message.remote_log_segment_id.id),
        start_offset=message.start_offset,
        end_offset=message.end_offset + 1,
        broker_id=message.broker_id,
        max_timestamp_ms=message.max_timestamp_ms,
        event_ms=message.event_timestamp_ms,
        size_bytes=message.segment_size_in_bytes,
        epochs=tuple(
            EpochEntry(each.leader_epoch, each.offset) for each in message.segment_leader_epochs
        ),
        state=_state(message.remote_log_segment_state),
        custom_metadata=_optional(message.custom_metadata),
        has_no_transactions=message.txn_index_empty,
    )
    _check_segment(segment)
    return segment


def _update(message: RemoteLogSegmentMetadataUpdateRecord) -> SegmentUpdate:
    return SegmentUpdate(
        partition=_place(message.remote_log_segment_id.topic_id_partition),
        id=bytes(message.remote_log_segment_id.id),
        broker_id=message.broker_id,
        event_ms=message.event_timestamp_ms,
        state=_state(message.remote_log_segment_state),
        custom_metadata=_optional(message.custom_metadata),
    )


def _deletion(message: RemotePartitionDeleteMetadataRecord) -> PartitionDeletion:
    state = message.remote_partition_delete_state
    if not 0 <= state <= _LAST_PARTITION_STATE:
        raise MalformedMetadata(f"unknown state {state} of a partition's deletion")
    return PartitionDeletion(
        partition=_place(message.topic_id_partition),
        broker_id=message.broker_id,
        event_ms=message.event_timestamp_ms,
        state=state,
    )


def _place(message: TopicIdPartition) -> TieredPartition:
    return TieredPartition(message.name, bytes(message.id), message.partition)


def _state(number: int) -> SegmentState:
    try:
        return SegmentState(number)
    except ValueError:
        raise MalformedMetadata(f"unknown state {number} of a segment") from None


def _optional(data: bytes | memoryview | None) -> bytes | None:
    return None if data is None else bytes(data)
