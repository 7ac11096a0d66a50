"""ListTransactions: lists a coordinator's transactions (KIP-664);
v1: by duration (KIP-994), v2: by pattern (KIP-1152).
"""

from __future__ import annotations

from collections.abc import Iterable

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api
from wirekafka.coordinator.transactions.commands import ListTransactions
from wirekafka.coordinator.transactions.transaction import TransactionState
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from wirekafka.regex import InvalidRegex, Regex
from wirekafka.runtime.promise import pause
from wirekafka.security.acl import DESCRIBE, TRANSACTIONAL_ID

_LABELS = frozenset(state.label for state in TransactionState)
_WORK_PER_TURN = 500_000
"""Instructions of a program times bytes of an id between two pauses: at most 5 ms."""


@api(ListTransactionsRequest, ListTransactionsResponse)
async def list_transactions(
    request: ListTransactionsRequest, call: Call
) -> ListTransactionsResponse:
    """All transactions coordinated here that pass every filter."""
    states = frozenset(request.state_filters)
    known = states & _LABELS
    # As in Kafka, a coordinator that loads says so before it looks at the filters.
    listed = await call.broker.transactions.list_transactions(
        ListTransactions(known, frozenset(request.producer_id_filters), request.duration_filter)
    )
    regex = _compiled(request.transactional_id_pattern)
    if states and not known:
        listed = []
    visible = call.authorized(DESCRIBE, TRANSACTIONAL_ID, (name for name, _ in listed))
    listed = [each for each in listed if each[0] in visible]
    if regex is not None:
        matching = await _matching(regex, [name for name, _ in listed], call)
        listed = [each for each in listed if each[0] in matching]
    kind = ListTransactionsResponse.TransactionState
    return ListTransactionsResponse(
        unknown_state_filters=[state for state in request.state_filters if state not in _LABELS],
        transaction_states=[
            kind(
                transactional_id=transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.label,
            )
            for transactional_id, transaction in listed
        ],
    )


def _compiled(text: str | None) -> Regex | None:
    if not text:
        return None
    try:
        return Regex(text)
    except InvalidRegex as error:
        message = f"Transaction ID pattern `{text}` is not a valid regular expression: {error}."
        raise KafkaError(Error.INVALID_REGULAR_EXPRESSION, message) from None


async def _matching(regex: Regex, names: Iterable[str], call: Call) -> set[str]:
    """The names that match as a whole, with pauses: there may be many long names."""
    found = set()
    work = 0
    for name in names:
        if regex.matches(name):
            found.add(name)
        work += regex.program_size * len(name)
        if work > _WORK_PER_TURN:
            work = 0
            await pause(call.broker.clock, 0)
    return found
