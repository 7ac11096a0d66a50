"""DeleteShareGroupState: deletes the state of share partitions (KIP-932)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.share_state_results import (
    by_topic,
    error_fields,
    failed_fields,
    is_processed,
)
from wirekafka.coordinator.share_state.commands import StateDeletion
from wirekafka.coordinator.share_state.states import ShareKey
from wirekafka.errors import KafkaError
from wirekafka.protocol.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
)
from wirekafka.security.access import refusal
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION

_Topic = DeleteShareGroupStateResponse.DeleteStateResult
_Partition = _Topic.PartitionResult


@api(DeleteShareGroupStateRequest, DeleteShareGroupStateResponse)
async def delete_share_group_state(
    request: DeleteShareGroupStateRequest, call: Call
) -> DeleteShareGroupStateResponse:
    """Delete the state of each share partition."""
    if not call.is_authorized(CLUSTER_ACTION, CLUSTER):
        raise refusal(CLUSTER)
    if not is_processed(request):
        return DeleteShareGroupStateResponse()
    commands = [
        StateDeletion(ShareKey(request.group_id, topic.topic_id, partition.partition))
        for topic in request.topics
        for partition in topic.partitions
    ]
    results = await call.broker.share_coordinator.submit_all(commands)
    return DeleteShareGroupStateResponse(
        results=[
            _Topic(
                topic_id=topic_id,
                partitions=[
                    _Partition(partition=index, **error_fields(result, "delete share group state"))
                    for index, result in partitions
                ],
            )
            for topic_id, partitions in by_topic(commands, results)
        ]
    )


@failure_of(delete_share_group_state)
def delete_share_group_state_failure(
    request: DeleteShareGroupStateRequest, error: KafkaError, call: Call
) -> DeleteShareGroupStateResponse:
    """Report the error for every partition of the request."""
    return DeleteShareGroupStateResponse(
        results=[
            _Topic(
                topic_id=topic.topic_id,
                partitions=[
                    _Partition(partition=each.partition, **failed_fields(error))
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
