"""DeleteGroups: deletes groups without members, and all their offsets (KIP-229).

v3: an error message per group (KIP-1331).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.coordinator.java_order import copied_capacity, strings_in_order
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from wirekafka.security.acl import DELETE, GROUP


@api(DeleteGroupsRequest, DeleteGroupsResponse)
async def delete_groups(request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse:
    """Delete each group with its offsets; a group that has members is NON_EMPTY_GROUP.

    The order is Kafka's, in the response and of the records: shard by shard, each in the order of
    a `HashSet`. Share groups are deleted once the states of their share partitions are.
    """
    may_delete = await Turns().authorized(call, DELETE, GROUP, request.groups_names)
    names = dict.fromkeys(request.groups_names)
    errors: dict[str, Error] = {}
    for ids in call.broker.groups.by_shard(name for name in names if name in may_delete):
        refused = await call.broker.share_groups.delete_states(ids)
        ordered = strings_in_order(ids, copied_capacity(len(ids)))
        errors |= refused
        errors |= await call.broker.groups.delete_groups(
            [group_id for group_id in ordered if group_id not in refused]
        )
    errors |= dict.fromkeys(
        (name for name in names if name not in may_delete), Error.GROUP_AUTHORIZATION_FAILED
    )
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=error)
            for group_id, error in errors.items()
        ]
    )


@failure_of(delete_groups)
def delete_groups_failure(
    request: DeleteGroupsRequest, error: KafkaError, call: Call
) -> DeleteGroupsResponse:
    """Report the error for every group of the request."""
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=error.error)
            for group_id in request.groups_names
        ]
    )
