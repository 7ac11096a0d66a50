"""AssignReplicasToDirs: reports which log directories a broker's replicas are in (KIP-858)."""

from __future__ import annotations

from wirekafka.apis.registry import ControllerCall, controller_api
from wirekafka.codec.message import Int16, Int32, Int64, Part, Request, Response, Uuid, field
from wirekafka.errors import Error
from wirekafka.metadata.directories import AssignDirectories
from wirekafka.metadata.sweep import in_portions
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION


class AssignReplicasToDirsRequest(Request, key=73, versions="0", flexible="0+"):
    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)
    directories: list[DirectoryData]

    class DirectoryData(Part):
        id: Uuid
        topics: list[TopicData]

        class TopicData(Part):
            topic_id: Uuid
            partitions: list[PartitionData]

            class PartitionData(Part):
                partition_index: Int32


class AssignReplicasToDirsResponse(Response, answers=AssignReplicasToDirsRequest):
    throttle_time_ms: Int32
    error_code: Int16
    directories: list[DirectoryData]

    class DirectoryData(Part):
        id: Uuid
        topics: list[TopicData]

        class TopicData(Part):
            topic_id: Uuid
            partitions: list[PartitionData]

            class PartitionData(Part):
                partition_index: Int32
                error_code: Int16


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
