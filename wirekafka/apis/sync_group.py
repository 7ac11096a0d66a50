"""SyncGroup: distributes the leader's assignment to the members of a classic group.

v3: static members (KIP-345), v5: protocol check (KIP-559).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.group_access import check_group_id
from wirekafka.apis.shared.registry import api
from wirekafka.coordinator.groups.commands import Sync, Synced
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.sync_group import SyncGroupRequest, SyncGroupResponse
from wirekafka.security.acl import GROUP, READ

_PROTOCOL_REQUIRED_SINCE = 5


@api(SyncGroupRequest, SyncGroupResponse)
async def sync_group(request: SyncGroupRequest, call: Call) -> SyncGroupResponse:
    """Store the leader's assignment, or wait for it; respond with the member's part."""
    if call.version >= _PROTOCOL_REQUIRED_SINCE and (
        request.protocol_type is None or request.protocol_name is None
    ):
        raise KafkaError(Error.INCONSISTENT_GROUP_PROTOCOL)
    call.authorize(READ, GROUP, request.group_id)
    check_group_id(request.group_id)
    synced: Synced = await call.broker.groups.submit(
        request.group_id,
        Sync(
            group_id=request.group_id,
            generation_id=request.generation_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments={each.member_id: each.assignment for each in request.assignments},
        ),
    )
    return SyncGroupResponse(
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol_name,
        assignment=synced.assignment,
    )
