"""ReadShareGroupState: reads the state of share partitions for their leaders (KIP-932)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.share_state_results import (
    by_topic,
    error_fields,
    failed_fields,
    is_processed,
)
from wirekafka.coordinator.share_state.states import ShareKey, StateRead, StoredState
from wirekafka.errors import KafkaError
from wirekafka.protocol.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
)
from wirekafka.security.access import refusal
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION

_Topic = ReadShareGroupStateResponse.ReadStateResult
_Partition = _Topic.PartitionResult


@api(ReadShareGroupStateRequest, ReadShareGroupStateResponse)
async def read_share_group_state(
    request: ReadShareGroupStateRequest, call: Call
) -> ReadShareGroupStateResponse:
    """Read the state of each share partition, and fence earlier leaders."""
    if not call.is_authorized(CLUSTER_ACTION, CLUSTER):
        raise refusal(CLUSTER)
    if not is_processed(request):
        return ReadShareGroupStateResponse()
    commands = [
        StateRead(
            ShareKey(request.group_id, topic.topic_id, partition.partition), partition.leader_epoch
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    results = await call.broker.share_coordinator.submit_all(commands)
    return ReadShareGroupStateResponse(
        results=[
            _Topic(
                topic_id=topic_id,
                partitions=[_partition(index, result) for index, result in partitions],
            )
            for topic_id, partitions in by_topic(commands, results)
        ]
    )


def _partition(index: int, result: StoredState | KafkaError) -> _Partition:
    if isinstance(result, KafkaError):
        return _Partition(partition=index, **error_fields(result, "read share group state"))
    return _Partition(
        partition=index,
        state_epoch=result.state_epoch,
        start_offset=result.start_offset,
        state_batches=[_Partition.StateBatch(**batch._asdict()) for batch in result.batches],
    )


@failure_of(read_share_group_state)
def read_share_group_state_failure(
    request: ReadShareGroupStateRequest, error: KafkaError, call: Call
) -> ReadShareGroupStateResponse:
    """Report the error for every partition of the request."""
    return ReadShareGroupStateResponse(
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
