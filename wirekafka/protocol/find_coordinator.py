"""FindCoordinator: finds the broker that coordinates a group, a transaction or a share
partition.
"""

from __future__ import annotations

from wirekafka.codec.message import Int8, Int16, Int32, Part, Request, Response, String, field


class FindCoordinatorRequest(Request, key=10, versions="0-6", flexible="3+"):
    key: String = field("0-3")
    key_type: Int8 = field("1+")
    coordinator_keys: list[String] = field("4+")


class FindCoordinatorResponse(Response, answers=FindCoordinatorRequest):
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16 = field("0-3")
    error_message: String | None = field("1-3", default="")
    node_id: Int32 = field("0-3")
    host: String = field("0-3")
    port: Int32 = field("0-3")
    coordinators: list[Coordinator] = field("4+")

    class Coordinator(Part):
        key: String
        node_id: Int32
        host: String
        port: Int32
        error_code: Int16
        error_message: String | None = field(default="")
