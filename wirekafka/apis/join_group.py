"""JoinGroup: adds a member to a classic group and starts a rebalance.

v4: MEMBER_ID_REQUIRED (KIP-394), v5: static members (KIP-345), v8: reasons (KIP-800),
v9: SkipAssignment (KIP-814).
"""

from __future__ import annotations

from uuid import UUID

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.coordinator.groups.commands import AssignorChoice, Join, Joined, JoinRefused
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.join_group import JoinGroupRequest, JoinGroupResponse
from wirekafka.security.acl import GROUP, READ

_REBALANCE_TIMEOUT_SINCE = 1
_MEMBER_ID_REQUIRED_SINCE = 4
_NULL_PROTOCOL_SINCE = 7
_SKIP_ASSIGNMENT_SINCE = 9


@api(JoinGroupRequest, JoinGroupResponse)
async def join_group(request: JoinGroupRequest, call: Call) -> JoinGroupResponse:
    """Join the group, and respond with its next generation once all members joined."""
    call.authorize(READ, GROUP, request.group_id)
    if not request.group_id:
        raise JoinRefused(Error.INVALID_GROUP_ID, request.member_id)
    version = call.version
    is_dynamic_newcomer = not request.member_id and request.group_instance_id is None
    joined: Joined = await call.broker.groups.submit(
        request.group_id,
        Join(
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            client_id=call.client_id or "",
            client_host=call.client_host,
            protocol_type=request.protocol_type,
            protocols=tuple(AssignorChoice(each.name, each.metadata) for each in request.protocols),
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=(
                request.rebalance_timeout_ms
                if version >= _REBALANCE_TIMEOUT_SINCE
                else request.session_timeout_ms
            ),
            reason=request.reason,
            fresh_id=str(UUID(bytes=call.broker.new_id())),
            needs_known_member_id=version >= _MEMBER_ID_REQUIRED_SINCE and is_dynamic_newcomer,
            can_skip_assignment=version >= _SKIP_ASSIGNMENT_SINCE,
        ),
    )
    return JoinGroupResponse(
        generation_id=joined.generation_id,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name or "",
        leader=joined.leader_id,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponse.Member(
                member_id=each.member_id, group_instance_id=each.instance_id, metadata=each.metadata
            )
            for each in joined.members
        ],
    )


@failure_of(join_group)
def join_group_failure(
    request: JoinGroupRequest, error: KafkaError, call: Call
) -> JoinGroupResponse:
    """Report the error, with a member id only if a classic group or its checks refused."""
    return JoinGroupResponse(
        error_code=error.error,
        protocol_name=None if call.version >= _NULL_PROTOCOL_SINCE else "",
        member_id=error.member_id if isinstance(error, JoinRefused) else "",
    )
