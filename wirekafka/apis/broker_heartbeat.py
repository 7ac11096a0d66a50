"""BrokerHeartbeat: keeps a broker's session with the controller alive (KIP-631).

The controller fences, unfences and shuts down brokers by it.
v1: failed log directories (KIP-858), v2: cordoned log directories (KIP-1066).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.registry import controller_api
from wirekafka.metadata.controller.heartbeats import BrokerHeartbeat
from wirekafka.protocol.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION


@controller_api(BrokerHeartbeatRequest, BrokerHeartbeatResponse)
async def broker_heartbeat(
    request: BrokerHeartbeatRequest, call: ControllerCall
) -> BrokerHeartbeatResponse:
    """Renew the broker's session, and report whether it is fenced and may shut down."""
    call.authorize(CLUSTER_ACTION, CLUSTER)
    standing = await call.controller.submit(
        BrokerHeartbeat(
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
