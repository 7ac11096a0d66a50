"""The translation of one topic: its next records become rows of its table, in one commit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyiceberg.catalog import Catalog

from wirekafka.client.schema_registry import SchemaRegistry
from wirekafka.config.table_mode import TableKind
from wirekafka.reader import OffsetRange, ReaderError
from wirekafka.tables.iceberg.data_files import without_partition
from wirekafka.tables.iceberg.layout import (
    DEAD_LETTER_COLUMNS,
    DEFAULT_PARTITION_SPEC,
    KEY_VALUE_COLUMNS,
    RECORD_COLUMN,
    dead_letter_table,
    typed_columns,
)
from wirekafka.tables.iceberg.marks import Marks
from wirekafka.tables.iceberg.problems import (
    BadEvolution,
    BadSpec,
    CatalogProblem,
    MarksMoved,
    TableGone,
    TooManyParts,
    WrongTable,
)
from wirekafka.tables.iceberg.topic_table import TopicTable
from wirekafka.tables.typed.values import TypedValues
from wirekafka.translation.chunk import RecordChunk, read_chunk
from wirekafka.translation.drops import mark_deletion
from wirekafka.translation.groups import GroupedValues
from wirekafka.translation.history import divergence, epoch_at
from wirekafka.translation.messages import LeaderRange
from wirekafka.translation.problems import TablePaused, TableRetrying
from wirekafka.translation.rebuild import settle_dead_letters
from wirekafka.translation.rows import TranslatedRows
from wirekafka.translation.schemas import schemas_of
from wirekafka.translation.settings import InvalidAction, TableSettings, TableWrite
from wirekafka.translation.settled_records import SettledRecords
from wirekafka.translation.topic_files import TopicFiles
from wirekafka.translation.typed_rows import DecodedPart, aligned

logger = logging.getLogger(__name__)

_CHUNK_ROWS = 1 << 19
_CHUNK_BYTES = 64 << 20
"""How much one commit adds: its rows are in memory a few times."""
_UNKNOWN_FOR_S = 30.0
"""An id that the registry did not know for so long is of no schema."""
_CUT_ROWS = 1 << 11
"""So many records are read at least where the schemas of further ones must be awaited."""
_NO_KEY = "the record has no key, by which its row could be replaced"


@dataclass(frozen=True, slots=True)
class Progress:
    """What one commit added; nothing if there was nothing to add."""

    rows: int = 0
    dead_letters: int = 0
    size_bytes: int = 0
    """Of the records, as Arrow has them."""
    has_more: bool = False
    """Whether the limits of a commit left some records."""


class _DecodedBatch(NamedTuple):
    """The records of a batch, their values, and by index why a record has none."""

    batch: pa.RecordBatch
    parts: Sequence[DecodedPart] = ()
    failures: Mapping[int, str] = {}


class TopicTranslator:
    """Adds a topic's records to its table. Raises TablePaused and TableRetrying.

    Any number of translators may work on a table at the same time, in any processes: a commit whose
    ranges do not begin at the table's marks adds nothing.
    """

    def __init__(
        self,
        topic: str,
        topic_id: str,
        settings: TableSettings,
        *,
        files: TopicFiles,
        catalog: Catalog,
        namespace: str,
        registry: SchemaRegistry | None,
        deletion_mark: str | None = None,
        unknown_for_s: float = _UNKNOWN_FOR_S,
        now_s: Callable[[], float] = time.monotonic,
    ):
        """`deletion_mark` is for a table that goes with its topic.

        Records wait for `unknown_for_s` seconds for a schema that the registry does not know.
        """
        self.topic = topic
        self.topic_id = topic_id
        self.settings = settings
        self.marks = Marks(topic_id)
        """Up to where the table has the topic, as far as is known."""
        self._files = files
        self._catalog = catalog
        self._namespace = namespace
        self._deletion_mark = deletion_mark
        self._schemas = schemas_of(topic, settings.mode, registry, now_s)
        self._table: TopicTable | None = None
        self._dead_letter_table: TopicTable | None = None
        self._adoptions: WeakKeyDictionary[TypedValues, str | None] = WeakKeyDictionary()
        """The schemas whose columns the table has, or why it cannot have them."""
        self._now_s = now_s
        self._settled = SettledRecords(unknown_for_s)
        self._limit_rows = _CHUNK_ROWS
        """How many records a commit has: fewer where these are in many partitions of the table."""
        self._last_partition = -1
        """The partition of the topic that was read last."""
        self._checked: set[tuple[int, int]] = set()
        """Partitions and leader epochs whose log was compared with the marks."""

    @property
    def tables(self) -> list[TopicTable]:
        """The table and the table of the dead letters, if they are open."""
        return [each for each in (self._table, self._dead_letter_table) if each is not None]

    def open(self) -> Marks:
        """Open the table, or create it, and read its marks."""
        with _table_problems():
            if self._table is None:
                is_key_value = self.settings.mode.kind is TableKind.KEY_VALUE
                columns = KEY_VALUE_COLUMNS if is_key_value else typed_columns(pa.struct([]))
                table = TopicTable.open(
                    self._catalog,
                    (self._namespace, self.topic),
                    self.topic_id,
                    columns,
                    self.settings.partition_spec,
                )
                if is_key_value:
                    # An older mode may have left other columns. No later schema brings more.
                    table.evolve(KEY_VALUE_COLUMNS)
                    table.check_spec()
                settle_dead_letters(table)
                mark_deletion(table, self._deletion_mark)
                self._table = table
            self.marks = self._table.refresh()
        return self.marks

    def check(self) -> None:
        """Read the marks again; a table that is gone is created anew."""
        with _table_problems():
            try:
                self.open()
            except TableRetrying as problem:
                if not isinstance(problem.__cause__, TableGone):
                    raise
                self._reopen()

    def _reopen(self) -> None:
        """Open what has taken the place of a table that is gone, or create it."""
        logger.warning("The table of %s is gone: it is written again from the log", self.topic)
        self._table = self._dead_letter_table = None
        self._adoptions.clear()
        self.open()

    def translate(self, partitions: Mapping[int, LeaderRange]) -> Progress:
        """Commit the next records of partitions that are led here."""
        if self._table is None:
            self.open()
        now_s = self._now_s()
        for partition, log in partitions.items():
            self._settled.observe(partition, log.end_offset, now_s)
        try:
            ranges = self._untranslated(partitions)
        except TablePaused:
            self.check()  # The table may have been set aside.
            ranges = self._untranslated(partitions)
        if not ranges:
            return Progress()
        with _table_problems():
            chunk = read_chunk(
                self._files.reader,
                self.topic,
                ranges,
                limit_rows=self._limit_rows,
                limit_bytes=_CHUNK_BYTES,
            )
            return self._commit(chunk, ranges)

    def _untranslated(self, partitions: Mapping[int, LeaderRange]) -> dict[int, OffsetRange]:
        """What follows the marks in each partition, beginning after the last read partition."""
        ranges = {}
        for partition, log in sorted(partitions.items()):
            start_offset = self.marks.ends.get(partition, log.start_offset)
            self._check_history(partition, log)
            if start_offset < log.end_offset:
                ranges[partition] = OffsetRange(start_offset, log.end_offset)
        return dict(sorted(ranges.items(), key=lambda each: each[0] <= self._last_partition))

    def _check_history(self, partition: int, log: LeaderRange) -> None:
        """Whether the table's rows are of this log: once for each leader epoch."""
        end_offset = self.marks.ends.get(partition)
        if end_offset is None or (partition, log.leader_epoch) in self._checked:
            return
        epochs = self._files.epochs(self.topic, partition)
        at = divergence(epochs, log.start_offset, end_offset, self.marks.epochs[partition])
        if at is not None:
            raise TablePaused(
                f"the table has records of partition {partition} up to offset {end_offset}, but"
                f" the log has others from offset {at} on: it was truncated or restored; `wirekafka"
                f" tables rebuild {self.topic}` writes the table again"
            )
        if end_offset > log.end_offset:
            raise TableRetrying(
                f"the table has records of partition {partition} up to offset {end_offset}, but"
                f" the log's committed records end at {log.end_offset}"
            )
        self._checked.add((partition, log.leader_epoch))

    def _commit(self, chunk: RecordChunk, wanted: Mapping[int, OffsetRange]) -> Progress:
        for partition, lost in chunk.lost.items():
            logger.warning(
                "%s-%d: the log no longer has offsets %d up to %d, which the table lacks",
                *(self.topic, partition, *lost),
            )
        if self._schemas is not None:
            self._schemas.begin_turn()
        try:
            rows = self._rows(chunk)
            epochs = {
                partition: epoch_at(self._files.epochs(self.topic, partition), end_offset - 1)
                for partition, (_, end_offset) in chunk.added.items()
            }
            dead_count = self._add_dead_letters(rows.dead, chunk, epochs)
            self.marks = self._write(rows, chunk.added, epochs)
        except TooManyParts:
            self._limit_rows = max(min(self._limit_rows, chunk.rows) // 2, 1)
            return Progress(has_more=True)
        except MarksMoved:
            # Another worker was faster, or an earlier commit succeeded after all.
            self.check()
            return Progress(has_more=True)
        except TableGone:
            self._reopen()
            return Progress(has_more=True)
        if chunk.is_cut:
            # What is read in vain for many turns would cost more than what is committed.
            self._limit_rows = max(rows.table.num_rows + dead_count, _CUT_ROWS)
        self._limit_rows = min(2 * self._limit_rows, _CHUNK_ROWS)
        self._last_partition = list(chunk.added)[-1]
        return Progress(
            rows=rows.table.num_rows,
            dead_letters=dead_count,
            size_bytes=chunk.size_bytes,
            has_more=any(
                partition not in chunk.added or chunk.added[partition].end_offset < end_offset
                for partition, (_, end_offset) in wanted.items()
            ),
        )

    def _write(
        self, rows: TranslatedRows, added: Mapping[int, OffsetRange], epochs: Mapping[int, int]
    ) -> Marks:
        assert self._table is not None
        if self.settings.write is TableWrite.APPEND:
            return self._table.append(rows.table, added, epochs)
        from wirekafka.tables.iceberg.upsert import upsert

        return upsert(self._table, rows.table, rows.tombstones, added, epochs)

    def _rows(self, chunk: RecordChunk) -> TranslatedRows:
        """The rows of a chunk. The table has their columns then."""
        assert self._table is not None
        decoded = self._all_decoded(chunk)
        columns = self._table.arrow_type
        value_type = pa.struct([field for field in columns if field.name != RECORD_COLUMN])
        translated = TranslatedRows.none_of(columns)
        for batch, parts, failures in decoded:
            if self._schemas is None:
                values = _raw_values(batch, value_type)
            else:
                rows = aligned(parts, batch.num_rows, value_type, self._table.renames)
                values = rows.flatten()
            if self.settings.write is TableWrite.UPSERT:
                failures = {**dict.fromkeys(_keyless(batch), _NO_KEY), **failures}
            misplaced = without_partition(
                self._table.table.metadata, pa.table(values, names=value_type.names)
            )
            translated.add(batch, values, {**misplaced, **failures})
        return translated

    def _all_decoded(self, chunk: RecordChunk) -> list[_DecodedBatch]:
        """The batches of a chunk, which ends ahead of the records whose schemas must be awaited.

        Raises TableRetrying if all must. Partitions take turns: the look-ups of a turn are limited.
        """
        if self._schemas is None:
            return [_DecodedBatch(batch) for batch in chunk.batches]
        order = {partition: at for at, partition in enumerate(chunk.added)}
        partitions = [batch.column("partition")[0].as_py() for batch in chunk.batches]
        decoded: dict[int, _DecodedBatch] = {}
        waiting: dict[int, str | None] = {}
        for at in sorted(range(len(partitions)), key=lambda at: order[partitions[at]]):
            partition, batch = partitions[at], chunk.batches[at]
            if partition in waiting:
                continue
            settled_rows = self._settled.rows(partition, batch)
            grouped = self._schemas.grouped(batch, settled_rows)
            if grouped.waiting:
                first = min(grouped.waiting)
                waiting[partition] = grouped.waiting[first]
                chunk.end_at(partition, batch.column("offset")[first].as_py())
                batch = batch.slice(0, first)
                grouped = self._schemas.grouped(batch, None)
            decoded[at] = self._decoded(batch, grouped)
        if waiting and not chunk.added:
            reason = next(filter(None, waiting.values()), "the registry is slow")
            raise TableRetrying(f"{reason}: it is awaited for {_UNKNOWN_FOR_S:.0f} s")
        return [each for _, each in sorted(decoded.items())]

    def _decoded(self, batch: pa.RecordBatch, grouped: GroupedValues) -> _DecodedBatch:
        """The values of a batch, and why some have none. The table gets their columns."""
        parts, failures = [], dict(grouped.failures)
        for group in grouped.groups:
            reason = self._adopted(group.values)
            if reason is not None:
                failures.update(dict.fromkeys(group.indexes, reason))
                continue
            values = group.values.decode(group.payloads)
            failures.update((group.indexes[at], why) for at, why in values.failures.items())
            parts.append(DecodedPart(group.indexes, values.rows))
        return _DecodedBatch(batch, parts, failures)

    def _adopted(self, values: TypedValues) -> str | None:
        """Give the table the columns of a schema; returns why it cannot have them."""
        assert self._table is not None
        if values not in self._adoptions:
            reason = None
            try:
                self._table.evolve(typed_columns(values.type), values.renames)
            except (BadEvolution, ValueError) as error:
                reason = f"its schema does not fit the table: {error}"
            self._adoptions[values] = reason
        return self._adoptions[values]

    def _add_dead_letters(
        self, dead: list[pa.Table], chunk: RecordChunk, epochs: Mapping[int, int]
    ) -> int:
        """Commit dead letters, before the rows: again after a crash between both, but once."""
        if not dead or self.settings.invalid_action is InvalidAction.DROP:
            return sum(table.num_rows for table in dead)
        if self._dead_letter_table is None:
            self._dead_letter_table = TopicTable.open(
                self._catalog,
                (self._namespace, dead_letter_table(self.topic)),
                self.topic_id,
                DEAD_LETTER_COLUMNS,
                DEFAULT_PARTITION_SPEC,
            )
            assert self._table is not None
            settle_dead_letters(self._table)
        ends = self._dead_letter_table.refresh().ends
        rows = pa.concat_tables(dead)
        added = {}
        for partition, (start_offset, end_offset) in chunk.added.items():
            start_offset = ends.get(partition, start_offset)
            if start_offset < end_offset:
                added[partition] = OffsetRange(start_offset, end_offset)
        rows = _within(rows, added)
        if rows.num_rows:
            of_added = {partition: epochs[partition] for partition in added}
            self._dead_letter_table.append(rows, added, of_added)
        return int(rows.num_rows)


def _raw_values(batch: pa.RecordBatch, type: pa.StructType) -> list[pa.Array]:
    """The values of a batch as bytes; null in the columns that an earlier mode of the topic had."""
    return [
        batch.column("value") if field.name == "value" else pa.nulls(batch.num_rows, field.type)
        for field in type
    ]


def _keyless(batch: pa.RecordBatch) -> list[int]:
    """The indexes of the records without a key."""
    (indexes,) = batch.column("key").is_null().to_numpy(zero_copy_only=False).nonzero()
    return [int(index) for index in indexes]


def _within(rows: pa.Table, ranges: Mapping[int, OffsetRange]) -> pa.Table:
    """The rows whose offsets are in the ranges of their partitions."""
    record = rows.column(RECORD_COLUMN).combine_chunks()
    places = zip(
        record.field("partition").to_pylist(), record.field("offset").to_pylist(), strict=True
    )
    return rows.filter(
        pa.array(
            [
                partition in ranges
                and ranges[partition].start_offset <= offset < ranges[partition].end_offset
                for partition, offset in places
            ],
            pa.bool_(),
        )
    )


@contextmanager
def _table_problems() -> Iterator[None]:
    try:
        yield
    except TableGone as error:
        raise TableRetrying(str(error)) from error
    except (WrongTable, BadSpec, BadEvolution) as error:
        raise TablePaused(str(error)) from error
    except (CatalogProblem, ReaderError) as error:
        raise TableRetrying(str(error)) from error
