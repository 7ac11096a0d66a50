"""Heartbeat: keeps a classic group member's session alive and reports rebalances to it.

v3: static members (KIP-345).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.group_access import check_group_id
from wirekafka.apis.shared.registry import api
from wirekafka.coordinator.groups import commands as group_commands
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.heartbeat import HeartbeatRequest, HeartbeatResponse
from wirekafka.security.acl import GROUP, READ


@api(HeartbeatRequest, HeartbeatResponse)
async def heartbeat(request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    """Renew the member's session; REBALANCE_IN_PROGRESS asks it to join again."""
    call.authorize(READ, GROUP, request.group_id)
    check_group_id(request.group_id)
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
