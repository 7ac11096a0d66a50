"""The pages of transactions: open transactions, one transaction, and a topic's producers."""

from __future__ import annotations

from urllib.parse import urlencode

from wirekafka.client.admin.transactions import (
    NotFound,
    OpenProducer,
    TransactionRow,
    abort,
    describe_transaction,
    list_transactions,
    producers,
)
from wirekafka.console.pages.page import (
    LARGEST_INT64,
    Change,
    Page,
    PageError,
    PageView,
    Redirect,
    Visit,
    whole_number,
)
from wirekafka.console.pages.tables import table
from wirekafka.console.pages.topic_metadata import described
from wirekafka.console.render import now_ms
from wirekafka.visible_text import visible

LINK = ("Transactions", "/transactions", "x")


def show(visit: Visit) -> PageView:
    """The list of transactions, oldest first."""
    with_ended = visit.query.get("ended") == "yes"
    found = list_transactions(visit.client, ended=with_ended)
    now = now_ms()
    values = {
        "title": "Transactions",
        "found": found,
        "with_ended": with_ended,
        "now_ms": now,
        "overdue": sum(each.is_overdue(now) for each in found.listed),
        "transactions": table(
            found.listed,
            visit.query,
            name=lambda each: each.transactional_id,
            sorts=_SORTS,
            default="start",
        ),
    }
    return PageView("transactions.html", values)


def one(visit: Visit) -> PageView:
    """One transaction and its partitions."""
    name = visit.query.get("id", "")
    if not name:
        raise PageError(404, "There is no transactional id without characters.")
    try:
        transaction = describe_transaction(visit.client, name)
    except NotFound as error:
        raise PageError(404, str(error)) from None
    values = {
        "title": f"Transactional id {visible(name)}",
        "transaction": transaction,
        "now_ms": now_ms(),
    }
    return PageView("transaction.html", values)


def show_producers(visit: Visit) -> PageView:
    """The active producers of a topic, producers with open transactions first."""
    topic, _ = described(visit)
    partition = visit.query.get("partition", "").strip()
    wanted = [visit.number("partition", 0)] if partition else []
    found = producers(visit.client, topic.name or "", wanted)
    values = {
        "title": f"Producers of {topic.name}",
        "topic": topic,
        "now_ms": now_ms(),
        "hanging": sum(each.is_hanging for each in found),
        "producers": table(
            found,
            visit.query,
            name=lambda each: str(each.producer_id),
            sorts=_PRODUCER_SORTS,
            default="-open",
        ),
    }
    return PageView("producers.html", values)


def end(visit: Visit) -> Redirect:
    """Abort a hanging transaction in one partition."""
    topic = visit.path["topic"]
    values = []
    for name in ("partition", "producer", "start"):
        text = visit.form.get(name, "")
        number = whole_number(text, LARGEST_INT64)
        if number is None:
            raise PageError(400, f"{name} must be a whole number, not {text!r}.")
        values.append(number)
    partition, producer_id, start_offset = values
    abort(visit.client, (topic, partition), producer_id, start_offset)
    return Redirect(f"/topics/{topic}/producers?{urlencode({'partition': partition})}")


def _order(each: TransactionRow) -> tuple[bool, int, str]:
    return (each.start_ms < 0, each.start_ms, each.transactional_id)


def _openness(each: OpenProducer) -> tuple[bool, bool, int]:
    return (each.is_hanging, each.is_open, -each.last_timestamp)


_SORTS = {
    "start": _order,
    "id": lambda each: each.transactional_id,
    "state": lambda each: each.state,
    "partitions": lambda each: len(each.partitions),
}
_PRODUCER_SORTS = {
    "open": _openness,
    "partition": lambda each: each.partition,
    "id": lambda each: each.producer_id,
    "last": lambda each: each.last_timestamp,
}

ENTRIES = (
    Page("/transactions", show),
    Page("/transaction", one),
    Page("/topics/{topic}/producers", show_producers),
    Page("/topics/{topic}/producers/abort", show_producers),
    Change("/topics/{topic}/producers/abort", end, show_producers),
)
