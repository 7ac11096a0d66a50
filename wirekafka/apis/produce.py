"""Produce: appends record batches to partitions.

v3: transactions (KIP-98), v5: log start offsets, v7: zstd (KIP-110), v8: record errors (KIP-467),
v10: leader endpoints (KIP-951), v11: TRANSACTION_ABORTABLE, v12: adds partitions to the
transaction (both KIP-890), v13: topic ids (KIP-516).
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Set
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.node_endpoints import CurrentLeaders
from wirekafka.apis.shared.produce_size import has_many_batches
from wirekafka.apis.shared.produce_waiting import are_replicated
from wirekafka.apis.shared.registry import api, crowd_of, failure_of
from wirekafka.apis.shared.topic_access import topics_by_id, topics_by_name
from wirekafka.apis.shared.turns import ELEMENTS_PER_TURN, Turns, next_turn
from wirekafka.codec.batch import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    HEADER_BYTES,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    SIZE,
    TRANSACTIONAL_BIT,
    batches,
    read_header,
)
from wirekafka.codec.compression import Codec
from wirekafka.coordinator.transactions.commands import ProducerIdentity
from wirekafka.coordinator.transactions.confirmation import Support, TransactionalWrite
from wirekafka.errors import Error, KafkaError
from wirekafka.log.append import Checked, TakesLong
from wirekafka.log.validate import check_ahead
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse
from wirekafka.replication.partition.leader import Leader
from wirekafka.replication.partition.partition import Partition
from wirekafka.runtime.promise import computed
from wirekafka.security.acl import TRANSACTIONAL_ID, WRITE

if TYPE_CHECKING:
    from wirekafka.metrics.traffic import TopicTraffic


_TopicData = ProduceRequest.TopicProduceData
_PartitionData = _TopicData.PartitionProduceData
_TopicResponse = ProduceResponse.TopicProduceResponse
_PartitionResponse = _TopicResponse.PartitionProduceResponse
_RecordError = _PartitionResponse.BatchIndexAndErrorMessage
_Delayed: TypeAlias = tuple[_TopicData, _PartitionData, list[_PartitionResponse], int]

_ALL, _NONE = -1, 0
_NO_GUARDS: dict[Partition, object] = {}
_NONE_REFUSED: dict[tuple[str, int], KafkaError] = {}
_NONE_DENIED: Set[tuple[str, bytes]] = frozenset()
_ZSTD_SINCE = 7
_NAMES_LEADERS_SINCE = 10
_ABORTABLE_SINCE = 11
_ADDS_PARTITIONS_SINCE = 12
_TOPIC_IDS_SINCE = 13
_ADMIN_CLIENT_ID = "__admin_client"
_ATTRIBUTES_LOW_BYTE_AT = ATTRIBUTES_AT + 1
_UNPLACED = frozenset(
    {
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.MESSAGE_TOO_LARGE,
        Error.CORRUPT_MESSAGE,
        Error.KAFKA_STORAGE_ERROR,
        Error.UNKNOWN_TOPIC_ID,
    }
)
"""Errors that are reported without the log start offset, as in Kafka."""
_TOO_LARGE = frozenset({Error.MESSAGE_TOO_LARGE, Error.RECORD_LIST_TOO_LARGE})


@api(ProduceRequest, ProduceResponse, advertise="0-13")
def produce(
    request: ProduceRequest, call: Call
) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None:
    """Append each partition's batch, and respond when the replicas that `acks` names have it.

    Versions 0 to 2 are advertised but not supported: librdkafka before 2.8 compresses only if
    it sees them (KAFKA-18659).
    """
    writing = _Writing(request, call)
    if call.authorizer is not None and not writing.authorize(request):
        return None
    if request.transactional_id is not None:
        return _produce_in_transaction(request.transactional_id, request, writing)
    response = writing.append_all(request.topic_data)
    if writing.delayed:
        return _produce_rest(request, writing, response)
    if writing.uncommitted:
        return _produce_replicated(request, writing, response)
    return writing.final(response)


@crowd_of(produce, has_many_batches)
async def produce_many(request: ProduceRequest, call: Call) -> ProduceResponse | None:
    """As `produce`, for many partitions: a part of them in each turn of the event loop."""
    writing = _Writing(request, call)
    if call.authorizer is not None and not await writing.authorize_many(request):
        return None
    responses: list[_TopicResponse] = []
    for part in _parts(request.topic_data):
        if request.transactional_id is not None:
            await writing.confirm(request.transactional_id, part.topics)
        appended = writing.append_all(part.topics).responses
        await writing.append_delayed()
        if part.goes_on:
            responses[-1].partition_responses += appended.pop(0).partition_responses
        responses += appended
        await next_turn()
    response = ProduceResponse(responses=responses)
    if writing.uncommitted and not await are_replicated(
        writing.uncommitted, request.timeout_ms, call
    ):
        writing.failed = True
    if writing.failed and request.acks != _NONE:
        await _name_leaders_of_many(response, call)
        return response
    return writing.final(response)


async def _produce_in_transaction(
    transactional_id: str, request: ProduceRequest, writing: _Writing
) -> ProduceResponse | None:
    writing.call.needs_buffer = True
    await writing.confirm(transactional_id, request.topic_data)
    response = writing.append_all(request.topic_data)
    return await _produce_rest(request, writing, response)


async def _produce_rest(
    request: ProduceRequest, writing: _Writing, response: ProduceResponse
) -> ProduceResponse | None:
    """Append the batches that take long to check, then wait for replicas if needed."""
    writing.call.needs_buffer = True
    await writing.append_delayed()
    if writing.uncommitted:
        return await _produce_replicated(request, writing, response)
    return writing.final(response)


async def _produce_replicated(
    request: ProduceRequest, writing: _Writing, response: ProduceResponse
) -> ProduceResponse | None:
    if not await are_replicated(writing.uncommitted, request.timeout_ms, writing.call):
        writing.failed = True
    return writing.final(response)


class _Part(NamedTuple):
    """A part of the topics of a request, with at most as many partitions as fit into a turn."""

    topics: list[_TopicData]
    goes_on: bool
    """Whether the first topic began in the part before."""


class _Writing:
    """The appends of one request."""

    __slots__ = (
        "_acks",
        "_broker",
        "_denied",
        "_guards",
        "_has_transactional_id",
        "_is_plain",
        "_now_ms",
        "_partitions",
        "_refused",
        "_uses_topic_ids",
        "call",
        "delayed",
        "failed",
        "uncommitted",
    )

    def __init__(self, request: ProduceRequest, call: Call):
        version = call.version
        self._acks = request.acks
        self.call = call
        self._broker = call.broker
        self._partitions = call.broker.partitions
        self._now_ms = call.now_ms
        self._uses_topic_ids = version >= _TOPIC_IDS_SINCE
        self._has_transactional_id = request.transactional_id is not None
        # Computed once per request, so that most batches skip `_check`.
        self._is_plain = version >= _ZSTD_SINCE and -1 <= self._acks <= 1
        self._guards = _NO_GUARDS
        self._refused = _NONE_REFUSED
        self._denied = _NONE_DENIED
        self.failed = False
        self.uncommitted: list[tuple[Partition, Leader, int, _PartitionResponse]] = []
        self.delayed: tuple[_Delayed, ...] = ()
        """The batches that take long to check, with the place of each one's response."""

    def authorize(self, request: ProduceRequest) -> bool:
        """Find the topics that the client may not write to; False if the connection is closed.

        Raises KafkaError if the client may not use the transactional id.
        """
        if _has_transactional_batches(request.topic_data) and not self._may_use_transactional_id(
            request.transactional_id
        ):
            return False
        self._denied = frozenset(self._denied_in(request.topic_data))
        return True

    async def authorize_many(self, request: ProduceRequest) -> bool:
        """As `authorize`, for many topics and partitions."""
        for part in _parts(request.topic_data):
            if _has_transactional_batches(part.topics):
                if not self._may_use_transactional_id(request.transactional_id):
                    return False
                break
            await next_turn()
        denied = set[tuple[str, bytes]]()
        for at in range(0, len(request.topic_data), ELEMENTS_PER_TURN):
            denied.update(self._denied_in(request.topic_data[at : at + ELEMENTS_PER_TURN]))
            await next_turn()
        self._denied = denied
        return True

    def _may_use_transactional_id(self, transactional_id: str | None) -> bool:
        """As `authorize`, for a request that has transactional batches."""
        call = self.call
        if transactional_id is not None and call.is_authorized(
            WRITE, TRANSACTIONAL_ID, transactional_id
        ):
            return True
        if self._acks != _NONE:
            raise KafkaError(Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        call.close()
        return False

    def _denied_in(self, topics: list[_TopicData]) -> Iterator[tuple[str, bytes]]:
        """The topics that the client may not write to."""
        find = topics_by_id if self._uses_topic_ids else topics_by_name
        for topic, outcome in zip(topics, find(topics, WRITE, self.call), strict=True):
            if outcome is Error.TOPIC_AUTHORIZATION_FAILED:
                yield topic.name, topic.topic_id

    def append_all(self, topics: list[_TopicData]) -> ProduceResponse:
        """Append every batch and return the response with offsets and errors."""
        responses = []
        for topic in topics:
            appended: list[_PartitionResponse] = []
            is_denied = self._denied and (topic.name, topic.topic_id) in self._denied
            for data in topic.partition_data:
                try:
                    appended.append(
                        self._refusal(data.index, KafkaError(Error.TOPIC_AUTHORIZATION_FAILED))
                        if is_denied
                        else self._append(topic, data)
                    )
                except TakesLong:
                    self.delayed += ((topic, data, appended, len(appended)),)
                    appended.append(_PartitionResponse(index=data.index))
            responses.append(
                _TopicResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=appended
                )
            )
        return ProduceResponse(responses=responses)

    def final(self, response: ProduceResponse) -> ProduceResponse | None:
        """The response to send; None for acks=0."""
        if self._acks != _NONE:
            if self.failed:
                name_leaders(response, self.call)
            return response
        if self.failed:
            # There is no response to carry an error; a closed connection makes the client
            # refresh its metadata.
            self.call.close()
        return None

    async def append_delayed(self) -> None:
        """Append the batches of `delayed` after they have been checked in a thread."""
        delayed, self.delayed = self.delayed, ()
        for topic, data, responses, at in delayed:
            responses[at] = await self._append_later(topic, data)

    async def _append_later(self, topic: _TopicData, data: _PartitionData) -> _PartitionResponse:
        try:
            partition = self._find(topic, data.index)
        except KafkaError as error:
            return self._refusal(data.index, error)
        log, records, broker = partition.log, data.records or b"", self._broker
        config = log.config
        check = partial(check_ahead, records, self._now_ms, config, log.name)
        result = await computed(broker.check_apart, check)
        if isinstance(result, KafkaError):
            return self._failure(partition, data, result)
        if config.validates_schemas:
            refusal = await broker.schema_refusal(records, log.topic, config, broker.check_apart)
            if refusal is not None:
                return self._failure(partition, data, refusal)
        return self._append(topic, data, result)

    def _append(
        self, topic: _TopicData, data: _PartitionData, ahead: Checked | None = None
    ) -> _PartitionResponse:
        records: Any = data.records
        try:
            partition = self._partitions.get((topic.name, data.index))
            if partition is None:
                partition = self._find(topic, data.index)
            if (
                not self._is_plain
                or partition.is_internal
                or records is None
                or len(records) < HEADER_BYTES
                or records[_ATTRIBUTES_LOW_BYTE_AT] & TRANSACTIONAL_BIT
            ):
                self._check(partition, data)
        except KafkaError as error:
            return self._refusal(data.index, error)
        try:
            leader = partition.leader
            if leader is None:
                raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
            guard = self._guards.get(partition)
            appended = leader.append_from_client(
                records, self._acks, self._now_ms, guard, ahead=ahead
            )
        except KafkaError as error:
            return self._failure(partition, data, error)
        base_offset, end_offset, log_append_time_ms, start_offset, _ = appended
        response = _PartitionResponse(
            index=data.index,
            error_code=0,
            base_offset=base_offset,
            log_append_time_ms=log_append_time_ms,
            log_start_offset=start_offset,
        )
        if partition.high_watermark < end_offset and (
            self._acks == _ALL or (partition.awaits_sync and self._acks != _NONE)
        ):
            self.uncommitted.append((partition, leader, end_offset, response))
        return response

    async def confirm(self, transactional_id: str, topics: list[_TopicData]) -> None:
        """Verify at the coordinator the partitions that have no open transaction (KIP-890)."""
        version = self.call.version
        support = (
            Support.ADDS
            if version >= _ADDS_PARTITIONS_SINCE
            else Support.KNOWS_ABORTABLE
            if version >= _ABORTABLE_SINCE
            else Support.EXPLICIT
        )
        self._guards, self._refused = {}, {}
        topics = [each for each in topics if (each.name, each.topic_id) not in self._denied]
        unconfirmed: dict[ProducerIdentity, set[tuple[str, int]]] = {}
        for topic in topics:
            for data in topic.partition_data:
                partition = self._transactional(topic, data)
                if partition is None or partition.leader is None or data.records is None:
                    continue
                header = read_header(data.records)
                guard = partition.leader.begin_verification(
                    header, supports_epoch_bump=support is Support.ADDS
                )
                if guard is not None:
                    self._guards[partition] = guard
                    producer = ProducerIdentity(header.producer_id, header.producer_epoch)
                    unconfirmed.setdefault(producer, set()).add((partition.topic, data.index))
        for producer, partitions in unconfirmed.items():
            self._refused.update(
                await self._broker.transactions.confirmations.confirm_patiently(
                    TransactionalWrite(transactional_id, producer, frozenset(partitions), support)
                )
            )

    def _transactional(self, topic: _TopicData, data: _PartitionData) -> Partition | None:
        """The partition, if the batch is transactional and passes the other checks; else None."""
        records = data.records
        if (
            records is None
            or len(records) < HEADER_BYTES
            or not records[_ATTRIBUTES_LOW_BYTE_AT] & TRANSACTIONAL_BIT
        ):
            return None
        try:
            partition = self._find(topic, data.index)
            self._check(partition, data)
            has_one_batch = sum(1 for _ in islice(batches(records), 2)) == 1
        except KafkaError:
            return None
        return partition if has_one_batch else None

    def _find(self, topic: _TopicData, index: int) -> Partition:
        if self._uses_topic_ids:
            return self._broker.partition_by_id(topic.topic_id, index)
        return self._broker.partition(topic.name, index)

    def _check(self, partition: Partition, data: _PartitionData) -> None:
        """Check the conditions that depend on the request, not on the log. Raises KafkaError."""
        if not -1 <= self._acks <= 1:
            raise KafkaError(Error.INVALID_REQUIRED_ACKS)
        records = data.records
        if records is None or len(records) < HEADER_BYTES:
            raise KafkaError(Error.INVALID_RECORD)
        attributes = records[_ATTRIBUTES_LOW_BYTE_AT]
        if self.call.version < _ZSTD_SINCE:
            compression = attributes & COMPRESSION_MASK
            if compression == Codec.ZSTD:
                raise KafkaError(Error.UNSUPPORTED_COMPRESSION_TYPE)
            if compression > Codec.ZSTD:
                raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
        if attributes & TRANSACTIONAL_BIT:
            if not self._has_transactional_id:
                raise KafkaError(Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            refused = self._refused.get((partition.topic, partition.index))
            if refused is not None:
                raise refused
        if partition.is_internal and self.call.client_id != _ADMIN_CLIENT_ID:
            raise KafkaError(Error.INVALID_TOPIC_EXCEPTION)

    def _refusal(
        self, index: int, error: KafkaError, counters: TopicTraffic | None = None
    ) -> _PartitionResponse:
        self.failed = True
        measures = self._broker.measures
        if measures is not None:
            (counters or measures.traffic.of_others).refused()
        response = _PartitionResponse(
            index=index, error_code=error.error, base_offset=-1, error_message=error.message
        )
        for batch_index, message in getattr(error, "record_errors", ()):
            response.record_errors.append(
                _RecordError(batch_index=batch_index, batch_index_error_message=message)
            )
        return response

    def _failure(
        self, partition: Partition, data: _PartitionData, error: KafkaError
    ) -> _PartitionResponse:
        response = self._refusal(data.index, error, partition.traffic)
        if partition.traffic is not None and error.error in _TOO_LARGE:
            partition.traffic.bytes_rejected += len(data.records or b"")
        if error.error not in _UNPLACED and _is_one_batch(data.records):
            response.log_start_offset = partition.log.start_offset
        return response


def name_leaders(response: ProduceResponse, call: Call) -> None:
    """Add the current leader of each partition that another broker leads (KIP-951), since v10."""
    if call.version < _NAMES_LEADERS_SINCE:
        return
    leaders = CurrentLeaders(call)
    for topic in response.responses:
        for each in topic.partition_responses:
            _name_leader(topic, each, leaders)
    response.node_endpoints = list(leaders.endpoints.values())


async def _name_leaders_of_many(response: ProduceResponse, call: Call) -> None:
    """As `name_leaders`, for many partitions."""
    if call.version < _NAMES_LEADERS_SINCE:
        return
    leaders, turns = CurrentLeaders(call), Turns()
    for topic in response.responses:
        for each in topic.partition_responses:
            _name_leader(topic, each, leaders)
            await turns.step()
    response.node_endpoints = list(leaders.endpoints.values())


def _name_leader(
    topic: _TopicResponse, partition: _PartitionResponse, leaders: CurrentLeaders
) -> None:
    if partition.error_code == Error.NOT_LEADER_OR_FOLLOWER:
        key = topic.name or topic.topic_id  # A request has names or ids.
        leader_id, leader_epoch = leaders.find(key, partition.index)
        partition.current_leader = _PartitionResponse.LeaderIdAndEpoch(
            leader_id=leader_id, leader_epoch=leader_epoch
        )


def _parts(topics: list[_TopicData]) -> Iterator[_Part]:
    """Topics and partitions in the order of the request, divided among turns."""
    part, left, goes_on = list[_TopicData](), ELEMENTS_PER_TURN, False
    for topic in topics:
        at, partitions = 0, topic.partition_data
        while True:
            some = partitions[at : at + left]
            part.append(_TopicData(name=topic.name, topic_id=topic.topic_id, partition_data=some))
            at, left = at + len(some), left - max(1, len(some))
            if left > 0:
                break
            yield _Part(part, goes_on)
            part, left, goes_on = [], ELEMENTS_PER_TURN, at < len(partitions)
            if not goes_on:
                break
    if part:
        yield _Part(part, goes_on)


def _has_transactional_batches(topics: list[_TopicData]) -> bool:
    return any(
        data.records is not None
        and len(data.records) >= HEADER_BYTES
        and data.records[_ATTRIBUTES_LOW_BYTE_AT] & TRANSACTIONAL_BIT
        for topic in topics
        for data in topic.partition_data
    )


def _is_one_batch(records: Any) -> bool:
    (length,) = SIZE.unpack_from(records, LENGTH_AT)
    return bool(length + LOG_OVERHEAD_BYTES == len(records) and records[MAGIC_AT] == MAGIC)


@failure_of(produce)
def produce_failure(request: ProduceRequest, error: KafkaError, call: Call) -> ProduceResponse:
    """Report the error for every partition of the request."""
    return ProduceResponse(
        responses=[
            _TopicResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _PartitionResponse(index=data.index, error_code=error.error, base_offset=-1)
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
