"""ShareFetch: acquires records for a member of a share group, and acknowledges earlier ones.

v1: share groups (KIP-932), v2: record-limit mode (KIP-1206), renewal of locks (KIP-1222).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.node_endpoints import MOVED, CurrentLeaders
from wirekafka.apis.shared.registry import api
from wirekafka.apis.shared.share_acknowledgements import (
    AcknowledgedPartition,
    Acknowledging,
    ShareRequest,
    checked_request,
)
from wirekafka.apis.shared.share_reads import SharedResult, ShareReads, ShareTerms
from wirekafka.apis.shared.share_version import check_share_version
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.share_fetch import ShareFetchRequest, ShareFetchResponse
from wirekafka.quotas.rate import Rate
from wirekafka.replication.share.sessions import (
    FINAL_EPOCH,
    FIRST_EPOCH,
    SessionRequest,
    ShareContext,
    SharedKey,
)
from wirekafka.security.acl import GROUP, READ, TOPIC

_TopicResponse = ShareFetchResponse.ShareFetchableTopicResponse
_PartitionData = _TopicResponse.PartitionData

_RECORD_LIMIT = 1


@api(ShareFetchRequest, ShareFetchResponse)
async def share_fetch(request: ShareFetchRequest, call: Call) -> ShareFetchResponse:
    """Acknowledge records, and acquire records: at once, or once `min_bytes` are available."""
    broker = call.broker
    check_share_version(call)
    if request.group_id is None:
        raise KafkaError(Error.INVALID_REQUEST)
    if not call.is_authorized(READ, GROUP, request.group_id):
        raise KafkaError(Error.GROUP_AUTHORIZATION_FAILED)
    checked = checked_request(broker, request, call.version)
    if checked.is_renewal and (
        request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    ):
        raise KafkaError(Error.INVALID_REQUEST)
    try:
        context = broker.shares.sessions.open(_session_request(request, checked, call))
    except KafkaError as error:
        if error.error is Error.SHARE_SESSION_LIMIT_REACHED:
            # The client retries at once: it is slowed down.
            deadline_ms = call.now_ms + request.max_wait_ms
            await broker.waiting.until(lambda _: False, (), deadline_ms)
        raise
    readable = call.authorized(READ, TOPIC, _topic_names(request, context, call))
    acknowledging = Acknowledging(checked, readable)
    if _acknowledges(request):
        acknowledging.begin(request.topics)
    rate = call.account_of(broker.quotas).fetch if broker.quotas is not None else None
    results: dict[SharedKey, SharedResult] = {}
    # A client above its quota acquires nothing: it would lock records that it does not get.
    if not checked.is_renewal and (rate is None or not rate.record(0, call.now_ms)):
        most = min(request.max_bytes, broker.config.fetch_max_bytes, *_burst_bytes(rate))
        results = await _fetch(request, checked, _Wanted(context.wanted, readable, most))
        _count(call, context, results)
    acknowledged = await acknowledging.results()
    answer = _response(results, context, call)
    _add_acknowledged(answer, acknowledged)
    response = answer.response
    options = broker.shares.options(checked.key.group_id)
    response.acquisition_lock_timeout_ms = options.limits.lock_duration_ms
    if request.share_session_epoch == FINAL_EPOCH:
        broker.shares.close_session(checked.key)
    if rate is not None:
        call.throttle_ms = rate.record(4 + len(response.encode(call.version)), call.now_ms)
    return response


def _count(call: Call, context: ShareContext, results: Mapping[SharedKey, SharedResult]) -> None:
    """Count the requested topics and the failed topics, as Kafka."""
    measures = call.broker.measures
    if measures is not None:
        traffic, wanted = measures.traffic, context.wanted
        for topic in {name for name in wanted.values() if name is not None}:
            traffic.of(topic).share_fetches += 1
        failed = {wanted[key] for key, found in results.items() if found.error is not Error.NONE}
        for name in failed - {None}:
            traffic.of(str(name)).failed_share_fetches += 1


def _session_request(
    request: ShareFetchRequest, checked: ShareRequest, call: Call
) -> SessionRequest:
    topics = call.broker.image.topics_by_id
    wanted: dict[SharedKey, str | None] = {}
    for topic in request.topics:
        known = topics.get(topic.topic_id)
        name = known.name if known is not None else None
        for partition in topic.partitions:
            wanted[topic.topic_id, partition.partition_index] = name
    return SessionRequest(
        key=checked.key,
        epoch=request.share_session_epoch,
        wanted=wanted,
        forgotten=[
            (topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ],
        acknowledges=_acknowledges(request),
        connection_id=call.connection_id,
    )


def _acknowledges(request: ShareFetchRequest) -> bool:
    return any(
        partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
    )


def _topic_names(request: ShareFetchRequest, context: ShareContext, call: Call) -> Iterator[str]:
    """Yield the topic of each partition of the session and of the request."""
    for name in context.wanted.values():
        if name is not None:
            yield name
    topics = call.broker.image.topics_by_id
    for topic in request.topics:
        known = topics.get(topic.topic_id)
        if known is not None:
            for partition in topic.partitions:
                if (topic.topic_id, partition.partition_index) not in context.wanted:
                    yield known.name


def _burst_bytes(rate: Rate | None) -> Sequence[int]:
    return () if rate is None else (int(rate.burst),)


class _Wanted(NamedTuple):
    """The partitions to fetch, with topic names, the topics that the client may read, and the most
    bytes of records."""

    topics: Mapping[SharedKey, str | None]
    readable: Container[str]
    max_bytes: int


async def _fetch(
    request: ShareFetchRequest, checked: ShareRequest, wanted: _Wanted
) -> dict[SharedKey, SharedResult]:
    """Acquire records of the session's partitions."""
    broker = checked.broker
    failed: dict[SharedKey, SharedResult] = {}
    keys: list[SharedKey] = []
    for key, name in wanted.topics.items():
        topic = broker.image.topics.get(name) if name is not None else None
        if name is None:
            failed[key] = SharedResult(Error.UNKNOWN_TOPIC_ID)
        elif name not in wanted.readable:
            failed[key] = SharedResult(Error.TOPIC_AUTHORIZATION_FAILED)
        elif topic is None or key[1] not in topic.partitions:
            failed[key] = SharedResult(Error.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            keys.append(key)
    if not keys or request.max_records == 0 or wanted.max_bytes == 0:
        return failed
    reads = ShareReads(broker, _terms(request, checked, wanted.max_bytes))
    try:
        reads.open(_rotated(keys, request.share_session_epoch))
        if reads.has_failed:
            return {**reads.results, **failed}
        if not reads.hold():
            if request.max_wait_ms > 0:
                deadline_ms = broker.clock.now_ms() + request.max_wait_ms
                await broker.waiting.until(reads.has_become_ready, reads.watched(), deadline_ms)
            reads.hold_any()
        await reads.acquire()
    finally:
        reads.release()
    return {**reads.results, **failed}


def _terms(request: ShareFetchRequest, checked: ShareRequest, max_bytes: int) -> ShareTerms:
    group_id, member_id = checked.key
    return ShareTerms(
        group_id=group_id,
        member_id=member_id,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        max_records=request.max_records,
        batch_size=request.batch_size,
        is_exact=request.share_acquire_mode == _RECORD_LIMIT,
        committed=checked.broker.shares.options(group_id).reads_committed,
    )


def _rotated(keys: list[SharedKey], epoch: int) -> Sequence[SharedKey]:
    """Begin with another partition in each request, so that none starves."""
    if epoch <= FIRST_EPOCH:
        return keys
    at = epoch % len(keys)
    return keys[at:] + keys[:at]


def _response(
    results: Mapping[SharedKey, SharedResult], context: ShareContext, call: Call
) -> _Answer:
    included = context.settle(
        [
            (key, bool(found.records), found.error is not Error.NONE)
            for key, found in results.items()
        ]
    )
    answer = _Answer()
    leaders = CurrentLeaders(call)
    for key, found in results.items():
        if key not in included:
            continue
        data = answer.partition(key)
        data.error_code = found.error
        data.records = found.records
        data.acquired_records = [
            _PartitionData.AcquiredRecords(
                first_offset=first, last_offset=last, delivery_count=deliveries
            )
            for first, last, deliveries in found.acquired
        ]
        if found.error in MOVED:
            leader_id, leader_epoch = leaders.find(*key)
            data.current_leader = _PartitionData.LeaderIdAndEpoch(
                leader_id=leader_id, leader_epoch=leader_epoch
            )
    answer.response.node_endpoints = list(leaders.endpoints.values())
    return answer


def _add_acknowledged(
    answer: _Answer, acknowledged: Mapping[SharedKey, AcknowledgedPartition]
) -> None:
    for key, (error, message) in acknowledged.items():
        data = answer.partition(key)
        data.acknowledge_error_code = error
        data.acknowledge_error_message = message


class _Answer:
    """A response, and its parts by topic and partition: a session may have 200,000 partitions."""

    def __init__(self) -> None:
        self.response = ShareFetchResponse()
        self._topics: dict[bytes, _TopicResponse] = {}
        self._partitions: dict[SharedKey, _PartitionData] = {}

    def partition(self, key: SharedKey) -> _PartitionData:
        """The part of the response for a partition, which is added if there is none yet."""
        data = self._partitions.get(key)
        if data is None:
            topic_id, index = key
            topic = self._topics.get(topic_id)
            if topic is None:
                topic = self._topics[topic_id] = _TopicResponse(topic_id=topic_id)
                self.response.responses.append(topic)
            data = self._partitions[key] = _PartitionData(partition_index=index)
            topic.partitions.append(data)
        return data
