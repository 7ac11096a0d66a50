"""Fetch: what readers see of transactions (KIP-98)."""

from __future__ import annotations

from wirekafka.conformance.case import ConformanceLevel
from wirekafka.conformance.cases.records.fetch import BOOK as _BOOK
from wirekafka.conformance.cases.records.logs import BATCH_BYTES, OpenTransaction, settled, trim
from wirekafka.conformance.cases.records.requests import fetch
from wirekafka.conformance.stage import Stage, batch

_SETTLED = {
    "of a committed transaction": 0,
    "of an aborted transaction": 7,
    "from the middle of an aborted transaction": 8,
    "from the marker of an abort": 10,
    "behind the marker of an abort": 11,
    "behind all aborts": 15,
    "from the marker of a commit": 18,
    "at the end of transactions": 19,
}
for _title, _offset in _SETTLED.items():
    for _level, _name in enumerate(("all records", "committed records")):
        _BOOK.ask(
            f"{_name} {_title}",
            lambda s, offset=_offset, level=_level: fetch(
                s, settled(s), offset, isolation_level=level
            ),
            source="KIP-98",
            level=ConformanceLevel.TRANSACTIONS,
        )
_BOOK.ask(
    "committed records with room for one batch",
    lambda s: fetch(s, settled(s), 4, isolation_level=1, most=BATCH_BYTES),
    source="KIP-98",
    level=ConformanceLevel.TRANSACTIONS,
)
_OPTIONS = {"source": "KIP-98", "level": ConformanceLevel.TRANSACTIONS, "versions": "4,12"}


def _both(stage: Stage, name: str, offset: int = 0) -> None:
    for level in (0, 1):
        stage.ask(fetch(stage, name, offset, isolation_level=level))


@_BOOK.play("an open transaction", **_OPTIONS)
def _open(stage: Stage) -> None:
    """Committed records end at the first record of an open transaction."""
    name = stage.create()
    stage.produce(name, batch())
    producer = OpenTransaction(stage, name)
    producer.write()
    stage.produce(name, batch())
    _both(stage, name)
    _both(stage, name, 3)
    _both(stage, name, 6)
    producer.end(committed=True)
    _both(stage, name, 3)


@_BOOK.play("an open transaction ahead of a finished one", **_OPTIONS)
def _two(stage: Stage) -> None:
    """A transaction that is over is hidden while an earlier one is open."""
    name = stage.create()
    first, second = OpenTransaction(stage, name, "a"), OpenTransaction(stage, name, "b")
    first.write()
    second.write()
    second.end(committed=True)
    _both(stage, name)
    first.end(committed=False)
    _both(stage, name)


@_BOOK.play("a transaction without records", **_OPTIONS)
def _none(stage: Stage) -> None:
    """A partition that was added to a transaction, and not written to, gets its marker."""
    name = stage.create()
    producer = OpenTransaction(stage, name)
    producer.begin()
    _both(stage, name)
    producer.end(committed=True)
    _both(stage, name)


@_BOOK.play("an aborted transaction over several batches", **_OPTIONS)
def _several(stage: Stage) -> None:
    """An aborted transaction is listed once, wherever in it the reader is."""
    name = stage.create()
    producer = OpenTransaction(stage, name)
    for _ in range(3):
        producer.write()
        stage.produce(name, batch())
    producer.end(committed=False)
    for offset in (0, 6, 12, 18):
        stage.ask(fetch(stage, name, offset, isolation_level=1))
    stage.ask(fetch(stage, name, 0, isolation_level=1, most=BATCH_BYTES))


@_BOOK.play("an aborted transaction whose records are deleted", **_OPTIONS)
def _deleted(stage: Stage) -> None:
    """Deleting records of an aborted transaction leaves the rest of it aborted."""
    name = stage.create()
    producer = OpenTransaction(stage, name)
    producer.write()
    producer.write()
    producer.end(committed=False)
    trim(stage, name, 4)
    _both(stage, name, 4)
    trim(stage, name, 7)
    _both(stage, name, 7)
