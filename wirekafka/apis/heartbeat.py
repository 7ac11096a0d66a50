"""Heartbeat: keeps a classic group member alive and tells it of rebalances;
v3: static members (KIP-345).
"""

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
