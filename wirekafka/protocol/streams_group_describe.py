"""StreamsGroupDescribe: describes groups of streams applications (KIP-1071)."""

from __future__ import annotations

from wirekafka.codec.message import (
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    UInt16,
    field,
)
from wirekafka.protocol.authorized_operations import NOT_REQUESTED


class StreamsGroupDescribeRequest(Request, key=89, versions="0-1", flexible="0+"):
    group_ids: list[String]
    include_authorized_operations: Bool
    include_topology_description: Bool = field("1+", default=False)


class KeyValue(Part):
    key: String
    value: String


class TaskIds(Part):
    subtopology_id: String
    partitions: list[Int32]


class TaskOffset(Part):
    subtopology_id: String
    partition: Int32
    offset: Int64


class TopicInfo(Part):
    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[KeyValue]


class Assignment(Part):
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


class Node(Part):
    """A node of a topology description."""

    name: String
    node_type: Int8
    source_topics: list[String]
    sink_topic: String | None = field(default=None)
    stores: list[String]
    successors: list[String]


class StreamsGroupDescribeResponse(Response, answers=StreamsGroupDescribeRequest):
    throttle_time_ms: Int32
    groups: list[DescribedGroup]

    class DescribedGroup(Part):
        error_code: Int16
        error_message: String | None = field(default=None)
        group_id: String
        group_state: String
        group_epoch: Int32
        assignment_epoch: Int32
        topology: Topology | None = field(default=None)
        members: list[Member]
        authorized_operations: Int32 = field(default=NOT_REQUESTED)
        topology_description: TopologyDescription | None = field("1+", default=None)
        topology_description_status: Int8 = field("1+", default=0)
        assignor_name: String | None = field("1+", default=None)

        class Topology(Part):
            epoch: Int32
            subtopologies: list[Subtopology] | None = field(default=None)

            class Subtopology(Part):
                subtopology_id: String
                source_topics: list[String]
                repartition_sink_topics: list[String]
                state_changelog_topics: list[TopicInfo]
                repartition_source_topics: list[TopicInfo]

        class Member(Part):
            member_id: String
            member_epoch: Int32
            instance_id: String | None = field(default=None)
            rack_id: String | None = field(default=None)
            client_id: String
            client_host: String
            topology_epoch: Int32
            process_id: String
            user_endpoint: Endpoint | None = field(default=None)
            client_tags: list[KeyValue]
            task_offsets: list[TaskOffset]
            task_end_offsets: list[TaskOffset]
            assignment: Assignment
            target_assignment: Assignment
            is_classic: Bool

            class Endpoint(Part):
                host: String
                port: UInt16

        class TopologyDescription(Part):
            subtopologies: list[DescribedSubtopology]
            global_stores: list[GlobalStore]

            class DescribedSubtopology(Part):
                subtopology_id: String
                nodes: list[Node]

            class GlobalStore(Part):
                source: Node
                processor: Node
