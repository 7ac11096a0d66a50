"""ListGroups: lists the groups that a broker coordinates.

v4: by state (KIP-518), v5: by type (KIP-848).
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, field
from wirekafka.security.acl import CLUSTER, DESCRIBE, GROUP


class ListGroupsRequest(Request, key=16, versions="0-5", flexible="3+"):
    states_filter: list[String] = field("4+")
    types_filter: list[String] = field("5+")


class ListGroupsResponse(Response, answers=ListGroupsRequest):
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16
    groups: list[ListedGroup]

    class ListedGroup(Part):
        group_id: String
        protocol_type: String
        group_state: String = field("4+")
        group_type: String = field("5+")


@api(ListGroupsRequest, ListGroupsResponse)
async def list_groups(request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    """List the groups coordinated here that pass the filters on states and types."""
    states = frozenset(state.strip().lower() for state in request.states_filter)
    types = {kind.strip().lower() for kind in request.types_filter}
    sees_all = call.may(DESCRIBE, CLUSTER)
    return ListGroupsResponse(
        groups=[
            ListGroupsResponse.ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.type,
            )
            for group in await call.broker.groups.list_groups(states)
            if (not types or group.type in types)
            and (sees_all or call.may(DESCRIBE, GROUP, group.group_id))
        ]
    )
