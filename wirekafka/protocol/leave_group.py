"""LeaveGroup: removes members from a classic group."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, field


class LeaveGroupRequest(Request, key=13, versions="0-5", flexible="4+"):
    group_id: String
    member_id: String = field("0-2")
    members: list[MemberIdentity] = field("3+")

    class MemberIdentity(Part):
        member_id: String
        group_instance_id: String | None = field(default=None)
        reason: String | None = field("5+", default=None)


class LeaveGroupResponse(Response, answers=LeaveGroupRequest):
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16
    members: list[MemberResponse] = field("3+")

    class MemberResponse(Part):
        member_id: String
        group_instance_id: String | None = field(default="")
        error_code: Int16
