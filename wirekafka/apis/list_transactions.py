"""ListTransactions: lists a coordinator's transactions (KIP-664);
v1: by duration (KIP-994), v2: by pattern (KIP-1152).
"""

from __future__ import annotations

import re

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int16, Int32, Int64, Part, Request, Response, String, field
from wirekafka.coordinator.transaction import TransactionState
from wirekafka.coordinator.transaction_commands import ListTransactions
from wirekafka.errors import Error, KafkaError
from wirekafka.security.acl import DESCRIBE, TRANSACTIONAL_ID


class ListTransactionsRequest(Request, key=66, versions="0-2", flexible="0+"):
    state_filters: list[String]
    producer_id_filters: list[Int64]
    duration_filter: Int64 = field("1+", default=-1)
    transactional_id_pattern: String | None = field("2+", default=None)


class ListTransactionsResponse(Response, answers=ListTransactionsRequest):
    throttle_time_ms: Int32
    error_code: Int16
    unknown_state_filters: list[String]
    transaction_states: list[TransactionState]

    class TransactionState(Part):
        transactional_id: String
        producer_id: Int64
        transaction_state: String


_LABELS = frozenset(state.label for state in TransactionState)


@api(ListTransactionsRequest, ListTransactionsResponse)
async def list_transactions(
    request: ListTransactionsRequest, call: Call
) -> ListTransactionsResponse:
    """All transactions coordinated here that pass every filter."""
    pattern = _compiled(request.transactional_id_pattern)
    states = frozenset(request.state_filters)
    unknown = [state for state in request.state_filters if state not in _LABELS]
    if states and not states & _LABELS:
        return ListTransactionsResponse(unknown_state_filters=unknown)
    listed = await call.broker.transactions.list_transactions(
        ListTransactions(
            states & _LABELS, frozenset(request.producer_id_filters), request.duration_filter
        )
    )
    kind = ListTransactionsResponse.TransactionState
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            kind(
                transactional_id=transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.label,
            )
            for transactional_id, transaction in listed
            if (pattern is None or pattern.fullmatch(transactional_id))
            and call.is_authorized(DESCRIBE, TRANSACTIONAL_ID, transactional_id)
        ],
    )


def _compiled(text: str | None) -> re.Pattern[str] | None:
    if not text:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise KafkaError(Error.INVALID_REGULAR_EXPRESSION, str(error)) from error
