"""The values of `__remote_log_metadata` (KIP-405): segments in remote storage and their states."""

from __future__ import annotations

from wirekafka.codec.message import (
    Bool,
    Bytes,
    Int8,
    Int32,
    Int64,
    Message,
    Part,
    String,
    Uuid,
    field,
)


class TopicIdPartition(Part):
    name: String
    id: Uuid
    partition: Int32


class RemoteLogSegmentId(Part):
    topic_id_partition: TopicIdPartition
    id: Uuid


class RemoteLogSegmentMetadataRecord(Message, key=0, versions="0", flexible="0+"):
    """The end offset is inclusive; epochs are (leader epoch, first offset)."""

    remote_log_segment_id: RemoteLogSegmentId
    start_offset: Int64
    end_offset: Int64
    broker_id: Int32
    max_timestamp_ms: Int64
    event_timestamp_ms: Int64
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: Int32
    custom_metadata: Bytes | None = field("0+", default=None)
    remote_log_segment_state: Int8
    txn_index_empty: Bool = field("0+", default=False, tag=0)

    class SegmentLeaderEpochEntry(Part):
        leader_epoch: Int32
        offset: Int64


class RemoteLogSegmentMetadataUpdateRecord(Message, key=1, versions="0", flexible="0+"):
    remote_log_segment_id: RemoteLogSegmentId
    broker_id: Int32
    event_timestamp_ms: Int64
    custom_metadata: Bytes | None = field("0+", default=None)
    remote_log_segment_state: Int8


class RemotePartitionDeleteMetadataRecord(Message, key=2, versions="0", flexible="0+"):
    topic_id_partition: TopicIdPartition
    broker_id: Int32
    event_timestamp_ms: Int64
    remote_partition_delete_state: Int8
