"""DescribeTransactions: describes the state of transactions at their coordinator (KIP-664)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.coordinator.transactions.commands import DescribeTransaction
from wirekafka.coordinator.transactions.transaction import Transaction
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from wirekafka.security.acl import DESCRIBE, TOPIC, TRANSACTIONAL_ID

_State = DescribeTransactionsResponse.TransactionState


@api(DescribeTransactionsRequest, DescribeTransactionsResponse)
async def describe_transactions(
    request: DescribeTransactionsRequest, call: Call
) -> DescribeTransactionsResponse:
    """Describe each transaction, or report why it cannot be described."""
    turns = Turns()
    states = []
    for transactional_id in request.transactional_ids:
        states.append(await _describe(transactional_id, call))
        await turns.step()
    return DescribeTransactionsResponse(transaction_states=states)


async def _describe(transactional_id: str, call: Call) -> _State:
    if not call.is_authorized(DESCRIBE, TRANSACTIONAL_ID, transactional_id):
        refused = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return _State(error_code=refused, transactional_id=transactional_id)
    if not transactional_id:
        return _State(error_code=Error.INVALID_REQUEST, transactional_id=transactional_id)
    try:
        transaction: Transaction = await call.broker.transactions.submit(
            transactional_id, DescribeTransaction(transactional_id)
        )
    except KafkaError as error:
        return _State(error_code=error.error, transactional_id=transactional_id)
    topics: dict[str, list[int]] = {}
    may_describe = call.authorized(DESCRIBE, TOPIC, {topic for topic, _ in transaction.partitions})
    for topic, index in sorted(transaction.partitions):
        if topic not in may_describe:
            continue
        topics.setdefault(topic, []).append(index)
    return _State(
        transactional_id=transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            _State.TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()
        ],
    )


@failure_of(describe_transactions)
def describe_transactions_failure(
    request: DescribeTransactionsRequest, error: KafkaError, call: Call
) -> DescribeTransactionsResponse:
    """Report the error for every transactional id of the request."""
    return DescribeTransactionsResponse(
        transaction_states=[
            _State(transactional_id=transactional_id, error_code=error.error)
            for transactional_id in request.transactional_ids
        ]
    )
