"""DeleteRecords: log starts that move forward."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.records.logs import OpenTransaction, at, note_log
from wirekafka.conformance.cases.records.requests import delete_records, fetch, list_offsets
from wirekafka.conformance.stage import Stage, batch
from wirekafka.protocol.delete_records import DeleteRecordsRequest

BOOK = Book(DeleteRecordsRequest, "offsets", ConformanceLevel.ADMIN, "KIP-107")

_Topic = DeleteRecordsRequest.Topic


def _several(asked: list[tuple[str, list[tuple[int, int]]]]) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        topics=[
            _Topic(
                name=name,
                partitions=[
                    _Topic.Partition(partition_index=index, offset=offset)
                    for index, offset in parts
                ],
            )
            for name, parts in asked
        ],
        timeout_ms=5000,
    )


_CASES: dict[str, Make] = {
    "beyond the end": lambda s: delete_records(s.topic, 4),
    "far beyond the end": lambda s: delete_records(s.topic, 2**63 - 1),
    "to 0": lambda s: delete_records(s.topic, 0),
    "to minus 2": lambda s: delete_records(s.topic, -2),
    "to the smallest offset": lambda s: delete_records(s.topic, -(2**63)),
    "of a missing topic": lambda s: delete_records(s.missing, 0),
    "of a missing partition": lambda s: delete_records(s.topic, 0, 9),
    "of a negative partition": lambda s: delete_records(s.topic, 0, -1),
    "of a compacted topic": lambda s: delete_records(s.compacted, 0),
    "of all in an empty partition": lambda s: delete_records(s.topic, -1, 1),
    "to 1 in an empty partition": lambda s: delete_records(s.topic, 1, 1),
    "of the metadata log": lambda s: delete_records("__cluster_metadata", 1),
    "of nothing": lambda s: _several([]),
    "of a topic without partitions": lambda s: _several([(s.topic, [])]),
    "of two partitions, one missing": lambda s: _several([(s.topic, [(0, 0), (9, 0)])]),
    "of two topics, one missing": lambda s: _several([(s.topic, [(0, 0)]), (s.missing, [(0, 0)])]),
    "of a partition twice": lambda s: _several([(s.topic, [(0, 0), (0, 7)])]),
    "of a topic twice": lambda s: _several([(s.topic, [(0, 0)]), (s.topic, [(1, 0)])]),
}
for _title, _make in _CASES.items():
    BOOK.ask(_title, _make)


def _filled(stage: Stage, **configs: str) -> str:
    name = stage.create("", 1, **configs)
    for first in (0, 10_000, 20_000):
        stage.produce(name, at(first, first + 1000, first + 2000))
    return name


def _show(stage: Stage, name: str) -> None:
    """Compare both ends of a log, and the records between them."""
    for timestamp in (-2, -1):
        stage.ask(list_offsets(name, timestamp), 6)
    note_log(stage, name)


_STEPS = {
    "to the middle of a batch": (4,),
    "to the start of a batch": (3,),
    "to the high watermark by its number": (9,),
    "to the high watermark": (-1,),
    "further than before": (2, 7),
    "less far than before": (5, 2),
    "as far as before": (5, 5),
    "beyond the end after a deletion": (5, 10),
    "to 0 after a deletion": (5, 0),
    "of all, twice": (-1, -1),
}
for _title, _offsets in _STEPS.items():

    @BOOK.play(_title, versions="0,2")
    def _steps(stage: Stage, offsets: tuple[int, ...] = _offsets) -> None:
        name = _filled(stage)
        for offset in offsets:
            stage.ask(delete_records(name, offset))
        _show(stage, name)


@BOOK.play("and appends afterwards", versions="2")
def _appends(stage: Stage) -> None:
    """Offsets go on where they were after all records were deleted."""
    name = _filled(stage)
    stage.ask(delete_records(name, -1))
    stage.produce(name, batch())
    _show(stage, name)


@BOOK.play("and what readers get", versions="2")
def _readers(stage: Stage) -> None:
    """Positions below the log start are out of range, and the answer has the log start."""
    name = _filled(stage)
    stage.ask(delete_records(name, 4))
    for offset in (0, 3, 4, 5, 9, 10):
        stage.ask(fetch(stage, name, offset), 12)


@BOOK.play("and what producers get", versions="2")
def _producers(stage: Stage) -> None:
    """The answer to an append has the log start."""
    name = _filled(stage)
    stage.ask(delete_records(name, 4))
    stage.ask(stage.produce_request(name, batch()), 8)


@BOOK.play("over several segments", versions="2")
def _segments(stage: Stage) -> None:
    """Whole segments and a part of one are deleted at once."""
    name = stage.create("", 1, segment_ms="60000")
    for number in range(5):
        stage.produce(name, at(number * 3_600_000, number * 3_600_000 + 1))
    for offset in (3, 6, 9, -1):
        stage.ask(delete_records(name, offset))
        _show(stage, name)


@BOOK.play("of a topic that is compacted and deleted", versions="2")
def _compacted(stage: Stage) -> None:
    """A policy of both allows it."""
    name = _filled(stage, cleanup_policy="compact,delete")
    stage.ask(delete_records(name, 4))
    _show(stage, name)


@BOOK.play("of a compacted topic with records", versions="2")
def _only_compacted(stage: Stage) -> None:
    """A policy of compaction alone refuses it, and nothing is deleted."""
    name = _filled(stage, cleanup_policy="compact")
    stage.ask(delete_records(name, 1))
    stage.ask(list_offsets(name, -2), 6)


@BOOK.play("of two partitions of a topic", versions="0,2")
def _two(stage: Stage) -> None:
    """Each partition has its own offset, and one that is refused leaves the other alone."""
    name = stage.create(partitions=3)
    for partition in range(3):
        stage.produce(name, batch(), partition)
    stage.ask(_several([(name, [(0, 1), (1, 2), (2, 9)])]))
    for partition in range(3):
        stage.ask(list_offsets(name, -2, partition=partition), 6)


@BOOK.play("of records of an open transaction", versions="2", level=ConformanceLevel.TRANSACTIONS)
def _transaction(stage: Stage) -> None:
    """Deletion reaches up to the high watermark, whatever the transaction does."""
    name = stage.create()
    producer = OpenTransaction(stage, name)
    producer.write()
    producer.write()
    stage.ask(delete_records(name, 4))
    for isolation in (0, 1):
        stage.ask(fetch(stage, name, 4, isolation_level=isolation), 12)
    producer.end(committed=True)
    stage.ask(fetch(stage, name, 4, isolation_level=1), 12)
