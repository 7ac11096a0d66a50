"""ListPartitionReassignments: lists the partitions that are being reassigned (KIP-455)."""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.errors import KafkaError
from wirekafka.metadata.controller.reassignments import is_moving
from wirekafka.metadata.image.image import PartitionImage
from wirekafka.protocol.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from wirekafka.security.acl import CLUSTER, DESCRIBE

_Topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
_Partition = _Topic.OngoingPartitionReassignment


@api(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, forwarded=True)
def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, call: ControllerCall
) -> ListPartitionReassignmentsResponse:
    """List the ongoing reassignments of the requested partitions, or of all."""
    call.authorize(DESCRIBE, CLUSTER)
    image = call.controller.image
    if request.topics is None:
        requested = [(topic.name, list(topic.partitions)) for topic in image.topics.values()]
    else:
        requested = [(topic.name, topic.partition_indexes) for topic in request.topics]
    topics = []
    for name, indexes in requested:
        partitions = (image.partition(name, index) for index in indexes)
        moving = [_moving(each) for each in partitions if each is not None and is_moving(each)]
        if moving:
            topics.append(_Topic(name=name, partitions=moving))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


@failure_of(list_partition_reassignments)
def list_partition_reassignments_failure(
    request: ListPartitionReassignmentsRequest, error: KafkaError, call: ControllerCall
) -> ListPartitionReassignmentsResponse:
    """Report the error, with the requested partitions as if each had no replicas."""
    return ListPartitionReassignmentsResponse(
        error_code=error.error,
        error_message=error.message,
        topics=[
            _Topic(
                name=topic.name,
                partitions=[_Partition(partition_index=index) for index in topic.partition_indexes],
            )
            for topic in request.topics or ()
        ],
    )


def _moving(partition: PartitionImage) -> _Partition:
    return _Partition(
        partition_index=partition.index,
        replicas=partition.replicas,
        adding_replicas=partition.adding_replicas,
        removing_replicas=partition.removing_replicas,
    )
