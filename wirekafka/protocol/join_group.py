"""JoinGroup: adds a member to a classic group and starts a rebalance."""

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


class JoinGroupRequest(Request, key=11, versions="0-9", flexible="6+"):
    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field("1+", default=-1)
    member_id: String
    group_instance_id: String | None = field("5+", default=None)
    protocol_type: String
    protocols: list[Protocol]
    reason: String | None = field("8+", default=None)

    class Protocol(Part):
        name: String
        metadata: Bytes


class JoinGroupResponse(Response, answers=JoinGroupRequest):
    throttle_time_ms: Int32 = field("2+")
    error_code: Int16
    generation_id: Int32 = field(default=-1)
    protocol_type: String | None = field("7+", default=None)
    protocol_name: String | None = field(nullable="7+", default="")
    leader: String
    skip_assignment: Bool = field("9+")
    member_id: String
    members: list[Member]

    class Member(Part):
        member_id: String
        group_instance_id: String | None = field("5+", default=None)
        metadata: Bytes
