"""SyncGroup: distributes the leader's assignment to the members of a classic group."""

from __future__ import annotations

from wirekafka.codec.message import Bytes, Int16, Int32, Part, Request, Response, String, field


class SyncGroupRequest(Request, key=14, versions="0-5", flexible="4+"):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field("3+", default=None)
    protocol_type: String | None = field("5+", default=None)
    protocol_name: String | None = field("5+", default=None)
    assignments: list[Assignment]

    class Assignment(Part):
        member_id: String
        assignment: Bytes


class SyncGroupResponse(Response, answers=SyncGroupRequest):
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16
    protocol_type: String | None = field("5+", default=None)
    protocol_name: String | None = field("5+", default=None)
    assignment: Bytes
