"""AlterReplicaLogDirs: moves replicas between the log directories of a broker (KIP-113)."""

from __future__ import annotations

from collections.abc import Callable

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.errors import Error, KafkaError
from wirekafka.log.checkpoints import TopicPartition
from wirekafka.protocol.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from wirekafka.security.acl import ALTER, CLUSTER

_Topic = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
_Partition = _Topic.AlterReplicaLogDirPartitionResult


@api(AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse)
def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, call: Call
) -> AlterReplicaLogDirsResponse:
    """Begin to move replicas; they are copied in the background."""
    call.authorize(ALTER, CLUSTER)
    return _answer(request, lambda key, path: _moved(call, key, path))


def _answer(
    request: AlterReplicaLogDirsRequest, error: Callable[[TopicPartition, str], Error]
) -> AlterReplicaLogDirsResponse:
    # Of several directories for a replica, the last counts.
    paths = {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    topics: dict[str, list[_Partition]] = {}
    for key, path in paths.items():
        result = _Partition(partition_index=key[1], error_code=error(key, path))
        topics.setdefault(key[0], []).append(result)
    return AlterReplicaLogDirsResponse(
        results=[_Topic(topic_name=name, partitions=results) for name, results in topics.items()]
    )


def _moved(call: Call, key: TopicPartition, path: str) -> Error:
    try:
        call.broker.relocations.move(key, path)
    except KafkaError as error:
        return error.error
    return Error.NONE


@failure_of(alter_replica_log_dirs)
def alter_replica_log_dirs_failure(
    request: AlterReplicaLogDirsRequest, error: KafkaError, call: Call
) -> AlterReplicaLogDirsResponse:
    """Report the error for every replica of the request."""
    return _answer(request, lambda key, path: error.error)
