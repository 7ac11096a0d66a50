"""BrokerHeartbeat: keeps a broker's session with the controller alive (KIP-631)."""

from __future__ import annotations

from wirekafka.codec.message import Bool, Int16, Int32, Int64, Request, Response, Uuid, field


class BrokerHeartbeatRequest(Request, key=63, versions="0-2", flexible="0+"):
    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)
    current_metadata_offset: Int64
    want_fence: Bool
    want_shut_down: Bool
    offline_log_dirs: list[Uuid] = field("1+", tag=0)
    cordoned_log_dirs: list[Uuid] | None = field("2+", default=None, tag=1)


class BrokerHeartbeatResponse(Response, answers=BrokerHeartbeatRequest):
    throttle_time_ms: Int32
    error_code: Int16
    is_caught_up: Bool
    is_fenced: Bool = field(default=True)
    should_shut_down: Bool
