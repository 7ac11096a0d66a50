"""Produce: requests for several partitions, acks, ids, and what is not a batch's own matter."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Make
from wirekafka.conformance.cases.records.batches import forged
from wirekafka.conformance.cases.records.logs import note_log, trim
from wirekafka.conformance.cases.records.produce import BOOK as _BOOK
from wirekafka.conformance.cases.records.requests import fetch, list_offsets, produce_all
from wirekafka.conformance.stage import UNKNOWN_ID, Stage, batch
from wirekafka.protocol.produce import ProduceRequest

_BAD = forged(batch(), crc=1)
_KEYLESS = batch(key=None)


def _with_id(stage: Stage, id: bytes) -> ProduceRequest:
    request = stage.produce_request(stage.topic, _BAD)
    request.topic_data[0].topic_id = id
    return request


def _with_records(stage: Stage, records: Any, **options: Any) -> ProduceRequest:
    return stage.produce_request(stage.topic, records, **options)


_REFUSED: dict[str, Make] = {
    "null records of a missing topic": lambda s: s.produce_request(s.missing, None),
    "a topic without partitions": lambda s: produce_all(s, [(s.topic, [])]),
    "a missing topic without partitions": lambda s: produce_all(s, [(s.missing, [])]),
    "a missing partition beside a bad batch": lambda s: produce_all(
        s, [(s.topic, [(1, _BAD), (9, batch())])]
    ),
    "a missing topic beside a bad batch": lambda s: produce_all(
        s, [(s.topic, [(1, _BAD)]), (s.missing, [(0, batch())])]
    ),
    "two bad batches": lambda s: produce_all(
        s, [(s.topic, [(0, _BAD), (1, batch(key=None)[:30])])]
    ),
    "a bad batch with acks 1": lambda s: _with_records(s, _BAD, acks=1),
    "a missing topic with acks 1": lambda s: s.produce_request(s.missing, batch(), acks=1),
    "acks 127": lambda s: _with_records(s, batch(), acks=127),
    "acks of minus 32768": lambda s: _with_records(s, batch(), acks=-32768),
    "wrong acks beside a missing topic": lambda s: s.produce_request(s.missing, batch(), acks=2),
    "wrong acks without topics": lambda _: ProduceRequest(acks=2, timeout_ms=1, topic_data=[]),
    "a transactional id without transactional records": lambda s: s.produce_request(
        s.topic, _BAD, transactional_id=s.name("nobody")
    ),
    "an empty transactional id": lambda s: _with_records(s, _BAD, transactional_id=""),
    "transactional records without an id": lambda s: _with_records(
        s, batch(producer_id=4242, producer_epoch=0, base_sequence=0, is_transactional=True)
    ),
    "transactional records outside a transaction": lambda s: s.produce_request(
        s.topic,
        batch(producer_id=4242, producer_epoch=0, base_sequence=0, is_transactional=True),
        transactional_id=s.name("nobody"),
    ),
    "a keyless record beside another compacted batch": lambda s: produce_all(
        s, [(s.compacted, [(0, _KEYLESS)]), (s.topic, [(9, batch())])]
    ),
    "an empty name": lambda s: produce_all(s, [("", [(0, batch())])]),
    "a name that no topic may have": lambda s: produce_all(s, [("a b", [(0, batch())])]),
    "to the offsets of groups": lambda s: produce_all(s, [("__consumer_offsets", [(0, _BAD)])]),
}
for _title, _make in _REFUSED.items():
    _BOOK.ask(_title, _make)
_BOOK.ask("by an unknown id", lambda s: _with_id(s, UNKNOWN_ID), versions="13+", source="KIP-516")
_BOOK.ask("by the id zero", lambda s: _with_id(s, bytes(16)), versions="13+", source="KIP-516")


@_BOOK.play("several partitions", versions="3,9,13")
def _several(stage: Stage) -> None:
    """Each partition of each topic has its own answer."""
    one, other = stage.create("one", 3), stage.create("other")
    stage.produce(one, batch(), 2)
    data = [(one, [(0, batch()), (1, batch(1)), (2, batch(2))]), (other, [(0, batch(1))])]
    stage.ask(produce_all(stage, data))
    for partition in range(3):
        stage.ask(list_offsets(one, -1, partition=partition), 6)


@_BOOK.play("a bad partition among good ones", versions="3,9,13")
def _one_bad(stage: Stage) -> None:
    """What is refused in one partition does not stop the others."""
    name = stage.create(partitions=3)
    data = [(name, [(0, batch()), (1, _BAD), (2, batch()), (7, batch())])]
    stage.ask(produce_all(stage, data))
    for partition in range(3):
        stage.ask(list_offsets(name, -1, partition=partition), 6)


@_BOOK.play("a partition twice in a topic", versions="3,9,13")
def _twice(stage: Stage) -> None:
    """Of two batches for one partition, what is appended and answered."""
    name = stage.create()
    stage.ask(produce_all(stage, [(name, [(0, batch(1)), (0, batch(2))])]))
    stage.ask(list_offsets(name, -1), 6)


@_BOOK.play("a topic twice", versions="3,9")
def _topic_twice(stage: Stage) -> None:
    """Two listings of a topic with a partition each."""
    name = stage.create(partitions=2)
    stage.ask(produce_all(stage, [(name, [(0, batch(1))]), (name, [(1, batch(2))])]))
    for partition in range(2):
        stage.ask(list_offsets(name, -1, partition=partition), 6)


@_BOOK.play("acks 0", versions="3,9,13")
def _unanswered(stage: Stage) -> None:
    """Nothing is answered: the next answer is to the next request, which sees the records."""
    name = stage.create()
    stage.send(stage.produce_request(name, batch(), acks=0), by="b")
    stage.ask(list_offsets(name, -1), 6, by="b")


@_BOOK.play("acks 0 several times", versions="9")
def _unanswered_often(stage: Stage) -> None:
    """Requests without an answer are handled in their order."""
    name = stage.create()
    for count in (1, 2, 3):
        stage.send(stage.produce_request(name, batch(count), acks=0), by="b")
    stage.ask(stage.produce_request(name, batch(4)), by="b")
    note_log(stage, name)


@_BOOK.play("acks 0 with an error", versions="3,9")
def _unanswered_error(stage: Stage) -> None:
    """What cannot be answered is shown by closing the connection."""
    stage.send(stage.produce_request(stage.topic, batch(), partition=9, acks=0), by="b")
    stage.ask(list_offsets(stage.topic, -1), 6, by="b")


@_BOOK.play("acks 0 without topics", versions="9")
def _unanswered_nothing(stage: Stage) -> None:
    """Nothing to append is nothing to answer."""
    stage.send(ProduceRequest(acks=0, timeout_ms=1000, topic_data=[]), by="b")
    stage.ask(list_offsets(stage.topic, -1), 6, by="b")


@_BOOK.play("acks 1", versions="3,9,13")
def _acks_1(stage: Stage) -> None:
    """The offset of the leader is answered."""
    name = stage.create()
    for _ in range(2):
        stage.ask(stage.produce_request(name, batch(), acks=1))


@_BOOK.play("times to wait that are none", versions="9")
def _timeouts(stage: Stage) -> None:
    """A single replica has acknowledged before any time is over."""
    name = stage.create()
    for timeout_ms in (0, -1, 2**31 - 1):
        request = stage.produce_request(name, batch())
        request.timeout_ms = timeout_ms
        stage.ask(request)


@_BOOK.play("a log start after records were deleted", versions="3,5,9,13")
def _log_start(stage: Stage) -> None:
    """The answer to an append has the log start, from version 5 on."""
    name = stage.create()
    stage.produce(name, batch())
    trim(stage, name, 2)
    stage.ask(stage.produce_request(name, batch()))
    stage.ask(stage.produce_request(name, _BAD))


@_BOOK.play("by the id of a topic created again", versions="13", source="KIP-516")
def _created_again(stage: Stage) -> None:
    """The id of a deleted topic is unknown."""
    name = stage.create()
    old = stage.id_of(name)
    stage.delete(name)

    def is_gone() -> bool:
        answer = stage.do(fetch(stage, name), 12)
        return bool(answer.responses[0].partitions[0].error_code)

    stage.until(is_gone, "the end of the topic")
    request = stage.produce_request(name, batch())
    request.topic_data[0].topic_id = old
    stage.ask(request)


@_BOOK.play("requests that are sent before the answers to others", versions="9")
def _pipelined(stage: Stage) -> None:
    """Requests of one connection are appended and answered in their order."""
    name = stage.create()
    asked = [stage.send(stage.produce_request(name, batch(count))) for count in (3, 1, 2)]
    for each in asked:
        each.answer()
    note_log(stage, name)
