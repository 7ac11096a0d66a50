"""Keys and values of `__consumer_offsets` and `__transaction_state`; the consumer protocol."""

from __future__ import annotations

from wirekafka.codec.message import (
    Bytes,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Part,
    String,
    Uuid,
    field,
)


class OffsetCommitKey(Message, key=1, versions="0", flexible="none"):
    group: String
    topic: String
    partition: Int32


class OffsetCommitValue(Message, key=1, versions="0-4", flexible="4+"):
    offset: Int64
    leader_epoch: Int32 = field("3+", default=-1)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = field("1", default=-1)
    topic_id: Uuid = field("4+", tag=0)


class LegacyOffsetCommitKey(Message, key=0, versions="0", flexible="none"):
    group: String
    topic: String
    partition: Int32


class GroupMetadataKey(Message, key=2, versions="0", flexible="none"):
    group: String


class GroupMetadataValue(Message, key=2, versions="0-4", flexible="4+"):
    protocol_type: String
    generation: Int32
    protocol: String | None = field(default="")
    leader: String | None = field(default="")
    current_state_timestamp: Int64 = field("2+", default=-1)
    members: list[MemberMetadata]

    class MemberMetadata(Part):
        member_id: String
        group_instance_id: String | None = field("3+", default=None)
        client_id: String
        client_host: String
        rebalance_timeout: Int32 = field("1+", default=-1)
        session_timeout: Int32
        subscription: Bytes
        assignment: Bytes


class TransactionLogKey(Message, key=0, versions="0", flexible="none"):
    transactional_id: String


class TransactionLogValue(Message, key=0, versions="0-1", flexible="1+"):
    producer_id: Int64
    previous_producer_id: Int64 = field("1+", default=-1, tag=0)
    next_producer_id: Int64 = field("1+", default=-1, tag=1)
    producer_epoch: Int16
    next_producer_epoch: Int16 = field("1+", default=-1, tag=3)
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[PartitionsSchema] | None = field(default=[])
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = field("1+", tag=2)

    class PartitionsSchema(Part):
        topic: String
        partition_ids: list[Int32]


class ConsumerProtocolSubscription(Message, versions="0-3", flexible="none"):
    topics: list[String]
    user_data: Bytes | None = field(default=None)
    owned_partitions: list[TopicPartition] = field("1+")
    generation_id: Int32 = field("2+", default=-1)
    rack_id: String | None = field("3+", default=None)

    class TopicPartition(Part):
        topic: String
        partitions: list[Int32]


class ConsumerProtocolAssignment(Message, versions="0-3", flexible="none"):
    assigned_partitions: list[TopicPartition]
    user_data: Bytes | None = field(default=None)

    class TopicPartition(Part):
        topic: String
        partitions: list[Int32]
