"""The key and value schemas of share groups (KIP-932) in `__consumer_offsets`."""

from __future__ import annotations

from wirekafka.codec.message import Int8, Int32, Int64, Message, Part, String, Uuid, field


class ShareGroupMemberMetadataKey(Message, key=10, versions="0", flexible="none"):
    group_id: String
    member_id: String


class ShareGroupMemberMetadataValue(Message, key=10, versions="0", flexible="0+"):
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]


class ShareGroupMetadataKey(Message, key=11, versions="0", flexible="none"):
    group_id: String


class ShareGroupMetadataValue(Message, key=11, versions="0", flexible="0+"):
    epoch: Int32
    metadata_hash: Int64


class ShareGroupTargetAssignmentMetadataKey(Message, key=12, versions="0", flexible="none"):
    group_id: String


class ShareGroupTargetAssignmentMetadataValue(Message, key=12, versions="0", flexible="0+"):
    assignment_epoch: Int32
    assignment_timestamp: Int64 = field("0+", tag=0, default=0)


class ShareGroupTargetAssignmentMemberKey(Message, key=13, versions="0", flexible="none"):
    group_id: String
    member_id: String


class ShareGroupTargetAssignmentMemberValue(Message, key=13, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition]

    class TopicPartition(Part):
        topic_id: Uuid
        partitions: list[Int32]


class ShareGroupCurrentMemberAssignmentKey(Message, key=14, versions="0", flexible="none"):
    group_id: String
    member_id: String


class ShareGroupCurrentMemberAssignmentValue(Message, key=14, versions="0", flexible="0+"):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[TopicPartitions]

    class TopicPartitions(Part):
        topic_id: Uuid
        partitions: list[Int32]


class ShareGroupStatePartitionMetadataKey(Message, key=15, versions="0", flexible="none"):
    group_id: String


class ShareGroupStatePartitionMetadataValue(Message, key=15, versions="0", flexible="0+"):
    initializing_topics: list[TopicPartitionsInfo]
    initialized_topics: list[TopicPartitionsInfo]
    deleting_topics: list[TopicInfo]

    class TopicPartitionsInfo(Part):
        topic_id: Uuid
        topic_name: String
        partitions: list[Int32]

    class TopicInfo(Part):
        topic_id: Uuid
        topic_name: String
