"""WriteShareGroupState: changes the state of share partitions (KIP-932).

v1: delivery complete count (KIP-1226).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.share_state_results import (
    by_topic,
    error_fields,
    failed_fields,
    is_processed,
)
from wirekafka.coordinator.share_state.states import ShareKey, StateBatch, StateWrite
from wirekafka.errors import KafkaError
from wirekafka.protocol.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)
from wirekafka.security.access import refusal
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION

_PartitionData = WriteShareGroupStateRequest.WriteStateData.PartitionData
_Topic = WriteShareGroupStateResponse.WriteStateResult
_Partition = _Topic.PartitionResult


@api(WriteShareGroupStateRequest, WriteShareGroupStateResponse)
async def write_share_group_state(
    request: WriteShareGroupStateRequest, call: Call
) -> WriteShareGroupStateResponse:
    """Write the changes of each share partition."""
    if not call.is_authorized(CLUSTER_ACTION, CLUSTER):
        raise refusal(CLUSTER)
    if not is_processed(request):
        return WriteShareGroupStateResponse()
    writes = [
        _write(ShareKey(request.group_id, topic.topic_id, each.partition), each)
        for topic in request.topics
        for each in topic.partitions
    ]
    results = await call.broker.share_coordinator.submit_all(writes)
    return WriteShareGroupStateResponse(
        results=[
            _Topic(
                topic_id=topic_id,
                partitions=[
                    _Partition(partition=index, **error_fields(result, "write share group state"))
                    for index, result in partitions
                ],
            )
            for topic_id, partitions in by_topic(writes, results)
        ]
    )


def _write(key: ShareKey, changed: _PartitionData) -> StateWrite:
    return StateWrite(
        key,
        changed.state_epoch,
        changed.leader_epoch,
        changed.start_offset,
        changed.delivery_complete_count,
        tuple(
            StateBatch(
                batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
            )
            for batch in changed.state_batches
        ),
    )


@failure_of(write_share_group_state)
def write_share_group_state_failure(
    request: WriteShareGroupStateRequest, error: KafkaError, call: Call
) -> WriteShareGroupStateResponse:
    """Report the error for every partition of the request."""
    return WriteShareGroupStateResponse(
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
