"""ReadShareGroupStateSummary: reads the state of share partitions, without batches (KIP-932).

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
from wirekafka.coordinator.share_state.commands import SummaryRead
from wirekafka.coordinator.share_state.states import ShareKey, StateSummary
from wirekafka.errors import KafkaError
from wirekafka.protocol.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from wirekafka.security.access import refusal
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION

_Topic = ReadShareGroupStateSummaryResponse.ReadStateSummaryResult
_Partition = _Topic.PartitionResult


@api(ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse)
async def read_share_group_state_summary(
    request: ReadShareGroupStateSummaryRequest, call: Call
) -> ReadShareGroupStateSummaryResponse:
    """Read the epochs, start offset and delivery complete count of each share partition."""
    if not call.is_authorized(CLUSTER_ACTION, CLUSTER):
        raise refusal(CLUSTER)
    if not is_processed(request):
        return ReadShareGroupStateSummaryResponse()
    commands = [
        SummaryRead(ShareKey(request.group_id, topic.topic_id, partition.partition))
        for topic in request.topics
        for partition in topic.partitions
    ]
    results = await call.broker.share_coordinator.submit_all(commands)
    return ReadShareGroupStateSummaryResponse(
        results=[
            _Topic(
                topic_id=topic_id,
                partitions=[_partition(index, result) for index, result in partitions],
            )
            for topic_id, partitions in by_topic(commands, results)
        ]
    )


def _partition(index: int, result: StateSummary | KafkaError) -> _Partition:
    if isinstance(result, KafkaError):
        return _Partition(partition=index, **error_fields(result, "read share group state summary"))
    return _Partition(partition=index, **result._asdict())


@failure_of(read_share_group_state_summary)
def read_share_group_state_summary_failure(
    request: ReadShareGroupStateSummaryRequest, error: KafkaError, call: Call
) -> ReadShareGroupStateSummaryResponse:
    """Report the error for every partition of the request."""
    return ReadShareGroupStateSummaryResponse(
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
