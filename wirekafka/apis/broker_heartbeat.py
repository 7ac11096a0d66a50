"""BrokerHeartbeat: keeps a broker's session with the controller alive (KIP-631).

The controller fences, unfences and shuts down brokers by it.
v1: failed log directories (KIP-858), v2: cordoned log directories (KIP-1066).
"""

from __future__ import annotations

from wirekafka.apis.registry import ControllerCall, controller_api
from wirekafka.codec.message import Bool, Int16, Int32, Int64, Request, Response, Uuid, field
from wirekafka.metadata.heartbeats import Heartbeat
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION


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


@controller_api(BrokerHeartbeatRequest, BrokerHeartbeatResponse)
async def broker_heartbeat(
    request: BrokerHeartbeatRequest, call: ControllerCall
) -> BrokerHeartbeatResponse:
    """Renew the broker's session, and report whether it is fenced and may shut down."""
    call.authorize(CLUSTER_ACTION, CLUSTER)
    standing = await call.controller.submit(
        Heartbeat(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            metadata_offset=request.current_metadata_offset,
            wants_fence=request.want_fence,
            wants_shut_down=request.want_shut_down,
            cordoned=request.cordoned_log_dirs,
            offline=request.offline_log_dirs,
            log_end=call.controller.quorum.end_offset,
        )
    )
    return BrokerHeartbeatResponse(
        is_caught_up=standing.is_caught_up,
        is_fenced=standing.is_fenced,
        should_shut_down=standing.should_shut_down,
    )
