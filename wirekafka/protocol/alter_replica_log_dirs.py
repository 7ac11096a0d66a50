"""AlterReplicaLogDirs: moves replicas between the log directories of a broker (KIP-113)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String


class AlterReplicaLogDirsRequest(Request, key=34, versions="1-2", flexible="2+"):
    dirs: list[AlterReplicaLogDir]

    class AlterReplicaLogDir(Part):
        path: String
        topics: list[AlterReplicaLogDirTopic]

        class AlterReplicaLogDirTopic(Part):
            name: String
            partitions: list[Int32]


class AlterReplicaLogDirsResponse(Response, answers=AlterReplicaLogDirsRequest):
    throttle_time_ms: Int32
    results: list[AlterReplicaLogDirTopicResult]

    class AlterReplicaLogDirTopicResult(Part):
        topic_name: String
        partitions: list[AlterReplicaLogDirPartitionResult]

        class AlterReplicaLogDirPartitionResult(Part):
            partition_index: Int32
            error_code: Int16
