"""DescribeLogDirs: lists the log directories of a broker and the replicas in them (KIP-113).

v4: volume sizes (KIP-827), v5: cordoned directories (KIP-1066).
"""

from __future__ import annotations

from collections import defaultdict
from os.path import abspath

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api
from wirekafka.errors import Error
from wirekafka.log.checkpoints import TopicPartition
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.log.log import Log
from wirekafka.metadata.image.framing import CORDONED_SINCE
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from wirekafka.security.acl import CLUSTER, DESCRIBE

_Result = DescribeLogDirsResponse.Result
_Topic = _Result.Topic
_Partition = _Topic.Partition


@api(DescribeLogDirsRequest, DescribeLogDirsResponse)
def describe_log_dirs(request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
    """Report the size of each log, and the total and usable bytes of each directory."""
    call.authorize(DESCRIBE, CLUSTER)
    wanted = (
        None
        if request.topics is None
        else {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    )
    return DescribeLogDirsResponse(
        results=[_directory(directory, wanted, call) for directory in call.broker.directories]
    )


def _directory(directory: LogDirectory, wanted: set[TopicPartition] | None, call: Call) -> _Result:
    can_be_cordoned = call.broker.image.metadata_version >= CORDONED_SINCE
    result = _Result(
        log_dir=abspath(directory.path),
        is_cordoned=can_be_cordoned and call.broker.config.is_cordoned(directory.path),
    )
    if directory.failure is not None:
        result.error_code = Error.KAFKA_STORAGE_ERROR
        return result
    try:
        result.total_bytes = call.broker.disk.total_bytes(directory.path)
        result.usable_bytes = call.broker.disk.free_bytes(directory.path)
    except OSError:
        result.error_code = Error.KAFKA_STORAGE_ERROR
        return result
    topics: dict[str, list[_Partition]] = defaultdict(list)
    for (topic, index), log in directory.logs.items():
        if wanted is None or (topic, index) in wanted:
            topics[topic].append(
                _Partition(partition_index=index, partition_size=log.size_bytes, offset_lag=0)
            )
    for (topic, index), log in directory.futures.items():
        if wanted is None or (topic, index) in wanted:
            topics[topic].append(
                _Partition(
                    partition_index=index,
                    partition_size=log.size_bytes,
                    offset_lag=_lag(call, (topic, index), log),
                    is_future_key=True,
                )
            )
    result.topics = [
        _Topic(name=name, partitions=partitions) for name, partitions in topics.items()
    ]
    return result


def _lag(call: Call, key: TopicPartition, future: Log) -> int:
    """How many offsets a future log is behind the log that it is to replace."""
    partition = call.broker.partitions.get(key)
    return 0 if partition is None else partition.log.end_offset - future.end_offset
