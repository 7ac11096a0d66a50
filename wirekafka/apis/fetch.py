"""Fetch: reads record batches from partitions and waits for new ones, for consumers and followers.

v7: sessions (KIP-227), v10: zstd (KIP-110), v11: rack (KIP-392), v12: diverging epochs (KIP-595),
v13: topic ids (KIP-516), v15: replica state (KIP-903), v16: leader endpoints (KIP-951),
v17: replica directory ids (KIP-853), v18: the follower's high watermark (KIP-1166).
"""

from __future__ import annotations

from collections.abc import Container, Coroutine, Sequence
from functools import cache
from typing import Any

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.fetch_reads import (
    CONSUMER,
    HELD_ELSEWHERE,
    ConsumerReads,
    FetchTerms,
    FollowerReads,
    Found,
    Reads,
)
from wirekafka.apis.shared.node_endpoints import MOVED, CurrentLeaders
from wirekafka.apis.shared.preferred_replica import rack_aware_selector
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.fetch import FetchRequest, FetchResponse
from wirekafka.quotas.client_quotas import Account
from wirekafka.replication.fetching.fetch_session import FetchTarget, Key, Wanted
from wirekafka.replication.fetching.fetch_sessions import FetchContext
from wirekafka.replication.partition.partition import Partition as LocalPartition
from wirekafka.replication.partition.remote_log import RemoteResult
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION, READ, TOPIC

_TopicResponse = FetchResponse.FetchableTopicResponse
_PartitionData = _TopicResponse.PartitionData

_SENT_FROM_FILE_BYTES = 1 << 15
"""Slices of at least this size in bytes are sent from their file; smaller slices are read into
memory."""
_DEBUGGER = -2
_READ_COMMITTED = 1
_NAMES_LEADERS_SINCE = 16


@api(FetchRequest, FetchResponse)
def fetch(request: FetchRequest, call: Call) -> Coroutine[Any, Any, FetchResponse]:
    """Read the requested partitions, and wait for `min_bytes` or for remote storage.

    A follower's fetch also reports its log end offsets, which may advance high watermarks.
    """
    now_ms = call.now_ms
    target = _target(request, call.version, call.connection_id)
    context = call.broker.sessions.open(target, now_ms)
    if context.session is not None and not call.is_authorized(CLUSTER_ACTION, CLUSTER):
        context.session.end_rest()
    if target.is_follower:
        return _fetch_for_follower(request, call, context, now_ms)
    return _fetch_for_consumer(request, call, target, context, now_ms)


async def _fetch_for_consumer(
    request: FetchRequest, call: Call, target: FetchTarget, context: FetchContext, now_ms: int
) -> FetchResponse:
    broker = call.broker
    account = None if broker.quotas is None else call.account_of(broker.quotas)
    select_replica = rack_aware_selector(call, request.rack_id) if request.rack_id else None
    reads = ConsumerReads(broker, _terms(request, call.version, account), context, select_replica)
    if call.authorizer is not None:
        reads.refused = _refused_to_consumer(reads.found, call)
    if target.wanted:
        broker.readers.note(call, target.wanted, reads, now_ms)
    reads.read()
    _check_isolation(request, reads)
    if not reads.is_ready and request.max_wait_ms > 0:
        await broker.waiting.until(
            reads.has_become_ready, reads.watched(), now_ms + request.max_wait_ms
        )
        reads.read()
    if reads.pending:
        await reads.read_remote()
    if account is not None:
        sent = reads.found if context.is_full else [each for each in reads.found if each.is_news]
        size_bytes = _size_bytes(sent, call.version)
        call.throttle_ms = account.fetched(size_bytes, call.metering.take_work_ns(), call.now_ms)
        if call.throttle_ms:
            return FetchResponse(session_id=context.throttled())
    return _settled(reads, context, call)


async def _fetch_for_follower(
    request: FetchRequest, call: Call, context: FetchContext, now_ms: int
) -> FetchResponse:
    broker = call.broker
    reads = FollowerReads(broker, _terms(request, call.version, None), context)
    if call.authorizer is not None and not call.is_authorized(CLUSTER_ACTION, CLUSTER):
        reads.refused = {each.wanted.topic for each in reads.found}
    reads.read()
    _check_isolation(request, reads)
    reads.note_follower(now_ms)
    if not reads.is_ready and request.max_wait_ms > 0:
        await broker.waiting.until(
            reads.has_become_ready,
            reads.watched(),
            now_ms + request.max_wait_ms,
            # The more records a follower gets with a Fetch, the fewer Fetches it sends.
            gathers=True,
        )
        reads.read()
    if reads.pending:
        await reads.read_remote()
    reads.record_throttled(call.now_ms)
    return _settled(reads, context, call)


def _check_isolation(request: FetchRequest, reads: Reads) -> None:
    """Raise UNKNOWN_SERVER_ERROR for an unknown isolation level, where there is a partition.

    As in Kafka: partitions that do not exist get their own errors.
    """
    if request.isolation_level not in (0, _READ_COMMITTED) and any(
        each.partition is not None for each in reads.found
    ):
        raise KafkaError(Error.UNKNOWN_SERVER_ERROR)


def _settled(reads: Reads, context: FetchContext, call: Call) -> FetchResponse:
    """Count what is sent, have the session remember it, and build the response."""
    measures = call.broker.measures
    if measures is not None:
        reads.count(measures.traffic)
    settled = context.settle(reads.results(), call.now_ms)
    reads.rest()
    return _response(reads, settled, call)


def _target(request: FetchRequest, version: int, connection_id: str) -> FetchTarget:
    by_id = version >= 13
    replica_id = _replica_id(request)
    wanted: dict[Key, Wanted] = {}
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for requested in topic.partitions:
            current_epoch, last_epoch = requested.current_leader_epoch, requested.last_fetched_epoch
            each = Wanted(
                name,
                requested.partition,
                fetch_offset=requested.fetch_offset,
                max_bytes=requested.partition_max_bytes,
                current_leader_epoch=current_epoch if current_epoch > -1 else -1,
                last_fetched_epoch=last_epoch if last_epoch > -1 else -1,
            )
            # Of a partition named twice, the last mention counts.
            wanted[each.key] = each
            if replica_id >= 0:
                each.log_start_offset = requested.log_start_offset
    forgotten: list[Key] = [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    return FetchTarget(
        session_id=request.session_id,
        epoch=request.session_epoch,
        wanted=list(wanted.values()),
        forgotten=forgotten,
        uses_topic_ids=by_id,
        follower_id=replica_id,
        connection_id=connection_id,
    )


def _refused_to_consumer(found: list[Found], call: Call) -> Container[str | bytes]:
    """The topics, by name or id as in the request, that the client may not read."""
    known = call.broker.image.topics_by_id
    names: dict[str | bytes, str] = {}
    requested = []
    for each in found:
        topic = each.wanted.topic
        if isinstance(topic, str):
            names[topic] = topic
        elif topic in known:
            names[topic] = known[topic].name
        else:
            continue  # Unknown ids are reported as such to everyone.
        requested.append(names[topic])
    may_read = call.authorized(READ, TOPIC, requested)
    return {topic for topic, name in names.items() if name not in may_read}


def _terms(request: FetchRequest, version: int, account: Account | None) -> FetchTerms:
    replica_id = _replica_id(request)
    max_bytes = request.max_bytes
    if account is not None and account.fetch is not None:
        max_bytes = min(max_bytes, int(account.fetch.burst))
    return FetchTerms(
        replica_id=replica_id,
        broker_epoch=request.replica_state.replica_epoch,
        min_bytes=request.min_bytes,
        max_bytes=max_bytes,
        committed=request.isolation_level == _READ_COMMITTED,
        from_any_replica=replica_id == _DEBUGGER or (replica_id == CONSUMER and version >= 11),
    )


def _replica_id(request: FetchRequest) -> int:
    """-1 for a consumer, -2 for a debugger, else a follower's id (KIP-903 moved the field)."""
    return max(request.replica_id, request.replica_state.replica_id)


def _size_bytes(sent: Sequence[Found], version: int) -> int:
    """The size of a response with these partitions, without diverging epochs and the like."""
    size_bytes, topic_bytes, partition_bytes = _fixed_bytes(version)
    topic = None
    for found in sent:
        if found.wanted.topic != topic:
            topic = found.wanted.topic
            size_bytes += topic_bytes + (len(topic) if isinstance(topic, str) else 0)
        size_bytes += partition_bytes + found.size_bytes
        if version in FetchRequest.flexible:
            # The varint of the records' size; its first byte is counted above.
            size_bytes += ((found.size_bytes + 1).bit_length() - 1) // 7
    return size_bytes


@cache
def _fixed_bytes(version: int) -> tuple[int, int, int]:
    """The bytes of a response without topics, of a topic without a name, and of a partition."""
    responses = (
        FetchResponse(),
        FetchResponse(responses=[_TopicResponse()]),
        FetchResponse(responses=[_TopicResponse(partitions=[_PartitionData()])]),
    )
    empty, topic, partition = (len(each.encode(version)) for each in responses)
    return 4 + empty, topic - empty, partition - topic


def _response(reads: Reads, settled: tuple[int, set[Key]], call: Call) -> FetchResponse:
    """Build the response, without the partitions that are unchanged in the session."""
    session_id, unchanged = settled
    by_id = call.version >= 13
    topics: list[_TopicResponse] = []
    latest: str | bytes | None = None
    leaders: CurrentLeaders | None = None
    for found in reads.found:
        if unchanged and found.wanted.key in unchanged:
            continue
        topic = found.wanted.topic
        if topic != latest:
            latest = topic
            topics.append(_TopicResponse(topic_id=topic) if by_id else _TopicResponse(topic=topic))
        data = _partition_data(found, reads.terms.committed)
        topics[-1].partitions.append(data)
        if found.error in MOVED and call.version >= _NAMES_LEADERS_SINCE:
            leaders = leaders or CurrentLeaders(call)
            leader_id, leader_epoch = leaders.find(*found.wanted.key)
            data.current_leader = _PartitionData.LeaderIdAndEpoch(
                leader_id=leader_id, leader_epoch=leader_epoch
            )
    return FetchResponse(
        session_id=session_id,
        responses=topics,
        # Followers know the addresses from the metadata.
        node_endpoints=list(leaders.endpoints.values())
        if leaders is not None and reads.terms.replica_id < 0
        else [],
    )


def _partition_data(found: Found, committed: bool) -> _PartitionData:
    result = found.result
    data = _PartitionData(
        partition_index=found.wanted.partition,
        error_code=found.error,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.start_offset,
    )
    data.preferred_read_replica = found.preferred_replica
    if found.partition is not None:
        data.aborted_transactions = _aborted(found, found.partition) if committed else None
    elif found.error in HELD_ELSEWHERE:
        data.aborted_transactions = None
    records = result.records
    if records is not None and records.size_bytes:
        found.wanted.sent_bytes = records.size_bytes
        from_file = records.size_bytes >= _SENT_FROM_FILE_BYTES and records.is_in_file
        data.records = (records,) if from_file else records
    if result.diverging is not None:
        epoch, end_offset = result.diverging
        data.diverging_epoch = _PartitionData.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return data


def _aborted(
    found: Found, partition: LocalPartition
) -> list[_PartitionData.AbortedTransaction] | None:
    """The aborted transactions for a read_committed fetch; null if nothing was read, as in Kafka:
    because of an error, or because the consumer should read from another replica."""
    if found.error is not Error.NONE or found.preferred_replica >= 0:
        return None
    result = found.result
    if not found.size_bytes:
        return []
    transactions = (
        result.aborted
        if isinstance(result, RemoteResult)
        else partition.log.aborted_transactions(
            found.wanted.fetch_offset, result.last_stable_offset
        )
    )
    return [
        _PartitionData.AbortedTransaction(
            producer_id=aborted.producer_id, first_offset=aborted.first_offset
        )
        for aborted in transactions
    ]


_SESSION_ERRORS = frozenset(
    {
        Error.FETCH_SESSION_ID_NOT_FOUND,
        Error.INVALID_FETCH_SESSION_EPOCH,
        Error.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


@failure_of(fetch)
def fetch_failure(request: FetchRequest, error: KafkaError, call: Call) -> FetchResponse:
    """Report a session error at the top level only, any other for each partition too."""
    if error.error in _SESSION_ERRORS:
        return FetchResponse(error_code=error.error)
    return FetchResponse(
        error_code=error.error,
        responses=[]
        if call.version >= 13
        else [
            _TopicResponse(
                topic=topic.topic,
                partitions=[
                    _PartitionData(
                        partition_index=requested.partition,
                        error_code=error.error,
                        high_watermark=-1,
                    )
                    for requested in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
