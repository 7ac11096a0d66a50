"""AssignReplicasToDirs: reports which log directories a broker's replicas are in (KIP-858)."""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.registry import controller_api
from wirekafka.errors import Error
from wirekafka.metadata.controller.directories import AssignDirectories
from wirekafka.metadata.controller.sweep import in_portions
from wirekafka.protocol.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION

_Directory = AssignReplicasToDirsResponse.DirectoryData
_Topic = _Directory.TopicData


@controller_api(AssignReplicasToDirsRequest, AssignReplicasToDirsResponse)
async def assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, call: ControllerCall
) -> AssignReplicasToDirsResponse:
    """Record the log directory of each replica; each has a result of its own."""
    call.authorize(CLUSTER_ACTION, CLUSTER)
    directories = {
        (topic.topic_id, partition.partition_index): directory.id
        for directory in request.directories
        for topic in directory.topics
        for partition in topic.partitions
    }
    errors: dict[tuple[bytes, int], Error] = {}
    for portion in in_portions(directories.items()):
        errors |= await call.controller.submit(
            AssignDirectories(request.broker_id, request.broker_epoch, dict(portion))
        )
    return AssignReplicasToDirsResponse(
        directories=[
            _Directory(
                id=directory.id,
                topics=[
                    _Topic(
                        topic_id=topic.topic_id,
                        partitions=[
                            _Topic.PartitionData(
                                partition_index=each.partition_index,
                                error_code=errors[topic.topic_id, each.partition_index],
                            )
                            for each in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )
