"""AlterReplicaLogDirs: moves replicas between the log directories of a broker (KIP-113)."""

from __future__ import annotations

from collections.abc import Callable
from os.path import abspath

from wirekafka.apis.registry import Call, api, failure_of
from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String
from wirekafka.errors import Error, KafkaError
from wirekafka.log.checkpoints import TopicPartition
from wirekafka.security.acl import ALTER, CLUSTER


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


_Topic = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
_Partition = _Topic.AlterReplicaLogDirPartitionResult


@api(AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse)
def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, call: Call
) -> AlterReplicaLogDirsResponse:
    """Report success for replicas already in the requested directory, an error for others."""
    call.authorize(ALTER, CLUSTER)
    return _answer(request, lambda key, path: _error(call, key, path))


def _answer(
    request: AlterReplicaLogDirsRequest, error: Callable[[TopicPartition, str], Error]
) -> AlterReplicaLogDirsResponse:
    topics: dict[str, list[_Partition]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            topics.setdefault(topic.name, []).extend(
                _Partition(
                    partition_index=index, error_code=error((topic.name, index), directory.path)
                )
                for index in topic.partitions
            )
    return AlterReplicaLogDirsResponse(
        results=[_Topic(topic_name=name, partitions=results) for name, results in topics.items()]
    )


def _error(call: Call, key: TopicPartition, path: str) -> Error:
    # Clients see absolute paths, even where log.dirs has relative ones.
    directory = next((each for each in call.broker.directories if abspath(each.path) == path), None)
    if directory is None:
        return Error.LOG_DIR_NOT_FOUND
    if key in directory.logs:
        return Error.NONE
    if key not in call.broker.partitions:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    # Moving a log while it is written to is not built: it stays where it is. Clients do not
    # retry this error, and kafka-reassign-partitions prints it per replica.
    return Error.UNSUPPORTED_VERSION


@failure_of(alter_replica_log_dirs)
def alter_replica_log_dirs_failure(
    request: AlterReplicaLogDirsRequest, error: KafkaError, call: Call
) -> AlterReplicaLogDirsResponse:
    """Report the error for every replica of the request."""
    return _answer(request, lambda key, path: error.error)
