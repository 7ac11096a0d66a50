"""ListOffsets: finds offsets by timestamp;
v7: max timestamp (KIP-734), v8+: tiered storage (KIP-405, KIP-1005, KIP-1023).
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import (
    Int8,
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    field,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.replication import partition as replicas
from wirekafka.replication.partition import FoundOffset


class ListOffsetsRequest(Request, key=2, versions="1-11", flexible="6+"):
    replica_id: Int32
    isolation_level: Int8 = field("2+")
    topics: list[Topic]
    timeout_ms: Int32 = field("10+")

    class Topic(Part):
        name: String
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            current_leader_epoch: Int32 = field("4+", default=-1)
            timestamp: Int64


class ListOffsetsResponse(Response, answers=ListOffsetsRequest):
    throttle_time_ms: Int32 = field("2+")
    topics: list[TopicResponse]

    class TopicResponse(Part):
        name: String
        partitions: list[PartitionResponse]

        class PartitionResponse(Part):
            partition_index: Int32
            error_code: Int16
            timestamp: Int64 = field(default=-1)
            offset: Int64 = field(default=-1)
            leader_epoch: Int32 = field("4+", default=-1)


_Asked = ListOffsetsRequest.Topic.Partition
_TopicResponse = ListOffsetsResponse.TopicResponse
_PartitionResponse = _TopicResponse.PartitionResponse

_CONSUMER, _DEBUGGER = -1, -2
_READ_COMMITTED = 1
_LATEST, _EARLIEST, _MAX_TIMESTAMP = -1, -2, -3
_EARLIEST_LOCAL, _LATEST_TIERED, _EARLIEST_PENDING_UPLOAD = -4, -5, -6
_FIRST_VERSION = {_MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9,
                  _EARLIEST_PENDING_UPLOAD: 11}
_NONE = FoundOffset()


@api(ListOffsetsRequest, ListOffsetsResponse)
def list_offsets(request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    """Find the offset of a timestamp, or one of the log's ends, in each partition."""
    if request.isolation_level not in (0, _READ_COMMITTED):
        raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
    responses = []
    for topic in request.topics:
        asked_of: dict[int, list[_Asked]] = {}
        for asked in topic.partitions:
            asked_of.setdefault(asked.partition_index, []).append(asked)
        responses.append(_TopicResponse(name=topic.name, partitions=[
            _answer(topic.name, every, request, call) for every in asked_of.values()]))
    return ListOffsetsResponse(topics=responses)


def _answer(topic: str, every: list[_Asked], request: ListOffsetsRequest,
            call: Call) -> _PartitionResponse:
    asked = every[0]
    index = asked.partition_index
    try:
        if len(every) > 1:
            raise KafkaError(Error.INVALID_REQUEST)
        if asked.timestamp < 0 and not _is_known(asked.timestamp, call.version):
            raise KafkaError(Error.UNSUPPORTED_VERSION)
        partition = call.broker.partition(topic, index)
        if request.replica_id != _DEBUGGER:
            partition.check_leader(asked.current_leader_epoch)
        found = _find(partition, asked.timestamp, request)
    except KafkaError as error:
        return _PartitionResponse(partition_index=index, error_code=error.error)
    return _PartitionResponse(partition_index=index, error_code=0, timestamp=found.timestamp,
                              offset=found.offset, leader_epoch=found.leader_epoch)


def _is_known(timestamp: int, version: int) -> bool:
    if timestamp in (_LATEST, _EARLIEST):
        return True
    return version >= _FIRST_VERSION.get(timestamp, version + 1)


def _find(
    partition: replicas.Partition, timestamp: int, request: ListOffsetsRequest
) -> FoundOffset:
    if request.replica_id != _CONSUMER:
        end_offset = partition.log.end_offset
    elif request.isolation_level == _READ_COMMITTED:
        end_offset = partition.last_stable_offset
    else:
        end_offset = partition.high_watermark
    match timestamp:
        case -1:
            return FoundOffset(offset=partition.check_available(end_offset),
                               leader_epoch=partition.leader_epoch)
        case -2 | -4:
            return partition.earliest()
        case -5 | -6:
            # Nothing is tiered: no copy is in remote storage, and none is on its way there.
            return _NONE
        case -3:
            return partition.newest() or _NONE
        case _:
            found = partition.at_timestamp(timestamp)
            if found is not None and found.offset < end_offset:
                return found
            partition.check_available(end_offset)
            return _NONE


def list_offsets_failure(request: ListOffsetsRequest, error: KafkaError,
                         call: Call) -> ListOffsetsResponse:
    """Every partition fails alike."""
    return ListOffsetsResponse(topics=[
        _TopicResponse(name=topic.name, partitions=[
            _PartitionResponse(partition_index=asked.partition_index, error_code=error.error)
            for asked in topic.partitions])
        for topic in request.topics])
