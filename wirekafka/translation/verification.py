"""Verification: a topic's table compared with the log, offset by offset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from wirekafka.reader import Split
from wirekafka.tables.iceberg.layout import dead_letter_table
from wirekafka.translation.comparison.log_values import LogValues
from wirekafka.translation.comparison.log_windows import CheckedLog, Window, windows
from wirekafka.translation.comparison.newest_records import NewestRecords, newest_records
from wirekafka.translation.comparison.row_comparison import (
    Flags,
    Offsets,
    Placed,
    RowDifference,
    RowDifferenceKind,
    among,
    repeated,
    unequal,
    whole,
)
from wirekafka.translation.comparison.stored_rows import (
    LARGEST_OFFSET,
    VALUES,
    StoredRows,
    each_range,
)

MOST_KEPT = 20
"""Differences of a kind that are named; the others are counted."""
_POSITIONS = 1 << 22
"""Positions without their rows that are read at a time."""
_NO_OFFSETS = np.empty(0, np.int64)
_FIELDS = ("key", "timestamp", "timestamp_type", "headers", "value")
"""What is compared; the value comes last, as tables with typed columns do not have it."""
_NO_RECORD = "the log has no such committed record"
_MISSING, _TWICE = RowDifferenceKind.MISSING, RowDifferenceKind.TWICE
_CHANGED, _UNEXPECTED = RowDifferenceKind.CHANGED, RowDifferenceKind.UNEXPECTED
_BEYOND, _UNPLACED = RowDifferenceKind.BEYOND_MARKS, RowDifferenceKind.UNPLACED


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a table is said to have: the records of a topic below the marks.

    `is_upsert`: only the newest record of each key. `drops_invalid`: records that cannot be
    decoded are nowhere. `is_compacted`: the log may have lost records that the table has.
    `compares_values`: the table has the value as bytes. `starts`: where partitions begin, as their
    leaders say: files may still have records that were deleted before the table began.
    """

    topic: str
    marks: Mapping[int, int]
    dead_letter_marks: Mapping[int, int] = field(default_factory=dict)
    compares_values: bool = True
    starts: Mapping[int, int] = field(default_factory=dict)
    is_upsert: bool = False
    drops_invalid: bool = False
    is_compacted: bool = False


@dataclass(slots=True)
class PartitionReport:
    """The numbers of one partition."""

    partition: int
    start_offset: int
    end_offset: int
    records: int = 0
    """Records of the log that were compared."""
    rows: int = 0
    """Rows of the table at their positions."""
    dead_letters: int = 0
    rows_below_start: int = 0
    """Rows whose records the log no longer has; they are only counted."""
    compacted_away: int = 0
    """Rows whose records compaction has removed from the log."""
    dropped: int = 0
    """Records that are nowhere, where the topic drops invalid ones."""
    undecoded: int = 0
    """Rows whose values cannot be decoded now, so that only their positions were compared."""


@dataclass(slots=True)
class VerificationReport:
    """What a verification has found."""

    topic: str
    partitions: list[PartitionReport] = field(default_factory=list)
    differences: list[RowDifference] = field(default_factory=list)
    """The first of each kind, in the order of partitions."""
    counts: Counter[RowDifferenceKind] = field(default_factory=Counter)

    @property
    def is_equal(self) -> bool:
        """Whether table and log agree."""
        return not self.counts

    def add(
        self,
        kind: RowDifferenceKind,
        table: str,
        partition: int | None,
        offsets: Sequence[int | None] | Offsets,
        detail: str | Callable[[int], str] = "",
    ) -> None:
        """Count differences of one kind, and keep the first ones.

        `detail` may depend on the index of an offset.
        """
        room = max(MOST_KEPT - self.counts[kind], 0)
        if len(offsets):
            self.counts[kind] += len(offsets)
        for index, offset in enumerate(offsets[:room]):
            place = None if offset is None else int(offset)
            words = detail if isinstance(detail, str) else detail(index)
            self.differences.append(RowDifference(kind, table, partition, place, words))


def verify(
    log: CheckedLog,
    claim: Claim,
    table: StoredRows,
    dead_letters: StoredRows | None = None,
    advance: Callable[[int, int], None] = lambda partition, offset: None,
    values: LogValues | None = None,
) -> VerificationReport:
    """Compare a table and its dead letters with the log. Raises ReaderError and TableRetrying.

    `values` decodes the records of a table with typed columns, whose values are compared then.
    `advance` is called with each partition and the offset that the comparison has reached.
    """
    report = VerificationReport(claim.topic)
    verification = _Verification(log, claim, table, dead_letters, report, values)
    known = set(log.partitions(claim.topic))
    for partition, end_offset in sorted(claim.marks.items()):
        if partition not in known:
            detail = "the log has no such partition"
            report.add(_BEYOND, claim.topic, partition, [end_offset], detail)
            continue
        verification.compare(partition, end_offset, advance)
    verification.find_strangers()
    return report


class _Verification:
    """One comparison, and what it has found so far."""

    def __init__(
        self,
        log: CheckedLog,
        claim: Claim,
        table: StoredRows,
        dead_letters: StoredRows | None,
        report: VerificationReport,
        values: LogValues | None,
    ) -> None:
        self._values = values
        self._log, self._claim, self._report = log, claim, report
        self._table, self._dead_letters = table, dead_letters
        self._topic, self._dead_letter_name = claim.topic, dead_letter_table(claim.topic)

    def compare(self, partition: int, mark: int, advance: Callable[[int, int], None]) -> None:
        """Compare one partition up to its mark."""
        start, log_end = self._log.offsets(self._topic, partition)
        start = max(start, self._claim.starts.get(partition, start))
        end = min(mark, log_end)
        numbers = PartitionReport(partition, min(start, mark), mark)
        self._report.partitions.append(numbers)
        if mark > log_end:
            detail = f"the log ends at {log_end}, the mark is {mark}"
            self._report.add(_BEYOND, self._topic, partition, [mark], detail)
        newest = self._newest(partition, start, end) if self._claim.is_upsert else None
        self._count_below(partition, min(start, mark), newest, numbers)
        has_value = (
            self._claim.compares_values
            or self._dead_letters is not None
            or self._values is not None
        )
        fields = _FIELDS if has_value else _FIELDS[:-1]
        for window in windows(self._log, self._topic, partition, start, end, fields):
            self._compare_window(partition, window, newest, numbers)
            advance(partition, window.end_offset)
        self._find_beyond(partition, mark)

    def find_strangers(self) -> None:
        """Find rows of partitions without marks, and rows without position."""
        marks = {**self._claim.marks, **self._claim.dead_letter_marks}
        for name, rows, known in (
            (self._topic, self._table, self._claim.marks),
            (self._dead_letter_name, self._dead_letters, marks),
        ):
            if rows is None:
                continue
            found = rows.strangers(known)
            for partition in pc.unique(found.column("partition")).to_pylist():
                same = pc.equal(found.column("partition"), partition)
                chosen = same if partition is not None else pc.is_null(found.column("partition"))
                offsets = found.filter(chosen).column("offset").to_pylist()
                self._report.add(_UNPLACED, name, partition, offsets)

    def _newest(self, partition: int, start: int, end: int) -> NewestRecords:
        """The newest records of the keys, dead letters left out."""
        dead = _NO_OFFSETS
        if self._dead_letters is not None:
            dead = Placed.of(self._dead_letters.between(partition, start, end)).offsets
        split = Split(self._topic, partition, start, end)
        return newest_records(self._log.read(split, columns=["offset", "key", "value"]), dead)

    def _count_below(
        self, partition: int, start: int, newest: NewestRecords | None, numbers: PartitionReport
    ) -> None:
        """Count the rows whose records the log no longer has, and find rows that are twice."""
        fields = ["offset"] if newest is None else ["offset", "key"]
        for name, rows in self._tables():
            bounds = rows.offsets_of(partition)
            if bounds is None:
                continue
            for first, end in each_range(bounds.least, min(start, bounds.most + 1), _POSITIONS):
                below = Placed.of(rows.between(partition, first, end, fields))
                numbers.rows_below_start += len(below.offsets)
                twice = repeated(below.offsets)
                self._report.add(_TWICE, name, partition, below.offsets[twice])
                if newest is not None and name == self._topic:
                    older = newest.has_keys(below.rows.column("key"))
                    detail = "the log has a newer record of the key"
                    self._report.add(_UNEXPECTED, name, partition, below.offsets[older], detail)

    def _compare_window(
        self, partition: int, window: Window, newest: NewestRecords | None, numbers: PartitionReport
    ) -> None:
        """Compare the rows of both tables with the records of a window."""
        stored = self._stored(self._topic, self._table, partition, window)
        numbers.records += len(window.log.offsets)
        numbers.rows += len(stored.offsets)
        expected = window.log
        if self._dead_letters is not None:
            dead = self._stored(self._dead_letter_name, self._dead_letters, partition, window)
            numbers.dead_letters += len(dead.offsets)
            self._compare_dead_letters(partition, dead, window, numbers)
            both = among(stored.offsets, dead.offsets)
            detail = "it is a dead letter, too"
            self._report.add(_TWICE, self._topic, partition, stored.offsets[both], detail)
            stored = stored.where(~both)
            expected = expected.where(~among(expected.offsets, dead.offsets))
        if newest is not None:
            expected = expected.where(newest.has_offsets(expected.offsets))
        missing = expected.offsets[~among(expected.offsets, stored.offsets)]
        if self._claim.drops_invalid:
            numbers.dropped += len(missing)
        else:
            self._report.add(_MISSING, self._topic, partition, missing)
        found = among(stored.offsets, expected.offsets)
        self._add_unexpected(partition, stored.offsets[~found], window, numbers)
        fields = _FIELDS if self._claim.compares_values else _FIELDS[:-1]
        placed = stored.where(found)
        self._add_changed(self._topic, partition, placed, expected, fields)
        if self._values is not None:
            self._add_changed_values(self._values, partition, placed, expected, numbers)

    def _compare_dead_letters(
        self, partition: int, dead: Placed, window: Window, numbers: PartitionReport
    ) -> None:
        found = among(dead.offsets, window.log.offsets)
        if self._claim.is_compacted:
            numbers.compacted_away += int((~found).sum())
        else:
            strange = dead.offsets[~found]
            self._report.add(_UNEXPECTED, self._dead_letter_name, partition, strange, _NO_RECORD)
        self._add_changed(self._dead_letter_name, partition, dead.where(found), window.log, _FIELDS)

    def _add_unexpected(
        self, partition: int, offsets: Offsets, window: Window, numbers: PartitionReport
    ) -> None:
        """Rows at offsets that the table should not have."""
        is_record = among(offsets, window.log.offsets)
        if self._claim.is_compacted and not self._claim.is_upsert:
            numbers.compacted_away += int((~is_record).sum())
        else:
            strange = offsets[~is_record]
            self._report.add(_UNEXPECTED, self._topic, partition, strange, _NO_RECORD)
        if not self._claim.drops_invalid:
            # A newer record of the key may have been dropped: the older row stays then.
            older = offsets[is_record]
            detail = "there is a newer record of its key"
            self._report.add(_UNEXPECTED, self._topic, partition, older, detail)

    def _add_changed(
        self, name: str, partition: int, stored: Placed, log: Placed, fields: Sequence[str]
    ) -> None:
        """Rows that differ from the records at their offsets."""
        records = log.where(among(log.offsets, stored.offsets))
        self._note_changed(name, partition, stored, unequal(stored.rows, records.rows, fields))

    def _add_changed_values(
        self,
        values: LogValues,
        partition: int,
        stored: Placed,
        log: Placed,
        numbers: PartitionReport,
    ) -> None:
        """Rows whose typed columns differ from the values at their offsets."""
        records = log.where(among(log.offsets, stored.offsets))
        found, undecoded = values.differences(whole(stored.rows.column(VALUES)), records.rows)
        numbers.undecoded += int(undecoded.sum())
        self._note_changed(self._topic, partition, stored, found)

    def _note_changed(
        self, name: str, partition: int, stored: Placed, found: Mapping[str, Flags]
    ) -> None:
        if not found:
            return
        rows = np.flatnonzero(np.logical_or.reduce(list(found.values())))

        def fields_of(index: int) -> str:
            return ", ".join(name for name, differs in found.items() if differs[rows[index]])

        self._report.add(_CHANGED, name, partition, stored.offsets[rows], fields_of)

    def _find_beyond(self, partition: int, mark: int) -> None:
        """Find rows at offsets that no commit has announced."""
        ahead = max(mark, self._claim.dead_letter_marks.get(partition, mark))
        for name, rows in self._tables():
            # Dead letters are committed first: they may be ahead of the table.
            end = mark if name == self._topic else ahead
            beyond = Placed.of(rows.between(partition, end, LARGEST_OFFSET)).offsets
            self._report.add(_BEYOND, name, partition, beyond, f"the mark is {end}")

    def _stored(self, name: str, rows: StoredRows, partition: int, window: Window) -> Placed:
        """The rows of a table in a window, each offset once."""
        fields: Sequence[str] = _FIELDS
        if name == self._topic and not self._claim.compares_values:
            fields = _FIELDS[:-1]
        if name == self._topic and self._values is not None:
            fields = (*_FIELDS[:-1], VALUES)
        within = (partition, window.start_offset, window.end_offset)
        found = Placed.of(rows.between(*within, ["offset", *fields]))
        twice = repeated(found.offsets)
        self._report.add(_TWICE, name, partition, found.offsets[twice])
        return found.where(~twice)

    def _tables(self) -> Iterator[tuple[str, StoredRows]]:
        yield self._topic, self._table
        if self._dead_letters is not None:
            yield self._dead_letter_name, self._dead_letters
