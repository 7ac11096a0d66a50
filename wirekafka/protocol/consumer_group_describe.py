"""ConsumerGroupDescribe: describes groups with server-side assignment (KIP-848)."""

from __future__ import annotations

from wirekafka.codec.message import (
    Bool,
    Int8,
    Int16,
    Int32,
    Part,
    Request,
    Response,
    String,
    Uuid,
    field,
)
from wirekafka.protocol.authorized_operations import NOT_REQUESTED

"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS: all operations on a group."""


class ConsumerGroupDescribeRequest(Request, key=69, versions="0-1", flexible="0+"):
    group_ids: list[String]
    include_authorized_operations: Bool


class Assignment(Part):
    topic_partitions: list[TopicPartitions]

    class TopicPartitions(Part):
        topic_id: Uuid
        topic_name: String
        partitions: list[Int32]


class ConsumerGroupDescribeResponse(Response, answers=ConsumerGroupDescribeRequest):
    throttle_time_ms: Int32
    groups: list[DescribedGroup]

    class DescribedGroup(Part):
        error_code: Int16
        error_message: String | None = field(default=None)
        group_id: String
        group_state: String
        group_epoch: Int32
        assignment_epoch: Int32
        assignor_name: String
        members: list[Member]
        authorized_operations: Int32 = field(default=NOT_REQUESTED)

        class Member(Part):
            member_id: String
            instance_id: String | None = field(default=None)
            rack_id: String | None = field(default=None)
            member_epoch: Int32
            client_id: String
            client_host: String
            subscribed_topic_names: list[String]
            subscribed_topic_regex: String | None = field(default=None)
            assignment: Assignment
            target_assignment: Assignment
            member_type: Int8 = field("1+", default=-1)
