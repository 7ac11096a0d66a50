"""Finds violations of Kafka's guarantees in a history; after Jepsen's checker for Kafka."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from tests.histories.history import (
    Drained,
    History,
    OffsetCommit,
    OffsetFetch,
    Operation,
    Place,
    Read,
    Send,
    Verdict,
)


class Kind(Enum):
    """The kinds of violations."""

    DUPLICATE = "one write at two offsets"
    INCONSISTENT_OFFSETS = "two values at one offset"
    LOST_WRITE = "an acknowledged write is not there, though what follows it is"
    UNSEEN = "an acknowledged write is beyond what can be read in the end"
    ABORTED_READ = "a read_committed reader saw what was aborted (G1a)"
    UNCOMMITTED_READ = "a read_committed reader saw a write before its commit was asked for"
    UNWRITTEN_READ = "a value that nobody wrote there"
    NON_MONOTONIC_READ = "a consumer went back without a seek or an assignment"
    NON_MONOTONIC_SEND = "a producer's later write is before its earlier one"
    POLL_SKIP = "a consumer left out a record that it should have seen"
    TORN_TRANSACTION = "some writes of a transaction are visible and others are not"
    CYCLE = "transactions that each read from the next (G1c)"
    LOST_OFFSETS = "a group's position is not the last one committed"
    ABORTED_OFFSETS = "a group's position is one that was aborted"


class Violation(NamedTuple):
    """One violation, with a description."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind.name} ({self.kind.value}): {self.text}"


def check(history: History) -> list[Violation]:
    """All violations of a history."""
    index = _Index(history)
    checks = (
        _offsets,
        _values_read,
        _final_writes,
        _monotonic_sends,
        _reader_progress,
        _torn,
        _cycles,
        _group_offsets,
    )
    return [violation for each in checks for violation in each(index)]


class _Index:
    def __init__(self, history: History):
        self.history = history
        self.writers: dict[tuple[Place, int], tuple[Operation, Send]] = {
            (send.place, send.value): (operation, send) for operation, send in history.sends()
        }
        self.visible = {
            place: dict(reversed(pair) for pair in drained.committed)
            for place, drained in history.drained.items()
        }

    def records_read(self) -> Iterator[tuple[Place, int, int]]:
        for _, read in self.history.reads():
            yield from read.records
        for place, drained in self.history.drained.items():
            for offset, value in (*drained.committed, *drained.uncommitted):
                yield place, offset, value


def _offsets(index: _Index) -> Iterator[Violation]:
    """Each value has one offset, and each offset one value."""
    values: dict[tuple[Place, int], set[int]] = defaultdict(set)
    offsets: dict[tuple[Place, int], set[int]] = defaultdict(set)
    for place, offset, value in index.records_read():
        values[place, offset].add(value)
        offsets[place, value].add(offset)
    for _, send in index.history.sends():
        if send.offset is not None:
            values[send.place, send.offset].add(send.value)
            offsets[send.place, send.value].add(send.offset)
    for (place, offset), found in values.items():
        if len(found) > 1:
            yield Violation(Kind.INCONSISTENT_OFFSETS, f"{sorted(found)} at {place} {offset}")
    for (place, value), at in offsets.items():
        if len(at) > 1:
            yield Violation(Kind.DUPLICATE, f"{value} of {place} at {sorted(at)}")


def _values_read(index: _Index) -> Iterator[Violation]:
    """Values that were read were written, and not in an aborted transaction."""
    for operation, read in index.history.reads():
        for record in read.records:
            yield from _value_read(index, f"{operation.process} at {operation.began}", read, record)
    for place, drained in index.history.drained.items():
        for committed, pairs in ((True, drained.committed), (False, drained.uncommitted)):
            read = Read(committed, [], ended=index.history.tick())
            for offset, value in pairs:
                yield from _value_read(index, "the last reader", read, (place, offset, value))


def _value_read(
    index: _Index, reader: str, read: Read, record: tuple[Place, int, int]
) -> Iterator[Violation]:
    place, offset, value = record
    written = index.writers.get((place, value))
    what = f"{reader} read {value} of {place} at {offset}"
    if written is None:
        yield Violation(Kind.UNWRITTEN_READ, what)
        return
    writer, _ = written
    if not writer.is_transaction:
        if writer.verdict is Verdict.UNDONE:
            yield Violation(Kind.ABORTED_READ, f"{what}; it was refused")
    elif read.committed and (writer.verdict is Verdict.UNDONE or writer.decided is None):
        yield Violation(Kind.ABORTED_READ, f"{what}; {writer.process} never committed it")
    elif read.committed and writer.decided is not None and read.ended < writer.decided:
        yield Violation(
            Kind.UNCOMMITTED_READ,
            f"{what} at {read.ended}; its commit was asked for at {writer.decided}",
        )


def _final_writes(index: _Index) -> Iterator[Violation]:
    """Every acknowledged write can be read in the end."""
    for operation, send in index.history.sends():
        if operation.verdict is not Verdict.DONE:
            continue
        drained = index.history.drained.get(send.place)
        if drained is None or send.value in index.visible[send.place]:
            continue
        what = f"{operation.process}: {send.value} of {send.place} at {send.offset}"
        if send.offset is not None and send.offset >= drained.end_offset:
            yield Violation(Kind.UNSEEN, f"{what}; reading ended at {drained.end_offset}")
        else:
            yield Violation(Kind.LOST_WRITE, what)


def _monotonic_sends(index: _Index) -> Iterator[Violation]:
    """A producer's writes to a partition are in the order in which it sent them."""
    last: dict[tuple[str, Place], int] = {}
    for operation, send in index.history.sends():
        if send.offset is None:
            continue
        key = operation.process, send.place
        if send.offset < last.get(key, -1):
            yield Violation(
                Kind.NON_MONOTONIC_SEND,
                f"{operation.process}: {send.value} of {send.place} at {send.offset},"
                f" after one at {last[key]}",
            )
        last[key] = send.offset


def _reader_progress(index: _Index) -> Iterator[Violation]:
    """Readers only move forward, and skip no record."""
    known = {
        place: (_offsets_of(drained.committed), _offsets_of(drained.uncommitted))
        for place, drained in index.history.drained.items()
    }
    positions: dict[str, dict[Place, int]] = defaultdict(dict)
    for operation, read in index.history.reads():
        if read.is_fresh:
            positions[operation.process].clear()
        position = positions[operation.process]
        for place, offset, value in read.records:
            last = position.get(place)
            position[place] = offset
            if last is None:
                continue
            what = f"{operation.process} at {operation.began}: {value} of {place} at {offset}"
            if offset <= last:
                yield Violation(Kind.NON_MONOTONIC_READ, f"{what}, after {last}")
            elif place in known:
                there = known[place][0 if read.committed else 1]
                missed = there[bisect_right(there, last) : bisect_left(there, offset)]
                if missed:
                    yield Violation(Kind.POLL_SKIP, f"{what}, after {last}, without {missed}")


def _offsets_of(pairs: list[tuple[int, int]]) -> list[int]:
    return sorted(offset for offset, _ in pairs)


def _torn(index: _Index) -> Iterator[Violation]:
    """Transactions are atomic, including those whose outcome no client knows."""
    for operation in index.history.operations:
        if not operation.is_transaction:
            continue
        # Unacknowledged records may be missing even if the transaction was committed.
        written = [
            send
            for send in operation.sends()
            if send.offset is not None and send.place in index.visible
        ]
        seen = [send for send in written if send.value in index.visible[send.place]]
        if seen and len(seen) < len(written):
            missing = [send.value for send in written if send not in seen]
            yield Violation(
                Kind.TORN_TRANSACTION,
                f"{operation.process} at {operation.began}: {missing} missing,"
                f" {[send.value for send in seen]} there",
            )


def _cycles(index: _Index) -> Iterator[Violation]:
    """The order of transactions by their reads of each other has no cycle."""
    graph: dict[int, set[int]] = {}
    for operation in index.history.operations:
        if operation.verdict is Verdict.UNDONE:
            continue
        for read in operation.reads():
            for place, _, value in read.records if read.committed else ():
                writer = index.writers.get((place, value), (operation, None))[0]
                if writer is not operation:
                    graph.setdefault(operation.began, set()).add(writer.began)
                elif (place, value) in index.writers:
                    yield Violation(
                        Kind.UNCOMMITTED_READ,
                        f"{operation.process} read its own {value} of {place}",
                    )
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield Violation(Kind.CYCLE, f"operations that began at {error.args[1]}")


class _Moment(NamedTuple):
    """When a position of a group was returned, and its value."""

    began: int
    ended: int
    offset: int
    who: str


_Commits = list[tuple[Operation, OffsetCommit]]


def _group_offsets(index: _Index) -> Iterator[Violation]:
    """Fetched positions of groups are those last committed, or possibly committed."""
    history = index.history
    commits: dict[tuple[str, Place], _Commits] = defaultdict(list)
    reported: dict[tuple[str, Place], list[_Moment]] = defaultdict(list)
    for operation in history.operations:
        for step in operation.steps:
            if isinstance(step, OffsetCommit):
                commits[step.group, step.place].append((operation, step))
            elif isinstance(step, OffsetFetch) and operation.verdict is Verdict.DONE:
                reported[step.group, step.place].append(
                    _Moment(operation.began, operation.ended, step.offset, operation.process)
                )
    end = history.tick()
    for key in commits:
        if history.group_offsets:
            reported[key].append(
                _Moment(end, end, history.group_offsets.get(key, -1), "in the end")
            )
        for moment in reported[key]:
            yield from _position_violations(key, commits[key], moment)


def _position_violations(
    key: tuple[str, Place], made: _Commits, moment: _Moment
) -> Iterator[Violation]:
    made = [(operation, commit) for operation, commit in made if operation.began < moment.ended]
    before = [
        operation
        for operation, _ in made
        if operation.verdict is Verdict.DONE and operation.ended < moment.began
    ]
    newest = max((operation.began for operation in before), default=-1)
    possible = {
        commit.offset
        for operation, commit in made
        if operation.verdict is Verdict.UNKNOWN
        or (operation.verdict is Verdict.DONE and operation.ended > newest)
    }
    if not before:
        possible.add(-1)
    if moment.offset in possible:
        return
    was_aborted = any(
        commit.offset == moment.offset and operation.verdict is Verdict.UNDONE
        for operation, commit in made
    )
    yield Violation(
        Kind.ABORTED_OFFSETS if was_aborted else Kind.LOST_OFFSETS,
        f"{moment.who} at {moment.began}: {key} is {moment.offset}, not any of {sorted(possible)}",
    )


class Author(NamedTuple):
    """The transactional id that wrote a value, and the number of the transaction."""

    producer: str
    transaction: int
    has_first_protocol: bool = False
    """As before KIP-890: the epoch stays, and a marker does not say which transaction it ends."""


def check_power_cut(
    place: Place, before: Drained, after: Drained, authors: Mapping[int, Author]
) -> list[Violation]:
    """Without syncing, a power cut may remove a suffix of a log, and nothing else.

    A transaction whose marker was in the suffix may end with the other outcome, as in Kafka:

    - A committed one may be aborted by a timeout.
    - An aborted one may be committed by the marker of a later transaction of its producer, if the
      coordinator's log lost less. With the first protocol the marker may also be of an earlier
      transaction in this partition, if the coordinator's log lost more.

    This needs an offset for the new marker, which may come after records that are still open. It
    is impossible if a later record of the producer was kept, since that follows the first marker.
    The outcome is the same for all records of the transaction.
    """
    violations = []
    if after.uncommitted != before.uncommitted[: len(after.uncommitted)]:
        text = f"a power cut left {after.uncommitted} of {before.uncommitted} in {place}"
        violations.append(Violation(Kind.LOST_WRITE, text))
    was_seen, is_seen = set(before.committed), set(after.committed)
    fates = _Fates(after, authors)
    revived = {
        each for each in is_seen - was_seen if not fates.may_have_been_committed_later(each[1])
    }
    if revived:
        text = f"after a power cut {sorted(revived)} of {place} are there"
        violations.append(Violation(Kind.ABORTED_READ, text))
    hidden = {
        each
        for each in was_seen.intersection(after.uncommitted) - is_seen
        if each[0] < after.end_offset and not fates.may_have_ended_again(each[1])
    }
    if hidden:
        text = f"after a power cut {sorted(hidden)} of {place} are there, but not committed"
        violations.append(Violation(Kind.LOST_WRITE, text))
    for author, left in fates.left.items():
        there = {each for each in left if each[0] < after.end_offset}
        if there & is_seen and there - is_seen:
            text = f"after a power cut {sorted(there & is_seen)} of {place} are there of {author}"
            violations.append(Violation(Kind.TORN_TRANSACTION, text))
    return violations


class _Fates:
    """Which transactions may have ended a second time in a partition, after a power cut."""

    def __init__(self, after: Drained, authors: Mapping[int, Author]):
        self._after = after
        self._authors = authors
        self._last_of_all: dict[str, int] = {}
        for author in authors.values():
            last = max(author.transaction, self._last_of_all.get(author.producer, -1))
            self._last_of_all[author.producer] = last
        self._last_left: dict[str, int] = {}
        self.left: dict[Author, set[tuple[int, int]]] = defaultdict(set)
        """The remaining records of each transaction, committed or not."""
        for offset, value in after.uncommitted:
            if value in authors:
                author = authors[value]
                self._last_left[author.producer] = author.transaction
                self.left[author].add((offset, value))

    def may_have_ended_again(self, value: int) -> bool:
        author = self._authors.get(value)
        return (
            author is not None
            and self._last_left.get(author.producer) == author.transaction
            and self._markers_after(author) > 0
        )

    def may_have_been_committed_later(self, value: int) -> bool:
        if not self.may_have_ended_again(value):
            return False
        author = self._authors[value]
        if author.transaction < self._last_of_all[author.producer]:
            return True
        return author.has_first_protocol and any(
            each.producer == author.producer and each.transaction < author.transaction
            for each in self.left
        )

    def _markers_after(self, author: Author) -> int:
        """The number of offsets without a record after a transaction's records."""
        last = max(offset for offset, _ in self.left[author])
        records = sum(last < offset for offset, _ in self._after.uncommitted)
        return self._after.log_end - last - 1 - records
