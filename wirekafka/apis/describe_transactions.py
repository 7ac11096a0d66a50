"""DescribeTransactions: tells the coordinator's state of transactions (KIP-664)."""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int16, Int32, Int64, Part, Request, Response, String
from wirekafka.coordinator.transaction import Transaction
from wirekafka.coordinator.transaction_commands import DescribeTransaction
from wirekafka.errors import Error, KafkaError


class DescribeTransactionsRequest(Request, key=65, versions="0", flexible="0+"):
    transactional_ids: list[String]


class DescribeTransactionsResponse(Response, answers=DescribeTransactionsRequest):
    throttle_time_ms: Int32
    transaction_states: list[TransactionState]

    class TransactionState(Part):
        error_code: Int16
        transactional_id: String
        transaction_state: String
        transaction_timeout_ms: Int32
        transaction_start_time_ms: Int64
        producer_id: Int64
        producer_epoch: Int16
        topics: list[TopicData]

        class TopicData(Part):
            topic: String
            partitions: list[Int32]


_State = DescribeTransactionsResponse.TransactionState


@api(DescribeTransactionsRequest, DescribeTransactionsResponse)
async def describe_transactions(request: DescribeTransactionsRequest,
                                call: Call) -> DescribeTransactionsResponse:
    """Each transaction as its coordinator has it, or why it is not told."""
    return DescribeTransactionsResponse(transaction_states=[
        await _describe(transactional_id, call)
        for transactional_id in request.transactional_ids])


async def _describe(transactional_id: str, call: Call) -> _State:
    if not transactional_id:
        return _State(error_code=Error.INVALID_REQUEST, transactional_id=transactional_id)
    try:
        transaction: Transaction = await call.broker.transactions.submit(
            transactional_id, DescribeTransaction(transactional_id))
    except KafkaError as error:
        return _State(error_code=error.error, transactional_id=transactional_id)
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    return _State(
        transactional_id=transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[_State.TopicData(topic=topic, partitions=indexes)
                for topic, indexes in topics.items()],
    )


def describe_transactions_failure(request: DescribeTransactionsRequest, error: KafkaError,
                                  call: Call) -> DescribeTransactionsResponse:
    """Every transactional id fails alike."""
    return DescribeTransactionsResponse(transaction_states=[
        _State(transactional_id=transactional_id, error_code=error.error)
        for transactional_id in request.transactional_ids])
