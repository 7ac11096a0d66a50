"""ListOffsets: finds the first or last offsets of partitions, or by timestamp (KIP-79).

v4: leader epochs (KIP-320), v7: max timestamp (KIP-734), v8: earliest local offset (KIP-405),
v9: last tiered offset (KIP-1005), v10: timeout (KIP-1075), v11: earliest pending upload (KIP-1023).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.errors import Error, KafkaError
from wirekafka.log.lookup import TimestampOffset
from wirekafka.protocol.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from wirekafka.replication.partition.partition import Partition as LocalPartition
from wirekafka.replication.partition.reading import FoundOffset
from wirekafka.replication.partition.remote_log import Pending
from wirekafka.security.acl import DESCRIBE, TOPIC

_Requested = ListOffsetsRequest.Topic.Partition
_TopicResponse = ListOffsetsResponse.TopicResponse
_PartitionResponse = _TopicResponse.PartitionResponse

_CONSUMER, _DEBUGGER = -1, -2
_READ_COMMITTED = 1
_LATEST, _EARLIEST, _MAX_TIMESTAMP = -1, -2, -3
_EARLIEST_LOCAL, _LATEST_TIERED, _EARLIEST_PENDING_UPLOAD = -4, -5, -6
_FIRST_VERSION = {
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_NONE = FoundOffset()


@api(ListOffsetsRequest, ListOffsetsResponse)
async def list_offsets(request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    """Find the offset of a timestamp, or one of the special offsets, in each partition."""
    responses = []
    remote: list[_Remote] = []
    names = [topic.name for topic in request.topics]
    turns = Turns()
    may_describe = await turns.authorized(call, DESCRIBE, TOPIC, names)
    if request.isolation_level not in (0, _READ_COMMITTED) and any(
        name in may_describe for name in names
    ):
        raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
    by_topic: dict[str, dict[int, list[_Requested]]] = {}
    for topic in request.topics:
        await turns.step()
        if topic.name not in may_describe:
            responses.append(_failed_topic(topic, Error.TOPIC_AUTHORIZATION_FAILED))
            continue
        for requested in topic.partitions:
            by_index = by_topic.setdefault(topic.name, {})
            by_index.setdefault(requested.partition_index, []).append(requested)
    for name, by_index in by_topic.items():
        await turns.step()
        answer = partial(_answer, name, _Finding(request, call, remote))
        partitions = await turns.map(answer, by_index.values())
        responses.append(_TopicResponse(name=name, partitions=partitions))
    response = ListOffsetsResponse(topics=responses)
    return await _with_remote(response, remote) if remote else response


class _Remote(NamedTuple):
    """An unfinished search of remote storage, and the local search if it finds nothing."""

    search: Pending[TimestampOffset | None]
    find_locally: Callable[[], FoundOffset]
    response: _PartitionResponse


class _Finding(NamedTuple):
    """A request, and the searches of remote storage that it has started."""

    request: ListOffsetsRequest
    call: Call
    remote: list[_Remote]


async def _with_remote(response: ListOffsetsResponse, remote: list[_Remote]) -> ListOffsetsResponse:
    """Complete the response with the results of remote searches; cancel them if cancelled."""
    try:
        for search, find_locally, partition in remote:
            try:
                found = FoundOffset.of(await search) or find_locally()
            except KafkaError as error:
                partition.error_code = error.error
            else:
                _put(partition, found)
    finally:
        for each in remote:
            each.search.cancel()
    return response


def _answer(topic: str, finding: _Finding, every: list[_Requested]) -> _PartitionResponse:
    request, call, remote = finding
    requested = every[0]
    index = requested.partition_index
    try:
        if len(every) > 1:
            raise KafkaError(Error.INVALID_REQUEST)
        if requested.timestamp < 0 and not _is_known(requested.timestamp, call.version):
            raise KafkaError(Error.UNSUPPORTED_VERSION)
        partition = call.broker.partition(topic, index)
        if request.replica_id == _DEBUGGER:
            partition.check_leader_epoch(requested.current_leader_epoch)
        else:
            partition.leading(requested.current_leader_epoch)
        response = _PartitionResponse(partition_index=index, error_code=0)
        sought = _sought_remotely(partition, requested.timestamp)
        if sought is not None and partition.remote is not None:
            remote.append(
                _Remote(
                    partition.remote.offset_for_timestamp(sought, max(request.timeout_ms, 0)),
                    partial(_find, partition, requested.timestamp, request),
                    response,
                )
            )
        else:
            _put(response, _find(partition, requested.timestamp, request))
    except KafkaError as error:
        return _PartitionResponse(partition_index=index, error_code=error.error)
    return response


def _sought_remotely(partition: LocalPartition, timestamp: int) -> int | None:
    """The timestamp that has to be looked for in remote storage first; None if there is none.

    Apache Kafka looks for the largest timestamp in local segments only (KAFKA-17552).
    """
    if partition.remote is None:
        return None
    if timestamp != _MAX_TIMESTAMP:
        return timestamp if timestamp >= 0 else None
    largest, newest = partition.remote.largest_timestamp(), partition.newest()
    return largest if newest is None or largest > newest.timestamp else None


def _put(response: _PartitionResponse, found: FoundOffset) -> None:
    response.timestamp, response.offset, response.leader_epoch = found


def _is_known(timestamp: int, version: int) -> bool:
    if timestamp in (_LATEST, _EARLIEST):
        return True
    return version >= _FIRST_VERSION.get(timestamp, version + 1)


def _find(partition: LocalPartition, timestamp: int, request: ListOffsetsRequest) -> FoundOffset:
    is_consumer = request.replica_id == _CONSUMER
    if not is_consumer:
        end_offset = partition.log.end_offset
    elif request.isolation_level == _READ_COMMITTED:
        end_offset = partition.last_stable_offset
    else:
        end_offset = partition.high_watermark
    match timestamp:
        case -1:
            if is_consumer:
                partition.check_available()
            return FoundOffset(offset=end_offset, leader_epoch=partition.end_epoch)
        case -2:
            return partition.earliest()
        case -4:
            return partition.earliest_local()
        case _:
            found = _found(partition, timestamp)
            if found is not None and found.offset < end_offset:
                return found
            if is_consumer:
                partition.check_available()
            return _NONE


def _found(partition: LocalPartition, timestamp: int) -> FoundOffset | None:
    match timestamp:
        case -3:
            return partition.newest()
        case -5:
            return partition.latest_tiered()
        case -6:
            return partition.earliest_pending_upload()
        case _:
            return partition.at_timestamp(timestamp)


@failure_of(list_offsets)
def list_offsets_failure(
    request: ListOffsetsRequest, error: KafkaError, call: Call
) -> ListOffsetsResponse:
    """Report the error for every partition of the request."""
    return ListOffsetsResponse(
        topics=[_failed_topic(topic, error.error) for topic in request.topics]
    )


def _failed_topic(topic: ListOffsetsRequest.Topic, error: Error) -> _TopicResponse:
    return _TopicResponse(
        name=topic.name,
        partitions=[
            _PartitionResponse(partition_index=requested.partition_index, error_code=error)
            for requested in topic.partitions
        ],
    )
