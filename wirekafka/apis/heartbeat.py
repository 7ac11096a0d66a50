"""Heartbeat: keeps a classic group member's session alive and reports rebalances to it.

v3: static members (KIP-345).
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int16, Int32, Request, Response, String, field
from wirekafka.coordinator import group_commands
from wirekafka.errors import Error, KafkaError
from wirekafka.security.acl import GROUP, READ


class HeartbeatRequest(Request, key=12, versions="0-4", flexible="4+"):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field("3+", default=None)


class HeartbeatResponse(Response, answers=HeartbeatRequest):
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16


@api(HeartbeatRequest, HeartbeatResponse)
async def heartbeat(request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    """Renew the member's session; REBALANCE_IN_PROGRESS asks it to join again."""
    call.authorize(READ, GROUP, request.group_id)
    try:
        await call.broker.groups.submit(
            request.group_id,
            group_commands.Heartbeat(
                request.group_id,
                request.generation_id,
                request.member_id,
                request.group_instance_id,
            ),
        )
    except KafkaError as error:
        # Sessions start once the group is loaded, so none can expire before that.
        if error.error is not Error.COORDINATOR_LOAD_IN_PROGRESS:
            raise
    return HeartbeatResponse()
