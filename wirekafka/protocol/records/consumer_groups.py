"""The key and value schemas of consumer groups (KIP-848) in `__consumer_offsets`."""

from __future__ import annotations

from wirekafka.codec.message import Bytes, Int8, Int32, Int64, Message, Part, String, Uuid, field


class ConsumerGroupMetadataKey(Message, key=3, versions="0", flexible="none"):
    group_id: String


class ConsumerGroupMetadataValue(Message, key=3, versions="0", flexible="0+"):
    epoch: Int32
    metadata_hash: Int64 = field("0+", tag=0, default=0)


class ConsumerGroupPartitionMetadataKey(Message, key=4, versions="0", flexible="none"):
    group_id: String


class ConsumerGroupPartitionMetadataValue(Message, key=4, versions="0", flexible="0+"):
    """Written by Kafka 4.0 only; later brokers store `metadata_hash` instead."""

    topics: list[TopicMetadata]

    class TopicMetadata(Part):
        topic_id: Uuid
        topic_name: String
        num_partitions: Int32
        partition_metadata: list[PartitionMetadata]

        class PartitionMetadata(Part):
            partition: Int32
            racks: list[String]


class ConsumerGroupMemberMetadataKey(Message, key=5, versions="0", flexible="none"):
    group_id: String
    member_id: String


class ConsumerGroupMemberMetadataValue(Message, key=5, versions="0", flexible="0+"):
    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = field(default=-1)
    server_assignor: String | None
    classic_member_metadata: ClassicMemberMetadata | None = field("0+", tag=0)

    class ClassicMemberMetadata(Part):
        session_timeout_ms: Int32
        supported_protocols: list[ClassicProtocol]

        class ClassicProtocol(Part):
            name: String
            metadata: Bytes


class ConsumerGroupTargetAssignmentMetadataKey(Message, key=6, versions="0", flexible="none"):
    group_id: String


class ConsumerGroupTargetAssignmentMetadataValue(Message, key=6, versions="0", flexible="0+"):
    assignment_epoch: Int32
    assignment_timestamp: Int64 = field("0+", tag=0, default=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, key=7, versions="0", flexible="none"):
    group_id: String
    member_id: String


class ConsumerGroupTargetAssignmentMemberValue(Message, key=7, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition]

    class TopicPartition(Part):
        topic_id: Uuid
        partitions: list[Int32]


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, versions="0", flexible="none"):
    group_id: String
    member_id: String


class ConsumerGroupCurrentMemberAssignmentValue(Message, key=8, versions="0", flexible="0+"):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[TopicPartitions]
    partitions_pending_revocation: list[TopicPartitions]

    class TopicPartitions(Part):
        topic_id: Uuid
        partitions: list[Int32]
        assignment_epochs: list[Int32] | None = field("0+", tag=0, default=[])


class ConsumerGroupRegularExpressionKey(Message, key=16, versions="0", flexible="none"):
    group_id: String
    regular_expression: String


class ConsumerGroupRegularExpressionValue(Message, key=16, versions="0", flexible="0+"):
    topics: list[String]
    version: Int64
    timestamp: Int64
