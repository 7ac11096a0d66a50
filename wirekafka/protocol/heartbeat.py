"""Heartbeat: keeps a classic group member's session alive and reports rebalances to it."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Request, Response, String, field


class HeartbeatRequest(Request, key=12, versions="0-4", flexible="4+"):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field("3+", default=None)


class HeartbeatResponse(Response, answers=HeartbeatRequest):
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16
