"""Produce: idempotent producers, their epochs and sequences (KIP-98)."""

from __future__ import annotations

from collections.abc import Callable

from wirekafka.conformance.case import ConformanceLevel, Play
from wirekafka.conformance.cases.records.logs import OpenTransaction, trim
from wirekafka.conformance.cases.records.produce import BOOK as _BOOK
from wirekafka.conformance.cases.records.requests import fetch, list_offsets, produce_all
from wirekafka.conformance.stage import Stage, batch

_LAST = 2**31 - 1
"""The largest sequence; 0 follows."""

_SEQUENCES: dict[str, list[tuple[int, ...]]] = {
    "a first sequence of 0": [(0,)],
    "a first sequence that is not 0": [(7,)],
    "sequences in order": [(0,), (3,), (6,)],
    "the last batch again": [(0,), (3,), (3,)],
    "the last batch but four again": [(0,), (3,), (6,), (9,), (12,), (0,)],
    "the last batch but five again": [(0,), (3,), (6,), (9,), (12,), (15,), (0,)],
    "an earlier batch and then the next": [(0,), (3,), (0,), (6,)],
    "a gap in the sequences": [(0,), (4,), (3,)],
    "an overlap of sequences": [(0,), (1,), (3,)],
    "a batch of the same start but fewer records": [(0,), (0, 0, 2)],
    "a batch of the same start but more records": [(0,), (0, 0, 5)],
    "a batch within an earlier one": [(0, 0, 5), (1, 0, 2)],
    "two earlier batches as one": [(0,), (3,), (0, 0, 6)],
    "a later epoch from 0": [(0,), (0, 1), (3, 1)],
    "a later epoch that goes on": [(0,), (3, 1)],
    "an epoch that is skipped": [(0,), (0, 5), (3, 5)],
    "an earlier epoch": [(0, 3), (3, 2), (3, 3)],
    "an earlier epoch from 0": [(0, 3), (0, 2)],
    "a batch of an earlier epoch again": [(0,), (0, 1), (0,)],
    "the largest epoch": [(0, 32767), (3, 32767), (0, 0)],
    "sequences that wrap around within a batch": [(_LAST - 1,), (1,), (4,)],
    "sequences that wrap around between batches": [(_LAST - 2,), (0,), (3,)],
    "sequences that wrap around, again": [(_LAST - 1,), (1,), (_LAST - 1,), (1,)],
    "a gap where sequences wrap around": [(_LAST - 2,), (1,)],
    "the largest sequence alone": [(_LAST, 0, 1), (0,)],
}
for _title, _steps in _SEQUENCES.items():

    @_BOOK.play(_title, versions="7,12", source="KIP-98")
    def _sequence(stage: Stage, steps: list[tuple[int, ...]] = _steps) -> None:
        name = stage.create()
        for sequence, *rest in steps:
            epoch, count = (*rest, *(0, 3)[len(rest) :])
            records = batch(count, producer_id=4242, producer_epoch=epoch, base_sequence=sequence)
            stage.ask(stage.produce_request(name, records))
        stage.ask(list_offsets(name, -1), 6)


def _by(sequence: int, producer_id: int = 4242, epoch: int = 0, count: int = 3) -> bytes:
    return batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def _play(title: str, versions: str = "9") -> Callable[[Play], Play]:
    return _BOOK.play(title, versions=versions, source="KIP-98")


@_play("two producers in turn")
def _two(stage: Stage) -> None:
    """Sequences are counted for each producer."""
    name = stage.create()
    for records in (_by(0), _by(0, 4243), _by(3), _by(3, 4243), _by(3), _by(6, 4243)):
        stage.ask(stage.produce_request(name, records))


@_play("one producer in two partitions")
def _partitions(stage: Stage) -> None:
    """Sequences are counted in each partition, and a retry is recognized in its own."""
    name = stage.create(partitions=2)
    stage.ask(produce_all(stage, [(name, [(0, _by(0)), (1, _by(0))])]))
    stage.ask(produce_all(stage, [(name, [(0, _by(0)), (1, _by(3))])]))
    stage.ask(produce_all(stage, [(name, [(0, _by(6)), (1, _by(6))])]))


@_play("a producer and batches of none")
def _mixed(stage: Stage) -> None:
    """Batches without a producer do not disturb the sequences."""
    name = stage.create()
    for records in (_by(0), batch(), _by(3), batch(), _by(0)):
        stage.ask(stage.produce_request(name, records))
    stage.ask(fetch(stage, name), 12)


@_play("a batch again after its records were deleted")
def _deleted(stage: Stage) -> None:
    """Deleting records does not make their producer forgotten."""
    name = stage.create()
    stage.produce(name, _by(0))
    stage.produce(name, _by(3))
    trim(stage, name, -1)
    for records in (_by(0), _by(3), _by(6)):
        stage.ask(stage.produce_request(name, records))


@_play("a batch again with acks 1 and acks 0")
def _acks(stage: Stage) -> None:
    """A retry is recognized whatever its acks."""
    name = stage.create()
    for acks in (-1, 1):
        stage.ask(stage.produce_request(name, _by(0), acks=acks))
    stage.send(stage.produce_request(name, _by(0), acks=0), by="b")
    stage.ask(list_offsets(name, -1), 6, by="b")


@_play("a refused batch and then its sequence")
def _refused(stage: Stage) -> None:
    """A batch that is refused for its records does not count."""
    name = stage.create("", 1, cleanup_policy="compact")
    stage.ask(stage.produce_request(name, _by(0)))
    bad = batch(key=None, producer_id=4242, producer_epoch=0, base_sequence=3)
    stage.ask(stage.produce_request(name, bad))
    stage.ask(stage.produce_request(name, _by(3)))


@_play("a batch again with other records")
def _other_records(stage: Stage) -> None:
    """A retry is recognized by its sequences alone."""
    name = stage.create()
    stage.ask(stage.produce_request(name, _by(0)))
    other = batch(key=b"another", producer_id=4242, producer_epoch=0, base_sequence=0)
    stage.ask(stage.produce_request(name, other))
    stage.ask(fetch(stage, name), 12)


@_BOOK.play("a transaction", versions="9,12", source="KIP-98", level=ConformanceLevel.TRANSACTIONS)
def _transaction(stage: Stage) -> None:
    """Batches of an open transaction are appended, and a retry of one is recognized."""
    name = stage.create()
    producer = OpenTransaction(stage, name)
    producer.begin()
    records = producer.records()
    for each in (records, producer.records(), records):
        stage.ask(stage.produce_request(name, each, transactional_id=producer.id))
    producer.end(committed=True)
    stage.ask(list_offsets(name, -1), 6)


@_BOOK.play(
    "a transactional batch after the end of its transaction",
    versions="9",
    source="KIP-890",
    level=ConformanceLevel.TRANSACTIONS,
)
def _after_end(stage: Stage) -> None:
    """Without the partition in a transaction again, the batch is refused."""
    name = stage.create()
    producer = OpenTransaction(stage, name)
    producer.write()
    producer.end(committed=True)
    request = stage.produce_request(name, producer.records(), transactional_id=producer.id)
    stage.ask(request)
    stage.ask(list_offsets(name, -1), 6)


@_BOOK.play(
    "a batch without a transaction during one",
    versions="9",
    source="KIP-98",
    level=ConformanceLevel.TRANSACTIONS,
)
def _not_transactional(stage: Stage) -> None:
    """A producer with an open transaction appends a batch that is not part of it."""
    name = stage.create()
    producer = OpenTransaction(stage, name)
    producer.write()
    records = _by(3, producer.producer_id, producer.epoch)
    stage.ask(stage.produce_request(name, records))
    producer.end(committed=False)


@_BOOK.play(
    "a transactional batch of an earlier epoch",
    versions="9",
    source="KIP-98",
    level=ConformanceLevel.TRANSACTIONS,
)
def _fenced(stage: Stage) -> None:
    """A producer whose transactional id was taken over is fenced."""
    name = stage.create()
    first = OpenTransaction(stage, name)
    first.write()
    first.end(committed=True)
    second = OpenTransaction(stage, name)
    second.write()
    second.end(committed=True)
    stage.ask(stage.produce_request(name, first.records(), transactional_id=first.id))
