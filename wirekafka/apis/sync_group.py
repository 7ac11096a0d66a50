"""SyncGroup: distributes the leader's assignment to the members of a classic group.

v3: static members (KIP-345), v5: protocol check (KIP-559).
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Bytes, Int16, Int32, Part, Request, Response, String, field
from wirekafka.coordinator.group_commands import Sync, Synced
from wirekafka.errors import Error, KafkaError
from wirekafka.security.acl import GROUP, READ


class SyncGroupRequest(Request, key=14, versions="0-5", flexible="4+"):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field("3+", default=None)
    protocol_type: String | None = field("5+", default=None)
    protocol_name: String | None = field("5+", default=None)
    assignments: list[Assignment]

    class Assignment(Part):
        member_id: String
        assignment: Bytes


class SyncGroupResponse(Response, answers=SyncGroupRequest):
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16
    protocol_type: String | None = field("5+", default=None)
    protocol_name: String | None = field("5+", default=None)
    assignment: Bytes


_PROTOCOL_REQUIRED_SINCE = 5


@api(SyncGroupRequest, SyncGroupResponse)
async def sync_group(request: SyncGroupRequest, call: Call) -> SyncGroupResponse:
    """Store the leader's assignment, or wait for it; respond with the member's part."""
    if call.version >= _PROTOCOL_REQUIRED_SINCE and (
        request.protocol_type is None or request.protocol_name is None
    ):
        raise KafkaError(Error.INCONSISTENT_GROUP_PROTOCOL)
    call.authorize(READ, GROUP, request.group_id)
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
