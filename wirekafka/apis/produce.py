"""Produce: appends batches;
v7: zstd (KIP-110), v8: record errors (KIP-467), v10: leaders (KIP-951), v13: topic ids (KIP-516).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from wirekafka.apis.registry import Call, api
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
    read_header,
)
from wirekafka.codec.compression import Codec
from wirekafka.codec.message import (
    Int16,
    Int32,
    Int64,
    Part,
    Records,
    Request,
    Response,
    String,
    Uuid,
    field,
)
from wirekafka.coordinator.transaction_commands import ProducerIdentity
from wirekafka.coordinator.transactions import Support, TransactionalWrite
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.partition import Partition
from wirekafka.replication.waiting import Watched


class ProduceRequest(Request, key=0, versions="3-13", flexible="9+"):
    transactional_id: String | None = field(default=None)
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]

    class TopicProduceData(Part):
        name: String = field("3-12")
        topic_id: Uuid = field("13+")
        partition_data: list[PartitionProduceData]

        class PartitionProduceData(Part):
            index: Int32
            records: Records | None = field(default=b"")


class ProduceResponse(Response, answers=ProduceRequest):
    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0)

    class TopicProduceResponse(Part):
        name: String = field("3-12")
        topic_id: Uuid = field("13+")
        partition_responses: list[PartitionProduceResponse]

        class PartitionProduceResponse(Part):
            index: Int32
            error_code: Int16
            base_offset: Int64
            log_append_time_ms: Int64 = field(default=-1)
            log_start_offset: Int64 = field("5+", default=-1)
            record_errors: list[BatchIndexAndErrorMessage] = field("8+")
            error_message: String | None = field("8+", default=None)
            current_leader: LeaderIdAndEpoch = field("10+", tag=0)

            class BatchIndexAndErrorMessage(Part):
                batch_index: Int32
                batch_index_error_message: String | None = field(default=None)

            class LeaderIdAndEpoch(Part):
                leader_id: Int32 = field(default=-1)
                leader_epoch: Int32 = field(default=-1)

    class NodeEndpoint(Part):
        node_id: Int32
        host: String
        port: Int32
        rack: String | None = field(default=None)


_TopicData = ProduceRequest.TopicProduceData
_PartitionData = _TopicData.PartitionProduceData
_TopicResponse = ProduceResponse.TopicProduceResponse
_PartitionResponse = _TopicResponse.PartitionProduceResponse
_RecordError = _PartitionResponse.BatchIndexAndErrorMessage

_ALL, _NONE = -1, 0
_NO_GUARDS: dict[Partition, object] = {}
_NONE_REFUSED: dict[tuple[str, int], KafkaError] = {}
_SPEAKS_ZSTD_SINCE = 7
_ABORTABLE_SINCE = 11
_ADDS_PARTITIONS_SINCE = 12
_SPEAKS_IDS_SINCE = 13
_ADMIN_CLIENT_ID = "__admin_client"
_ATTRIBUTES_LOW_BYTE_AT = ATTRIBUTES_AT + 1
_UNPLACED = frozenset({
    Error.UNKNOWN_TOPIC_OR_PARTITION, Error.NOT_LEADER_OR_FOLLOWER, Error.MESSAGE_TOO_LARGE,
    Error.CORRUPT_MESSAGE, Error.KAFKA_STORAGE_ERROR, Error.UNKNOWN_TOPIC_ID})
"""Errors told without the log's start offset, as in Kafka."""


@api(ProduceRequest, ProduceResponse, advertise="0-13")
def produce(request: ProduceRequest,
            call: Call) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append each partition's batch, and answer when as many replicas as asked for have it.

    Versions 0 to 2 are told but not spoken: librdkafka before 2.8 compresses only where it sees
    them (KAFKA-18659).
    """
    writing = _Writing(request, call)
    if request.transactional_id is not None:
        return _produce_in_transaction(request.transactional_id, request, writing)
    response = writing.append_all(request.topic_data)
    if writing.uncommitted:
        return _produce_replicated(request, writing, response)
    return writing.answer(response)


async def _produce_in_transaction(transactional_id: str, request: ProduceRequest,
                                  writing: _Writing) -> ProduceResponse | None:
    writing.call.needs_buffer = True
    await writing.confirm(transactional_id, request.topic_data)
    response = writing.append_all(request.topic_data)
    if writing.uncommitted:
        return await _produce_replicated(request, writing, response)
    return writing.answer(response)


async def _produce_replicated(request: ProduceRequest, writing: _Writing,
                              response: ProduceResponse) -> ProduceResponse | None:
    await _replicated(writing.uncommitted, request.timeout_ms, writing.call)
    return writing.answer(response)


class _Writing:
    """The appends of one request."""

    __slots__ = ("_acks", "_broker", "_guards", "_has_transactional_id", "_is_plain", "_moved",
                 "_now_ms", "_partitions", "_refused", "_speaks_ids", "call", "failed",
                 "uncommitted")

    def __init__(self, request: ProduceRequest, call: Call):
        version = call.version
        self._acks = request.acks
        self.call = call
        self._broker = call.broker
        self._partitions = call.broker.partitions
        self._now_ms = call.now_ms
        self._speaks_ids = version >= _SPEAKS_IDS_SINCE
        self._has_transactional_id = request.transactional_id is not None
        # So that one look says for most batches that `_check` has nothing to find.
        self._is_plain = version >= _SPEAKS_ZSTD_SINCE and -1 <= self._acks <= 1
        self._guards = _NO_GUARDS
        self._refused = _NONE_REFUSED
        self._moved = False
        self.failed = False
        self.uncommitted: list[tuple[Partition, int, _PartitionResponse]] = []

    def append_all(self, topics: list[_TopicData]) -> ProduceResponse:
        """Append every batch and say how it went."""
        responses = []
        for topic in topics:
            appended = []
            for data in topic.partition_data:
                appended.append(self._append(topic, data))
            responses.append(_TopicResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=appended))
        return ProduceResponse(responses=responses)

    def answer(self, response: ProduceResponse) -> ProduceResponse | None:
        """The response as it is sent, if the client wants any."""
        if self._acks != _NONE:
            if self._moved:
                response.node_endpoints = self._node_endpoints()
            return response
        if self.failed:
            # Nobody reads an answer; losing the connection tells the client to refresh its
            # metadata.
            self.call.close()
        return None

    def _append(self, topic: _TopicData, data: _PartitionData) -> _PartitionResponse:
        records: Any = data.records
        try:
            partition = self._partitions.get((topic.name, data.index))
            if partition is None:
                partition = self._find(topic, data.index)
            if (not self._is_plain or partition.is_internal or records is None
                    or len(records) < HEADER_BYTES
                    or records[_ATTRIBUTES_LOW_BYTE_AT] & TRANSACTIONAL_BIT):
                self._check(partition, data)
        except KafkaError as error:
            return self._refusal(data.index, error)
        try:
            appended = partition.append_from_client(records, self._acks, self._now_ms,
                                                    self._guards.get(partition))
        except KafkaError as error:
            return self._failure(partition, data, error)
        base_offset, end_offset, log_append_time_ms, start_offset, _ = appended
        response = _PartitionResponse(
            index=data.index, error_code=0, base_offset=base_offset,
            log_append_time_ms=log_append_time_ms, log_start_offset=start_offset)
        if partition.high_watermark < end_offset and (
                self._acks == _ALL or (partition.awaits_sync and self._acks != _NONE)):
            self.uncommitted.append((partition, end_offset, response))
        return response

    async def confirm(self, transactional_id: str, topics: list[_TopicData]) -> None:
        """Ask the coordinator about the partitions where the transaction is not open yet."""
        version = self.call.version
        support = (Support.ADDS if version >= _ADDS_PARTITIONS_SINCE
                   else Support.TELLS_ABORTABLE if version >= _ABORTABLE_SINCE
                   else Support.EXPLICIT)
        self._guards, self._refused = {}, {}
        unconfirmed: dict[ProducerIdentity, set[tuple[str, int]]] = {}
        for topic in topics:
            for data in topic.partition_data:
                partition = self._transactional(topic, data)
                if partition is None or data.records is None:
                    continue
                header = read_header(data.records)
                guard = partition.begin_verification(
                    header, supports_epoch_bump=support is Support.ADDS)
                if guard is not None:
                    self._guards[partition] = guard
                    producer = ProducerIdentity(header.producer_id, header.producer_epoch)
                    unconfirmed.setdefault(producer, set()).add((partition.topic, data.index))
        for producer, partitions in unconfirmed.items():
            self._refused.update(await self._broker.transactions.confirm(TransactionalWrite(
                transactional_id, producer, frozenset(partitions), support)))

    def _transactional(self, topic: _TopicData, data: _PartitionData) -> Partition | None:
        """The partition of a transactional batch that will not be refused for other reasons."""
        records = data.records
        if (records is None or len(records) < HEADER_BYTES
                or not records[_ATTRIBUTES_LOW_BYTE_AT] & TRANSACTIONAL_BIT):
            return None
        try:
            partition = self._find(topic, data.index)
            self._check(partition, data)
        except KafkaError:
            return None
        return partition if partition.is_leader else None

    def _find(self, topic: _TopicData, index: int) -> Partition:
        if self._speaks_ids:
            return self._broker.partition_by_id(topic.topic_id, index)
        return self._broker.partition(topic.name, index)

    def _check(self, partition: Partition, data: _PartitionData) -> None:
        """What depends on the request, not on the log."""
        if not -1 <= self._acks <= 1:
            raise KafkaError(Error.INVALID_REQUIRED_ACKS)
        records = data.records
        if records is None or len(records) < HEADER_BYTES:
            raise KafkaError(Error.INVALID_RECORD)
        attributes = records[_ATTRIBUTES_LOW_BYTE_AT]
        if self.call.version < _SPEAKS_ZSTD_SINCE:
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

    def _refusal(self, index: int, error: KafkaError) -> _PartitionResponse:
        self.failed = True
        response = _PartitionResponse(index=index, error_code=error.error, base_offset=-1,
                                      error_message=error.message)
        for batch_index, message in getattr(error, "record_errors", ()):
            response.record_errors.append(_RecordError(
                batch_index=batch_index, batch_index_error_message=message))
        return response

    def _failure(self, partition: Partition, data: _PartitionData,
                 error: KafkaError) -> _PartitionResponse:
        response = self._refusal(data.index, error)
        if error.error not in _UNPLACED and _is_one_batch(data.records):
            response.log_start_offset = partition.log.start_offset
        if error.error is Error.NOT_LEADER_OR_FOLLOWER:
            self._moved = True
            response.current_leader = _PartitionResponse.LeaderIdAndEpoch(
                leader_id=partition.leader_id, leader_epoch=partition.leader_epoch)
        return response

    def _node_endpoints(self) -> list[ProduceResponse.NodeEndpoint]:
        """Where the leaders named in the response are (KIP-951)."""
        return [ProduceResponse.NodeEndpoint(node_id=node.id, host=node.host, port=node.port,
                                             rack=node.rack)
                for node in self.call.broker.nodes(self.call.listener)]


def _is_one_batch(records: Any) -> bool:
    (length,) = SIZE.unpack_from(records, LENGTH_AT)
    return bool(length + LOG_OVERHEAD_BYTES == len(records) and records[MAGIC_AT] == MAGIC)


async def _replicated(uncommitted: list[tuple[Partition, int, _PartitionResponse]],
                      timeout_ms: int, call: Call) -> None:
    """Wait until the in-sync replicas have everything; tell what they did not get in time."""
    def done(_: Watched) -> bool:
        return all(_settled(partition, end_offset) for partition, end_offset, _ in uncommitted)

    await call.broker.waiting.until(
        done, {partition for partition, _, _ in uncommitted}, call.now_ms + timeout_ms)
    for partition, end_offset, response in uncommitted:
        if not partition.is_leader:
            response.error_code = Error.NOT_LEADER_OR_FOLLOWER
        elif partition.log.has_failed and partition.high_watermark < end_offset:
            response.error_code = Error.KAFKA_STORAGE_ERROR
        elif partition.high_watermark < end_offset:
            response.error_code = Error.REQUEST_TIMED_OUT
        elif partition.lacks_replicas:
            # Written, but on fewer replicas than min.insync.replicas asks for.
            response.error_code = Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        else:
            continue
        response.base_offset = -1


def _settled(partition: Partition, end_offset: int) -> bool:
    return (partition.high_watermark >= end_offset or not partition.is_leader
            or partition.log.has_failed)


def produce_failure(request: ProduceRequest, error: KafkaError, call: Call) -> ProduceResponse:
    """Every partition fails alike."""
    return ProduceResponse(responses=[
        _TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[
            _PartitionResponse(index=data.index, error_code=error.error, base_offset=-1)
            for data in topic.partition_data])
        for topic in request.topic_data])
