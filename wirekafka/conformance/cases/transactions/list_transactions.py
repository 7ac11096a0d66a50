"""ListTransactions: transactional ids by state, producer, age and pattern.

Other transactions of the broker are left out of what is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.transactions.producer import ScriptedProducer, with_one_coordinator
from wirekafka.conformance.stage import TRANSACTION, Stage
from wirekafka.protocol.list_transactions import ListTransactionsRequest

BOOK = Book(ListTransactionsRequest, "transactions", ConformanceLevel.ADMIN, "KIP-664")

_DURATIONS, _PATTERNS = "KIP-994", "KIP-1152"


def _note(stage: Stage, first: ScriptedProducer, **filters: Any) -> None:
    """Ask the coordinator of a transaction, and note the transactions of this case."""
    details = {"state_filters": [], "producer_id_filters": [], **filters}
    request = ListTransactionsRequest(**details)
    answer = stage.do(request, at=stage.coordinator(TRANSACTION, first.id))
    mine = [
        each for each in answer.transaction_states if each.transactional_id.startswith(stage.scope)
    ]
    shown = {
        "error_code": answer.error_code,
        "unknown": answer.unknown_state_filters,
        "listed": sorted(mine, key=lambda each: str(each.transactional_id)),
    }
    stage.note("the transactions", shown)


def _three(stage: Stage, topic: str) -> list[ScriptedProducer]:
    """Producers whose transactions are new, open and committed."""
    found = [ScriptedProducer(stage, each, level=1) for each in with_one_coordinator(stage, 3)]
    found[1].send(topic)
    found[2].send(topic)
    found[2].end()
    return found


_STATES: dict[str, list[str]] = {
    "no filter": [],
    "Empty": ["Empty"],
    "Ongoing": ["Ongoing"],
    "CompleteCommit": ["CompleteCommit"],
    "CompleteAbort": ["CompleteAbort"],
    "PrepareCommit": ["PrepareCommit"],
    "PrepareAbort": ["PrepareAbort"],
    "PrepareEpochFence": ["PrepareEpochFence"],
    "Dead": ["Dead"],
    "two states": ["Empty", "Ongoing"],
    "a state twice": ["Empty", "Empty"],
    "an unknown state": ["Sleeping"],
    "an unknown and a known state": ["Sleeping", "Ongoing"],
    "a state in small letters": ["ongoing"],
    "an empty state": [""],
}
for _what, _states in _STATES.items():

    @BOOK.play(f"by state: {_what}")
    def _by_state(stage: Stage, states: list[str] = _states) -> None:
        listed = _three(stage, stage.create())
        _note(stage, listed[0], state_filters=states)
        listed[1].leave()


_PRODUCERS: dict[str, Callable[[list[ScriptedProducer]], list[int]]] = {
    "one": lambda found: [found[0].producer_id],
    "two": lambda found: [found[0].producer_id, found[2].producer_id],
    "one twice": lambda found: [found[1].producer_id] * 2,
    "an unknown one": lambda _: [2**50],
    "one and an unknown one": lambda found: [found[1].producer_id, 2**50],
    "a negative one": lambda _: [-1],
}
for _what, _choose in _PRODUCERS.items():

    @BOOK.play(f"by producer: {_what}")
    def _by_producer(
        stage: Stage, choose: Callable[[list[ScriptedProducer]], list[int]] = _choose
    ) -> None:
        listed = _three(stage, stage.create())
        _note(stage, listed[0], producer_id_filters=choose(listed))
        listed[1].leave()


@BOOK.play("by state and producer")
def _by_both(stage: Stage) -> None:
    """Both must fit."""
    listed = _three(stage, stage.create())
    for producer in listed:
        _note(
            stage,
            listed[0],
            state_filters=["Ongoing", "CompleteCommit"],
            producer_id_filters=[producer.producer_id],
        )
    listed[1].leave()


_AGES: dict[str, int] = {"0 ms": 0, "an hour": 3_600_000, "minus 1": -1, "minus 2": -2}
for _what, _age in _AGES.items():

    @BOOK.play(f"by age: {_what}", versions="1-2", source=_DURATIONS)
    def _by_age(stage: Stage, age: int = _age) -> None:
        """Of transactions that run longer than this; others have no age."""
        listed = _three(stage, stage.create())
        _note(stage, listed[0], duration_filter=age)
        listed[1].leave()


_REGEXES: dict[str, Callable[[list[ScriptedProducer]], str | None]] = {
    "no pattern": lambda _: None,
    "an empty pattern": lambda _: "",
    "an id": lambda found: found[0].id,
    "the beginning of an id": lambda found: found[0].id[:-1],
    "the beginning of all": lambda found: f"{found[0].stage.scope}.*",
    "the end of an id": lambda found: f".*{found[0].id[-3:]}",
    "one of two ids": lambda found: f"{found[0].id}|{found[2].id}",
    "nothing that there is": lambda _: "nothing of this kind",
    "a pattern in brackets": lambda found: f"{found[0].stage.scope}-x[0-9]+",
    "no proper pattern": lambda _: "[",
    "a quantifier of nothing": lambda _: "*",
    "capital letters": lambda found: found[0].id.upper(),
}
for _what, _regex in _REGEXES.items():

    @BOOK.play(f"by pattern: {_what}", versions="2", source=_PATTERNS)
    def _by_pattern(
        stage: Stage, regex: Callable[[list[ScriptedProducer]], str | None] = _regex
    ) -> None:
        """The whole id must match."""
        listed = _three(stage, stage.create())
        _note(stage, listed[0], transactional_id_pattern=regex(listed))
        listed[1].leave()


@BOOK.play("by all at once", versions="2", source=_PATTERNS)
def _by_all(stage: Stage) -> None:
    listed = _three(stage, stage.create())
    filters = {
        "state_filters": ["Ongoing"],
        "producer_id_filters": [each.producer_id for each in listed],
        "duration_filter": 0,
    }
    stage.until(
        lambda: (
            stage.do(
                ListTransactionsRequest(**filters, transactional_id_pattern=listed[1].id),
                at=stage.coordinator(TRANSACTION, listed[0].id),
            ).transaction_states
        ),
        "a transaction that has an age",
    )
    for producer in listed:
        _note(stage, listed[0], **filters, transactional_id_pattern=producer.id)
    listed[1].leave()
