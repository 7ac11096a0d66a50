"""AlterPartitionReassignments: starts and cancels moves of partitions to other replicas (KIP-455).

v1: may refuse to change the replication factor (KIP-860).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.reassignments import Move, Reassign
from wirekafka.protocol.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from wirekafka.security.acl import ALTER, CLUSTER

_Topic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
_Partition = _Topic.ReassignablePartitionResponse


@api(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, forwarded=True)
async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, call: ControllerCall
) -> AlterPartitionReassignmentsResponse:
    """Start or cancel the reassignment of each partition; each has a result of its own."""
    call.authorize(ALTER, CLUSTER)
    if not request.topics:
        # Kafka answers this before it looks at anything else in the request.
        return AlterPartitionReassignmentsResponse()
    moves = [
        Move(topic.name, partition.partition_index, partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    ]
    errors = iter(
        await call.controller.submit(
            Reassign(moves, may_change_factor=request.allow_replication_factor_change)
        )
    )
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    for topic in request.topics:
        response.responses.append(
            _Topic(
                name=topic.name,
                partitions=[
                    _result(partition.partition_index, next(errors))
                    for partition in topic.partitions
                ],
            )
        )
    return response


@failure_of(alter_partition_reassignments)
def alter_partition_reassignments_failure(
    request: AlterPartitionReassignmentsRequest, error: KafkaError, call: ControllerCall
) -> AlterPartitionReassignmentsResponse:
    """Report the error for the whole request, and for each requested partition."""
    return AlterPartitionReassignmentsResponse(
        error_code=error.error,
        error_message=error.message,
        responses=[
            _Topic(
                name=topic.name,
                partitions=[_result(each.partition_index, error) for each in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _result(index: int, error: KafkaError | None) -> _Partition:
    return _Partition(
        partition_index=index,
        error_code=error.error if error else Error.NONE,
        error_message=error.message if error else None,
    )
