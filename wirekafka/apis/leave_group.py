"""LeaveGroup: removes members from a classic group.

v3: several members, by instance id (KIP-345), v5: reasons (KIP-800).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.group_access import check_group_id
from wirekafka.apis.shared.registry import api
from wirekafka.coordinator.groups.commands import Leave, Leaver
from wirekafka.errors import Error
from wirekafka.protocol.leave_group import LeaveGroupRequest, LeaveGroupResponse
from wirekafka.security.acl import GROUP, READ

_BATCH_SINCE = 3


@api(LeaveGroupRequest, LeaveGroupResponse)
async def leave_group(request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    """Remove the members; before v3 there is one, and its error is at the top level."""
    call.authorize(READ, GROUP, request.group_id)
    check_group_id(request.group_id)
    is_batch = call.version >= _BATCH_SINCE
    leavers = (
        [Leaver(each.member_id, each.group_instance_id, each.reason) for each in request.members]
        if is_batch
        else [Leaver(request.member_id)]
    )
    errors: list[Error] = await call.broker.groups.submit(
        request.group_id, Leave(request.group_id, leavers)
    )
    if not is_batch:
        return LeaveGroupResponse(error_code=errors[0])
    return LeaveGroupResponse(
        members=[
            LeaveGroupResponse.MemberResponse(
                member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=error
            )
            for leaver, error in zip(leavers, errors, strict=True)
        ]
    )
