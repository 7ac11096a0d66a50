"""DescribeGroups: describes the state and the members of classic groups.

v4: static members (KIP-345), v6: GROUP_ID_NOT_FOUND (KIP-1043).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.group_access import describable
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.coordinator.groups import commands as group_commands
from wirekafka.coordinator.groups.commands import DescribeGroup
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from wirekafka.security.acl import GROUP

_NOT_FOUND_SINCE = 6
_DEAD = "Dead"
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS: all operations on a group."""


@api(DescribeGroupsRequest, DescribeGroupsResponse)
async def describe_groups(request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    """Describe each group; an unknown group is Dead."""
    turns = Turns()
    kind = DescribeGroupsResponse.DescribedGroup
    refused, allowed = await describable(request.groups, call, turns)
    groups = await turns.map(
        lambda id: kind(group_id=id, error_code=Error.GROUP_AUTHORIZATION_FAILED), refused
    )
    for group_id in allowed:
        group = await _describe(group_id, call)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = call.allowed_operations(GROUP, group_id)
        groups.append(group)
        await turns.step()
    return DescribeGroupsResponse(groups=groups)


async def _describe(group_id: str, call: Call) -> DescribeGroupsResponse.DescribedGroup:
    kind = DescribeGroupsResponse.DescribedGroup
    try:
        described: group_commands.DescribedGroup = await call.broker.groups.submit(
            group_id, DescribeGroup(group_id)
        )
    except KafkaError as error:
        if error.error is not Error.GROUP_ID_NOT_FOUND:
            return kind(group_id=group_id, error_code=error.error)
        if call.version < _NOT_FOUND_SINCE:
            return kind(group_id=group_id, group_state=_DEAD)
        return kind(
            group_id=group_id,
            group_state=_DEAD,
            error_code=error.error,
            error_message=error.message,
        )
    return kind(
        group_id=group_id,
        group_state=described.state,
        protocol_type=described.protocol_type,
        protocol_data=described.protocol_name,
        members=[
            kind.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in described.members
        ],
    )


@failure_of(describe_groups)
def describe_groups_failure(
    request: DescribeGroupsRequest, error: KafkaError, call: Call
) -> DescribeGroupsResponse:
    """Report the error for every group of the request."""
    return DescribeGroupsResponse(
        groups=[
            DescribeGroupsResponse.DescribedGroup(group_id=group_id, error_code=error.error)
            for group_id in request.groups
        ]
    )
