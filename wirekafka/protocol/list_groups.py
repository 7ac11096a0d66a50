"""ListGroups: lists the groups that a broker coordinates."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, field


class ListGroupsRequest(Request, key=16, versions="0-5", flexible="3+"):
    states_filter: list[String] = field("4+")
    types_filter: list[String] = field("5+")


class ListGroupsResponse(Response, answers=ListGroupsRequest):
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16
    groups: list[ListedGroup]

    class ListedGroup(Part):
        group_id: String
        protocol_type: String
        group_state: String = field("4+")
        group_type: String = field("5+")
