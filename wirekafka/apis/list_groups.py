"""ListGroups: lists the groups that a broker coordinates.

v4: by state (KIP-518), v5: by type (KIP-848).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api
from wirekafka.apis.shared.turns import Turns
from wirekafka.protocol.list_groups import ListGroupsRequest, ListGroupsResponse
from wirekafka.security.acl import CLUSTER, DESCRIBE, GROUP


@api(ListGroupsRequest, ListGroupsResponse)
async def list_groups(request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    """List the groups coordinated here that pass the filters on states and types."""
    states = frozenset(state.strip().lower() for state in request.states_filter)
    types = {kind.strip().lower() for kind in request.types_filter}
    sees_all = call.may(DESCRIBE, CLUSTER)
    turns = Turns()
    groups = []
    for group in await call.broker.groups.list_groups(states):
        if (not types or group.type in types) and (
            sees_all or call.may(DESCRIBE, GROUP, group.group_id)
        ):
            groups.append(
                ListGroupsResponse.ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type=group.type,
                )
            )
        await turns.step()
    return ListGroupsResponse(groups=groups)
