"""DeleteGroups: deletes groups without members, and all their offsets (KIP-229)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, field


class DeleteGroupsRequest(Request, key=42, versions="0-3", flexible="2+"):
    groups_names: list[String]


class DeleteGroupsResponse(Response, answers=DeleteGroupsRequest):
    throttle_time_ms: Int32
    results: list[DeletableGroupResult]

    class DeletableGroupResult(Part):
        group_id: String
        error_code: Int16
        error_message: String | None = field("3+", default=None)
