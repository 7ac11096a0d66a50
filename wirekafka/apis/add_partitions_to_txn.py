"""AddPartitionsToTxn: adds topic partitions to a transaction (KIP-98).

v2: PRODUCER_FENCED (KIP-588), v4: several transactions, for brokers only, with verification
(KIP-890), which answers TRANSACTION_ABORTABLE in v4 too.
"""

from __future__ import annotations

from collections.abc import Iterable

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.fencing import fencing_error
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.config.topic_config import is_mirror
from wirekafka.coordinator.transactions.commands import (
    AddPartitions,
    ProducerIdentity,
    VerifyPartitions,
)
from wirekafka.coordinator.transactions.transaction import (
    EPOCH_BUMPING_TRANSACTIONS,
    FIRST_TRANSACTIONS,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.image.image import TOPIC as TOPIC_CONFIG
from wirekafka.protocol.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    PartitionResult,
    Topic,
    TopicResult,
)
from wirekafka.replication.partition.internal_topics import INTERNAL_TOPICS
from wirekafka.runtime.driver import start
from wirekafka.runtime.promise import Promise
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION, TOPIC, TRANSACTIONAL_ID, WRITE

_Transaction = AddPartitionsToTxnRequest.Transaction
_Errors = dict[tuple[str, int], Error]

_FENCED_SINCE = 2
_BATCHED_SINCE = 4


@api(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse)
async def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, call: Call
) -> AddPartitionsToTxnResponse:
    """Add the partitions of each transaction, or only verify that they are part of it."""
    if call.version < _BATCHED_SINCE:
        errors = await _add_for_client(_single(request), call)
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=_results(request.v3_and_below_topics, errors)
        )
    call.authorize(CLUSTER_ACTION, CLUSTER)
    # Each waits for its own commit, so all are started before the first is awaited.
    begun: list[Promise[dict[tuple[str, int], Error]]] = [Promise() for _ in request.transactions]
    for transaction, outcome in zip(request.transactions, begun, strict=True):
        start(_add_for_broker(transaction, call, outcome))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResponse.Result(
                transactional_id=transaction.transactional_id,
                topic_results=_results(transaction.topics, await outcome),
            )
            for transaction, outcome in zip(request.transactions, begun, strict=True)
        ]
    )


@failure_of(add_partitions_to_txn)
def add_partitions_to_txn_failure(
    request: AddPartitionsToTxnRequest, error: KafkaError, call: Call
) -> AddPartitionsToTxnResponse:
    """Report the error at the top level from v4 on, for every partition before."""
    if call.version >= _BATCHED_SINCE:
        return AddPartitionsToTxnResponse(error_code=error.error)
    transaction = _single(request)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_results(
            transaction.topics, dict.fromkeys(_partitions(transaction), error.error)
        )
    )


def _single(request: AddPartitionsToTxnRequest) -> _Transaction:
    return _Transaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


async def _add_for_client(transaction: _Transaction, call: Call) -> _Errors:
    """Add the partitions that a client may write to, which never include internal topics."""
    partitions = _partitions(transaction)
    if not call.is_authorized(WRITE, TRANSACTIONAL_ID, transaction.transactional_id):
        return dict.fromkeys(partitions, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    may_write = call.authorized(
        WRITE, TOPIC, [topic for topic, _ in partitions if topic not in INTERNAL_TOPICS]
    )
    refused = frozenset(
        (topic, index)
        for topic, index in partitions
        if topic in INTERNAL_TOPICS or topic not in may_write
    )
    return await _add(transaction, FIRST_TRANSACTIONS, call, refused)


async def _add_for_broker(
    transaction: _Transaction, call: Call, outcome: Promise[dict[tuple[str, int], Error]]
) -> None:
    """Add or verify the partitions of one transaction for the broker that leads them."""
    try:
        outcome.set(
            await _verify(transaction, call)
            if transaction.verify_only
            else await _add(transaction, EPOCH_BUMPING_TRANSACTIONS, call, frozenset())
        )
    except Exception as error:
        outcome.set(error)


async def _add(
    transaction: _Transaction, client_version: int, call: Call, refused: frozenset[tuple[str, int]]
) -> _Errors:
    """Add all partitions, or none if any partition does not exist or is `refused`."""
    partitions = _partitions(transaction)
    failed = _unwritable(partitions, call)
    failed |= dict.fromkeys(refused, Error.TOPIC_AUTHORIZATION_FAILED)
    if failed:
        return {where: failed.get(where, Error.OPERATION_NOT_ATTEMPTED) for where in partitions}
    command = AddPartitions(
        transaction.transactional_id, _producer(transaction), partitions, client_version
    )
    return dict.fromkeys(partitions, await _outcome(transaction, command, call))


async def _verify(transaction: _Transaction, call: Call) -> _Errors:
    """Report which partitions are part of the transaction; none if one does not exist."""
    partitions = _partitions(transaction)
    unknown = _unknown(partitions, call)
    if unknown:
        return {where: unknown.get(where, Error.OPERATION_NOT_ATTEMPTED) for where in partitions}
    command = VerifyPartitions(transaction.transactional_id, _producer(transaction), partitions)
    try:
        _check_id(transaction)
        confirmed = await call.broker.transactions.submit(transaction.transactional_id, command)
    except KafkaError as error:
        return dict.fromkeys(partitions, error.error)
    return {
        where: Error.NONE if where in confirmed else Error.TRANSACTION_ABORTABLE
        for where in partitions
    }


def _unknown(partitions: Iterable[tuple[str, int]], call: Call) -> _Errors:
    """The error of each partition that does not exist."""
    image = call.broker.image
    return {
        where: Error.UNKNOWN_TOPIC_OR_PARTITION
        for where in partitions
        if image.partition(*where) is None
    }


def _unwritable(partitions: Iterable[tuple[str, int]], call: Call) -> _Errors:
    """The error of each partition that does not exist, or whose topic is a mirror."""
    errors = _unknown(partitions, call)
    for topic in {topic for topic, _ in partitions}:
        if is_mirror(call.broker.image.config(TOPIC_CONFIG, topic)):
            mirrored = {where: Error.POLICY_VIOLATION for where in partitions if where[0] == topic}
            errors = mirrored | errors
    return errors


async def _outcome(transaction: _Transaction, command: AddPartitions, call: Call) -> Error:
    try:
        _check_id(transaction)
        await call.broker.transactions.submit(transaction.transactional_id, command)
    except KafkaError as error:
        return fencing_error(error.error, call.version, fenced_since=_FENCED_SINCE)
    return Error.NONE


def _check_id(transaction: _Transaction) -> None:
    if not transaction.transactional_id:
        raise KafkaError(Error.INVALID_REQUEST)


def _producer(transaction: _Transaction) -> ProducerIdentity:
    return ProducerIdentity(transaction.producer_id, transaction.producer_epoch)


def _partitions(transaction: _Transaction) -> frozenset[tuple[str, int]]:
    return frozenset(
        (topic.name, index) for topic in transaction.topics for index in topic.partitions
    )


def _results(topics: list[Topic], errors: _Errors) -> list[TopicResult]:
    return [
        TopicResult(
            name=topic.name,
            results_by_partition=[
                PartitionResult(
                    partition_index=index, partition_error_code=errors[topic.name, index]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
