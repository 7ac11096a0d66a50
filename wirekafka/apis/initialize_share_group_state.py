"""InitializeShareGroupState: sets the first state of share partitions (KIP-932)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.share_state_results import by_topic, error_fields, failed_fields
from wirekafka.coordinator.share_state.states import ShareKey, StateInitialization
from wirekafka.errors import KafkaError
from wirekafka.protocol.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from wirekafka.security.access import refusal
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION

_OPERATION = "initialize share group state"
_Topic = InitializeShareGroupStateResponse.InitializeStateResult
_Partition = _Topic.PartitionResult


@api(InitializeShareGroupStateRequest, InitializeShareGroupStateResponse)
async def initialize_share_group_state(
    request: InitializeShareGroupStateRequest, call: Call
) -> InitializeShareGroupStateResponse:
    """Write the first state of each share partition, or reset it in a later state epoch."""
    if not call.is_authorized(CLUSTER_ACTION, CLUSTER):
        raise refusal(CLUSTER)
    if not (request.group_id and request.topics):
        return InitializeShareGroupStateResponse()
    commands = [
        StateInitialization(
            ShareKey(request.group_id, topic.topic_id, partition.partition),
            partition.state_epoch,
            partition.start_offset,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    results = await call.broker.share_coordinator.submit_all(commands)
    return InitializeShareGroupStateResponse(
        results=[
            _Topic(
                topic_id=topic_id,
                partitions=[
                    _Partition(partition=index, **error_fields(result, _OPERATION))
                    for index, result in partitions
                ],
            )
            for topic_id, partitions in by_topic(commands, results)
        ]
    )


@failure_of(initialize_share_group_state)
def initialize_share_group_state_failure(
    request: InitializeShareGroupStateRequest, error: KafkaError, call: Call
) -> InitializeShareGroupStateResponse:
    """Report the error for every partition of the request."""
    return InitializeShareGroupStateResponse(
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
