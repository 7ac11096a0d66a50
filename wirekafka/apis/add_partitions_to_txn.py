"""AddPartitionsToTxn: adds topic partitions to a transaction;
v4, between brokers only, batches and verifies (KIP-890).
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import (
    Bool,
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    field,
)
from wirekafka.coordinator.transaction import EPOCH_BUMPING_TRANSACTIONS, FIRST_TRANSACTIONS
from wirekafka.coordinator.transaction_commands import (
    AddPartitions,
    ProducerIdentity,
    VerifyPartitions,
)
from wirekafka.errors import Error, KafkaError


class Topic(Part):
    name: String
    partitions: list[Int32]


class AddPartitionsToTxnRequest(Request, key=24, versions="0-5", flexible="3+"):
    transactions: list[Transaction] = field("4+")
    v3_and_below_transactional_id: String = field("0-3")
    v3_and_below_producer_id: Int64 = field("0-3")
    v3_and_below_producer_epoch: Int16 = field("0-3")
    v3_and_below_topics: list[Topic] = field("0-3")

    class Transaction(Part):
        transactional_id: String
        producer_id: Int64
        producer_epoch: Int16
        verify_only: Bool
        topics: list[Topic]


class PartitionResult(Part):
    partition_index: Int32
    partition_error_code: Int16


class TopicResult(Part):
    name: String
    results_by_partition: list[PartitionResult]


class AddPartitionsToTxnResponse(Response, answers=AddPartitionsToTxnRequest):
    throttle_time_ms: Int32
    error_code: Int16 = field("4+")
    results_by_transaction: list[Result] = field("4+")
    results_by_topic_v3_and_below: list[TopicResult] = field("0-3")

    class Result(Part):
        transactional_id: String
        topic_results: list[TopicResult]


_Transaction = AddPartitionsToTxnRequest.Transaction
TopicResult = TopicResult
_Errors = dict[tuple[str, int], Error]

_FENCED_SINCE = 2
_BATCHED_SINCE = 4
_ABORTABLE_SINCE = 5


@api(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse)
async def add_partitions_to_txn(request: AddPartitionsToTxnRequest,
                                call: Call) -> AddPartitionsToTxnResponse:
    """Add, or only verify, the partitions of one transaction or of several."""
    if call.version < _BATCHED_SINCE:
        errors = await _add(_single(request), FIRST_TRANSACTIONS, call)
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=_results(request.v3_and_below_topics, errors))
    results = []
    for told in request.transactions:
        errors = (await _verify(told, call) if told.verify_only
                  else await _add(told, EPOCH_BUMPING_TRANSACTIONS, call))
        results.append(AddPartitionsToTxnResponse.Result(
            transactional_id=told.transactional_id, topic_results=_results(told.topics, errors)))
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def add_partitions_to_txn_failure(request: AddPartitionsToTxnRequest, error: KafkaError,
                                  call: Call) -> AddPartitionsToTxnResponse:
    """Every partition fails alike; from version 4 on, the request as a whole."""
    if call.version >= _BATCHED_SINCE:
        return AddPartitionsToTxnResponse(error_code=error.error)
    told = _single(request)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(
        told.topics, dict.fromkeys(_partitions(told), error.error)))


def _single(request: AddPartitionsToTxnRequest) -> _Transaction:
    return _Transaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics)


async def _add(told: _Transaction, client_version: int, call: Call) -> _Errors:
    """All of the partitions, or none when one of them does not exist."""
    partitions = _partitions(told)
    known = call.broker.image.topics
    missing = {(topic, index) for topic, index in partitions
               if topic not in known or index not in known[topic].partitions}
    if missing:
        return {where: Error.UNKNOWN_TOPIC_OR_PARTITION if where in missing
                else Error.OPERATION_NOT_ATTEMPTED for where in partitions}
    command = AddPartitions(told.transactional_id, _producer(told), partitions, client_version)
    return dict.fromkeys(partitions, await _outcome(told, command, call))


async def _verify(told: _Transaction, call: Call) -> _Errors:
    partitions = _partitions(told)
    command = VerifyPartitions(told.transactional_id, _producer(told), partitions)
    try:
        _check_id(told)
        confirmed = await call.broker.transactions.submit(told.transactional_id, command)
    except KafkaError as error:
        return dict.fromkeys(partitions, error.error)
    missing = (Error.TRANSACTION_ABORTABLE if call.version >= _ABORTABLE_SINCE
               else Error.INVALID_TXN_STATE)
    return {where: Error.NONE if where in confirmed else missing for where in partitions}


async def _outcome(told: _Transaction, command: AddPartitions, call: Call) -> Error:
    try:
        _check_id(told)
        await call.broker.transactions.submit(told.transactional_id, command)
    except KafkaError as error:
        if error.error is Error.PRODUCER_FENCED and call.version < _FENCED_SINCE:
            return Error.INVALID_PRODUCER_EPOCH
        return error.error
    return Error.NONE


def _check_id(told: _Transaction) -> None:
    if not told.transactional_id:
        raise KafkaError(Error.INVALID_REQUEST)


def _producer(told: _Transaction) -> ProducerIdentity:
    return ProducerIdentity(told.producer_id, told.producer_epoch)


def _partitions(told: _Transaction) -> frozenset[tuple[str, int]]:
    return frozenset((topic.name, index) for topic in told.topics for index in topic.partitions)


def _results(topics: list[Topic], errors: _Errors) -> list[TopicResult]:
    return [
        TopicResult(name=topic.name, results_by_partition=[
            PartitionResult(partition_index=index, partition_error_code=errors[topic.name, index])
            for index in topic.partitions])
        for topic in topics
    ]
