"""ShareGroupDescribe: describes share groups and their members (KIP-932)."""

from __future__ import annotations

from wirekafka.codec.message import Bool, Int16, Int32, Part, Request, Response, String, Uuid, field
from wirekafka.protocol.authorized_operations import NOT_REQUESTED


class ShareGroupDescribeRequest(Request, key=77, versions="1", flexible="0+"):
    group_ids: list[String]
    include_authorized_operations: Bool


class ShareGroupDescribeResponse(Response, answers=ShareGroupDescribeRequest):
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
            rack_id: String | None = field(default=None)
            member_epoch: Int32
            client_id: String
            client_host: String
            subscribed_topic_names: list[String]
            assignment: Assignment

            class Assignment(Part):
                topic_partitions: list[TopicPartitions]

                class TopicPartitions(Part):
                    topic_id: Uuid
                    topic_name: String
                    partitions: list[Int32]
