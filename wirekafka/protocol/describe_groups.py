"""DescribeGroups: describes the state and the members of classic groups."""

from __future__ import annotations

from wirekafka.codec.message import (
    Bool,
    Bytes,
    Int16,
    Int32,
    Part,
    Request,
    Response,
    String,
    field,
)
from wirekafka.protocol.authorized_operations import NOT_REQUESTED


class DescribeGroupsRequest(Request, key=15, versions="0-6", flexible="5+"):
    groups: list[String]
    include_authorized_operations: Bool = field("3+")


class DescribeGroupsResponse(Response, answers=DescribeGroupsRequest):
    throttle_time_ms: Int32 = field("1+")
    groups: list[DescribedGroup]

    class DescribedGroup(Part):
        error_code: Int16
        error_message: String | None = field("6+", default=None)
        group_id: String
        group_state: String
        protocol_type: String
        protocol_data: String
        members: list[DescribedGroupMember]
        authorized_operations: Int32 = field("3+", default=NOT_REQUESTED)

        class DescribedGroupMember(Part):
            member_id: String
            group_instance_id: String | None = field("4+", default=None)
            client_id: String
            client_host: String
            member_metadata: Bytes
            member_assignment: Bytes
