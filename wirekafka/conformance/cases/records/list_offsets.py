"""ListOffsets: the ends of a log, and offsets by time."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.records.logs import (
    OpenTransaction,
    at,
    compressed,
    emptied,
    rolled,
    settled,
    stamped,
    timed,
    trim,
    trimmed,
)
from wirekafka.conformance.cases.records.requests import list_offsets
from wirekafka.conformance.stage import TIME_MS, Stage, batch
from wirekafka.protocol.list_offsets import ListOffsetsRequest

BOOK = Book(ListOffsetsRequest, "offsets", ConformanceLevel.CORE, "ListOffsetsRequest.json")

_SPECIAL = {
    "the end": -1,
    "the start": -2,
    "the largest timestamp": -3,
    "the start on this broker": -4,
    "the end of tiered records": -5,
    "the first offset that is not tiered": -6,
}
_SOURCES = {-1: "KIP-79", -2: "KIP-79", -3: "KIP-734", -4: "KIP-405", -5: "KIP-1005"}
_LOGS: dict[str, Any] = {
    "of a log": timed,
    "of deleted records": trimmed,
    "of an emptied log": emptied,
    "of compressed batches": compressed,
    "of batches stamped at their append": stamped,
    "of several segments": rolled,
    "of transactions": settled,
    "of a compacted topic": lambda s: s.compacted,
}
for _name, _log in _LOGS.items():
    for _what, _timestamp in _SPECIAL.items():
        BOOK.ask(
            f"{_what} {_name}",
            lambda s, log=_log, timestamp=_timestamp: list_offsets(log(s), timestamp),
            source=_SOURCES.get(_timestamp, "KIP-1023"),
        )
for _what, _timestamp in _SPECIAL.items():
    BOOK.ask(
        f"{_what} of an empty partition",
        lambda s, timestamp=_timestamp: list_offsets(s.topic, timestamp, partition=1),
    )

_TIMES: dict[str, tuple[Any, int]] = {
    "a time before all": (timed, -1),
    "the time of the first record": (timed, 0),
    "a millisecond after the first record": (timed, 1),
    "the time of the last record of a batch": (timed, 2000),
    "a time between two batches": (timed, 2001),
    "a time that three records and the next batch have": (timed, 10_000),
    "a time after equal ones": (timed, 10_001),
    "a time of which an earlier batch has a later one": (timed, 15_000),
    "the last time before a gap": (timed, 20_000),
    "a time in a gap": (timed, 20_001),
    "a time ahead of an unordered batch": (timed, 30_000),
    "the largest time, in two batches": (timed, 40_000),
    "a time after all": (timed, 40_001),
    "a time inside gzip": (compressed, 2000),
    "a time between records of gzip": (compressed, 2500),
    "a time inside snappy": (compressed, 103_000),
    "a time inside lz4": (compressed, 204_000),
    "a time inside zstd": (compressed, 301_000),
    "a time after the last of zstd": (compressed, 304_001),
    "the time of a deleted record": (trimmed, 2000),
    "the time of a deleted record within a batch": (trimmed, 10_000),
    "the time of the first record that is left": (trimmed, 11_000),
    "the time of a record in a batch cut by a log start": (trimmed, 12_000),
    "a time in an emptied log": (emptied, 0),
    "a time before batches stamped at their append": (stamped, 0),
    "a time in the first of several segments": (rolled, 0),
    "a time between two segments": (rolled, 3_600_001),
    "the time of the last segment": (rolled, 18_000_000),
    "a time after the last segment": (rolled, 18_000_001),
    "the time of an aborted record": (settled, 2000),
}
for _title, (_log, _after_ms) in _TIMES.items():
    BOOK.ask(
        _title,
        lambda s, log=_log, after_ms=_after_ms: list_offsets(log(s), TIME_MS + after_ms),
        source="KIP-79",
    )


def _several(stage: Stage, asked: list[tuple[str, list[tuple[int, int]]]]) -> ListOffsetsRequest:
    topic = ListOffsetsRequest.Topic
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.Partition(partition_index=index, timestamp=timestamp)
                    for index, timestamp in parts
                ],
            )
            for name, parts in asked
        ],
        timeout_ms=1000,
    )


def _as_replica(request: ListOffsetsRequest, replica_id: int) -> ListOffsetsRequest:
    request.replica_id = replica_id
    return request


_REQUESTS: dict[str, Make] = {
    "the time 0": lambda s: list_offsets(timed(s), 0),
    "the time minus 7": lambda s: list_offsets(timed(s), -7),
    "the smallest time": lambda s: list_offsets(timed(s), -(2**63)),
    "the largest of all times": lambda s: list_offsets(timed(s), 2**63 - 1),
    "a missing topic": lambda s: list_offsets(s.missing, -1),
    "a missing topic by time": lambda s: list_offsets(s.missing, TIME_MS),
    "a missing partition": lambda s: list_offsets(s.topic, -1, partition=9),
    "a negative partition": lambda s: list_offsets(s.topic, -1, partition=-1),
    "two partitions": lambda s: _several(s, [(timed(s), [(0, -1), (1, -1)])]),
    "a missing partition beside another": lambda s: _several(s, [(timed(s), [(0, -1), (7, -1)])]),
    "two topics, one missing": lambda s: _several(
        s, [(timed(s), [(0, -1)]), (s.missing, [(0, -1)])]
    ),
    "a topic listed twice": lambda s: _several(s, [(timed(s), [(0, -1)]), (timed(s), [(1, -1)])]),
    "a partition listed twice": lambda s: list_offsets(timed(s), -1, -2),
    "a partition listed twice beside another": lambda s: _several(
        s, [(timed(s), [(0, -1), (1, -1), (0, -2)])]
    ),
    "a partition in two listings of a topic": lambda s: _several(
        s, [(timed(s), [(0, -1)]), (timed(s), [(0, -2)])]
    ),
    "no topics": lambda s: _several(s, []),
    "a topic without partitions": lambda s: _several(s, [(timed(s), [])]),
    "only committed": lambda s: list_offsets(timed(s), -1, isolation=1),
    "only committed by time": lambda s: list_offsets(timed(s), TIME_MS + 10_000, isolation=1),
    "only committed with the largest timestamp": lambda s: list_offsets(timed(s), -3, isolation=1),
    "an isolation level of 7": lambda s: list_offsets(timed(s), -1, isolation=7),
    "an isolation level below zero": lambda s: list_offsets(timed(s), -1, isolation=-1),
    "an isolation level of 7 by time": lambda s: list_offsets(timed(s), TIME_MS, isolation=7),
    "the end for a debugging client": lambda s: _as_replica(list_offsets(timed(s), -1), -2),
    "the end for an unknown follower": lambda s: _as_replica(list_offsets(timed(s), -1), 12345),
    "the end of the metadata log": lambda s: list_offsets("__cluster_metadata", -1),
}
for _title, _make in _REQUESTS.items():
    BOOK.ask(_title, _make)

_EPOCHS: dict[str, Make] = {
    "the end in the leader's epoch": lambda s: list_offsets(timed(s), -1, epoch=0),
    "the end in a later epoch": lambda s: list_offsets(timed(s), -1, epoch=5),
    "the start in a later epoch": lambda s: list_offsets(timed(s), -2, epoch=5),
    "a time in a later epoch": lambda s: list_offsets(timed(s), TIME_MS, epoch=5),
    "the end in an epoch below minus 1": lambda s: list_offsets(timed(s), -1, epoch=-2),
    "the end of a missing partition in a later epoch": lambda s: list_offsets(
        timed(s), -1, partition=9, epoch=5
    ),
}
for _title, _make in _EPOCHS.items():
    BOOK.ask(_title, _make, versions="4+", source="KIP-320")

_STAMPS = (-1, -2, -3, TIME_MS, TIME_MS + 2000)


@BOOK.play("during a transaction", versions="2,7", level=ConformanceLevel.TRANSACTIONS)
def _transaction(stage: Stage) -> None:
    """For readers of committed records, a log ends where the first open transaction begins."""
    name = stage.create()
    stage.produce(name, batch(2))
    producer = OpenTransaction(stage, name)
    producer.write()
    for isolation in (0, 1):
        stage.ask(list_offsets(name, -1, isolation=isolation))
        stage.ask(list_offsets(name, TIME_MS + 2000, isolation=isolation))
    stage.ask(list_offsets(name, -3, isolation=1), 7)
    producer.end(committed=False)
    stage.ask(list_offsets(name, -1, isolation=1))


@BOOK.play("the largest timestamp as records are appended", versions="7", source="KIP-734")
def _largest(stage: Stage) -> None:
    """The first record with the largest timestamp, until a later one comes."""
    name = stage.create()
    for times in ((5000,), (3000, 4000), (5000,), (1000, 9000, 9000), (9000,), (0,)):
        stage.produce(name, at(*times))
        stage.ask(list_offsets(name, -3))


@BOOK.play("as records are deleted", versions="1,5,8")
def _deleted(stage: Stage) -> None:
    """The start moves with each deletion, and no time leads to what is deleted."""
    name = stage.create()
    for first in (0, 10_000, 20_000):
        stage.produce(name, at(first, first + 1000, first + 2000))
    for offset in (1, 5, 9):
        trim(stage, name, offset)
        for each in _STAMPS if stage.version >= 7 else (-1, -2, TIME_MS, TIME_MS + 2000):
            stage.ask(list_offsets(name, each))


@BOOK.play("records without a timestamp", versions="1,7")
def _without(stage: Stage) -> None:
    """Records at time -1 are found by no time, and have no largest timestamp."""
    name = stage.create()
    stage.produce(name, at(-TIME_MS - 1, -TIME_MS - 1))
    for each in (-1, 0, 1) if stage.version < 7 else (-1, -3, 0, 1):
        stage.ask(list_offsets(name, each))
    stage.produce(name, batch(1))
    for each in (0, TIME_MS) if stage.version < 7 else (-3, 0, TIME_MS):
        stage.ask(list_offsets(name, each))
