"""AssignReplicasToDirs: reports which log directories a broker's replicas are in (KIP-858)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Int64, Part, Request, Response, Uuid, field


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
