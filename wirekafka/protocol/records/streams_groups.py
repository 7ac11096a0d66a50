"""The key and value schemas of streams groups (KIP-1071) in `__consumer_offsets`."""

from __future__ import annotations

from wirekafka.codec.message import Int8, Int16, Int32, Int64, Message, Part, String, UInt16, field


class StreamsGroupMetadataKey(Message, key=17, versions="0", flexible="none"):
    group_id: String


class StreamsGroupMetadataValue(Message, key=17, versions="0", flexible="0+"):
    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Int32 = field("0+", tag=0, default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = field("0+", tag=1)
    stored_description_topology_epoch: Int32 = field("0+", tag=2, default=-1)
    failed_description_topology_epoch: Int32 = field("0+", tag=3, default=-1)

    class LastAssignmentConfig(Part):
        key: String
        value: String


class StreamsGroupMemberMetadataKey(Message, key=19, versions="0", flexible="none"):
    group_id: String
    member_id: String


class StreamsGroupMemberMetadataValue(Message, key=19, versions="0", flexible="0+"):
    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    rebalance_timeout_ms: Int32 = field(default=-1)
    topology_epoch: Int32
    process_id: String
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue]

    class Endpoint(Part):
        host: String
        port: UInt16

    class KeyValue(Part):
        key: String
        value: String


class StreamsGroupTargetAssignmentMetadataKey(Message, key=20, versions="0", flexible="none"):
    group_id: String


class StreamsGroupTargetAssignmentMetadataValue(Message, key=20, versions="0", flexible="0+"):
    assignment_epoch: Int32
    assignment_timestamp: Int64 = field("0+", tag=0, default=0)


class StreamsGroupTargetAssignmentMemberKey(Message, key=21, versions="0", flexible="none"):
    group_id: String
    member_id: String


class StreamsGroupTargetAssignmentMemberValue(Message, key=21, versions="0", flexible="0+"):
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]

    class TaskIds(Part):
        subtopology_id: String
        partitions: list[Int32]


class StreamsGroupCurrentMemberAssignmentKey(Message, key=22, versions="0", flexible="none"):
    group_id: String
    member_id: String


class StreamsGroupCurrentMemberAssignmentValue(Message, key=22, versions="0", flexible="0+"):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]
    active_tasks_pending_revocation: list[TaskIds]
    standby_tasks_pending_revocation: list[TaskIds]
    warmup_tasks_pending_revocation: list[TaskIds]

    class TaskIds(Part):
        subtopology_id: String
        partitions: list[Int32]
        assignment_epochs: list[Int32] | None = field("0+", tag=0)


class StreamsGroupTopologyKey(Message, key=23, versions="0", flexible="none"):
    group_id: String


class TopicInfo(Part):
    """An internal topic of a topology; 0 partitions or replicas mean that the broker decides."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[TopicConfig]

    class TopicConfig(Part):
        key: String
        value: String


class StreamsGroupTopologyValue(Message, key=23, versions="0", flexible="0+"):
    epoch: Int32
    subtopologies: list[Subtopology]

    class Subtopology(Part):
        subtopology_id: String
        source_topics: list[String]
        source_topic_regex: list[String]
        state_changelog_topics: list[TopicInfo]
        repartition_sink_topics: list[String]
        repartition_source_topics: list[TopicInfo]
        copartition_groups: list[CopartitionGroup]

        class CopartitionGroup(Part):
            source_topics: list[Int16]
            source_topic_regex: list[Int16]
            repartition_source_topics: list[Int16]
