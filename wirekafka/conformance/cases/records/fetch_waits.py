"""Fetch: requests that wait for records."""

from __future__ import annotations

import time

from wirekafka.conformance.cases.records.fetch import BOOK as _BOOK
from wirekafka.conformance.cases.records.logs import BATCH_BYTES, OpenTransaction
from wirekafka.conformance.cases.records.requests import fetch, fetch_all, part
from wirekafka.conformance.stage import Stage, batch

_LONG_MS = 60_000
"""Longer than a case waits for an answer: only an event ends such a wait."""


@_BOOK.play("woken by an append", versions="4,12-13")
def _woken(stage: Stage) -> None:
    """A request at the end is answered as soon as another connection has appended."""
    name = stage.create()
    waiting = stage.send(fetch(stage, name, max_wait_ms=_LONG_MS), by="b")
    stage.produce(name, batch())
    waiting.answer()


@_BOOK.play("woken by an append with acks 0", versions="12")
def _woken_by_acks_0(stage: Stage) -> None:
    """An append that nobody is answered ends a wait, too."""
    name = stage.create()
    waiting = stage.send(fetch(stage, name, max_wait_ms=_LONG_MS), by="b")
    stage.send(stage.produce_request(name, batch(), acks=0), 9, by="c")
    waiting.answer()


@_BOOK.play("woken in the second of two partitions", versions="12")
def _second_partition(stage: Stage) -> None:
    """Records of any of the partitions end the wait."""
    name = stage.create(partitions=2)
    request = fetch_all(stage, [(name, [part(0), part(1)])], max_wait_ms=_LONG_MS)
    waiting = stage.send(request, by="b")
    stage.produce(name, batch(), 1)
    waiting.answer()


@_BOOK.play("woken when small appends reach the required bytes", versions="4,12")
def _small_appends(stage: Stage) -> None:
    """The third append completes the bytes: the answer has all three batches."""
    name = stage.create()
    request = fetch(stage, name, max_wait_ms=_LONG_MS, min_bytes=2 * BATCH_BYTES + 1)
    waiting = stage.send(request, by="b")
    for _ in range(3):
        stage.produce(name, batch())
    waiting.answer()


@_BOOK.play("woken when two partitions reach the required bytes together", versions="12")
def _together(stage: Stage) -> None:
    """The bytes of all partitions count."""
    name = stage.create(partitions=2)
    request = fetch_all(
        stage, [(name, [part(0), part(1)])], max_wait_ms=_LONG_MS, min_bytes=2 * BATCH_BYTES
    )
    waiting = stage.send(request, by="b")
    stage.produce(name, batch(), 0)
    stage.produce(name, batch(), 1)
    waiting.answer()


@_BOOK.play("several that wait for one partition", versions="12")
def _several(stage: Stage) -> None:
    """One append answers all who wait for it."""
    name = stage.create()
    request = fetch(stage, name, max_wait_ms=_LONG_MS)
    waiting = [stage.send(request, by=by) for by in ("b", "c", "d")]
    stage.produce(name, batch())
    for each in waiting:
        each.answer()


@_BOOK.play("ended by time without records", versions="4,12")
def _ended(stage: Stage) -> None:
    """Nothing comes: the answer is empty, and not early."""
    name = stage.create()
    began_s = time.monotonic()
    stage.ask(fetch(stage, name, max_wait_ms=400))
    stage.note("waited", time.monotonic() - began_s >= 0.35)


@_BOOK.play("ended by time with fewer than the required bytes", versions="12")
def _too_few(stage: Stage) -> None:
    """What is there is returned when the time is over, and not early."""
    name = stage.create()
    stage.produce(name, batch())
    began_s = time.monotonic()
    stage.ask(fetch(stage, name, max_wait_ms=400, min_bytes=1 << 20))
    stage.note("waited", time.monotonic() - began_s >= 0.35)


@_BOOK.play("a missing partition does not end the wait", versions="4,12-13")
def _missing(stage: Stage) -> None:
    """A partition that is missing is reported with the others, when their wait is over."""
    name = stage.create()
    began_s = time.monotonic()
    stage.ask(fetch_all(stage, [(name, [part(0), part(7)])], max_wait_ms=400))
    stage.note("waited", time.monotonic() - began_s >= 0.35)


@_BOOK.play("an offset out of range ends the wait", versions="4,12")
def _out_of_range(stage: Stage) -> None:
    """A position that the log does not have is reported at once."""
    name = stage.create(partitions=2)
    request = fetch_all(stage, [(name, [part(0), part(1, 5)])], max_wait_ms=_LONG_MS)
    stage.ask(request)


@_BOOK.play("records that are there end the wait at once", versions="4,12")
def _there(stage: Stage) -> None:
    """The required bytes are in the log already."""
    name = stage.create()
    stage.produce(name, batch())
    stage.ask(fetch(stage, name, max_wait_ms=_LONG_MS, min_bytes=BATCH_BYTES))


@_BOOK.play("nothing to fetch ends the wait at once", versions="12")
def _nothing(stage: Stage) -> None:
    """A request for no partition has nothing to wait for."""
    stage.ask(fetch_all(stage, [], max_wait_ms=_LONG_MS))


@_BOOK.play(
    "a reader of committed records is woken by the commit", versions="4,12", source="KIP-98"
)
def _committed(stage: Stage) -> None:
    """Records of an open transaction do not end the wait; the marker does."""
    name = stage.create()
    producer = OpenTransaction(stage, name)
    request = fetch(stage, name, max_wait_ms=_LONG_MS, isolation_level=1)
    waiting = stage.send(request, by="b")
    producer.write()
    producer.ask_for_end(committed=True)
    waiting.answer()


@_BOOK.play("requests behind one that waits", versions="12")
def _in_order(stage: Stage) -> None:
    """Requests of one connection are answered in their order: the second waits for the first."""
    name = stage.create()
    stage.produce(name, batch())
    first = stage.send(fetch(stage, name, 3, max_wait_ms=_LONG_MS), by="b")
    second = stage.send(fetch(stage, name, 0), by="b")
    stage.produce(name, batch())
    first.answer()
    second.answer()
