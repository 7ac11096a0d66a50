"""The table of a topic written by many processes, and committed by a single process.

Each process translates parts of the log to files (`PartTranslator.translated`), as the worker of a
broker does. One commits them in the order of the log (`PartTranslator.commit`), with the same marks
as the worker, which then goes on where the backfill ends. If both work at the same time, the slower
one notices by the marks: no record is there twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa

from wirekafka.reader import OffsetRange, Split
from wirekafka.tables.iceberg.appended_files import AppendedFiles
from wirekafka.tables.iceberg.data_files import WrittenFiles, write_rows
from wirekafka.tables.iceberg.marks import Marks
from wirekafka.translation.chunk import RecordChunk, read_chunk
from wirekafka.translation.history import epoch_at
from wirekafka.translation.settings import TableWrite
from wirekafka.translation.translator import TopicTranslator


@dataclass(frozen=True, slots=True)
class TranslatedPart:
    """Files with the rows of a part of a partition, in no snapshot yet; it can be pickled."""

    partition: int
    start_offset: int
    end_offset: int
    rows: int
    written: WrittenFiles
    dead: Sequence[pa.Table] = field(default_factory=tuple)
    """Records that are dead letters."""


class PartTranslator(TopicTranslator):
    """Translates parts of a topic to files, and commits such files of any process."""

    def splits(self, target_bytes: int) -> list[Split]:
        """The parts of the log that the table lacks, partition by partition."""
        marks, reader = self.open(), self._files.reader
        found: list[Split] = []
        for partition in reader.partitions(self.topic):
            start_offset, end_offset = reader.offsets(self.topic, partition)
            start_offset = marks.ends.get(partition, start_offset)
            found += reader.splits(
                self.topic, partition, start_offset, end_offset, target_bytes=target_bytes
            )
        return found

    def translated(self, split: Split) -> TranslatedPart:
        """Write the files of a part. The table gets the columns of its schemas before."""
        assert self.settings.write is TableWrite.APPEND, "an upsert needs the rows of all parts"
        if self._table is None:
            self.open()
        assert self._table is not None
        wanted = OffsetRange(split.start_offset, split.end_offset)
        chunk = read_chunk(
            self._files.reader,
            self.topic,
            {split.partition: wanted},
            limit_rows=split.end_offset - split.start_offset + 1,
            limit_bytes=1 << 62,
        )
        rows = self._rows(chunk)
        table = self._table.table
        written = write_rows(table, rows.table, table.schema())
        return TranslatedPart(
            split.partition, *wanted, rows.table.num_rows, written, tuple(rows.dead)
        )

    def _settled_rows(self, partition: int, batch: pa.RecordBatch) -> int | None:
        return None  # There is no later turn, and the records are old.

    def commit(self, parts: Sequence[TranslatedPart]) -> Marks:
        """Commit parts that follow the marks and one another, dead letters first.

        Raises MarksMoved, and deletes the files, if somebody else has committed meanwhile.
        """
        assert self._table is not None
        added = _joined(parts)
        epochs = {
            partition: epoch_at(self._files.epochs(self.topic, partition), end_offset - 1)
            for partition, (_, end_offset) in added.items()
        }
        dead = [table for part in parts for table in part.dead]
        self._add_dead_letters(dead, RecordChunk(added=added), epochs)
        files = AppendedFiles([part.written for part in parts])
        self.marks = self._table.commit(files, added, epochs)
        return self.marks


def _joined(parts: Iterable[TranslatedPart]) -> dict[int, OffsetRange]:
    """The range of each partition that its parts make together."""
    by_partition: dict[int, list[TranslatedPart]] = defaultdict(list)
    for part in parts:
        by_partition[part.partition].append(part)
    joined = {}
    for partition, found in by_partition.items():
        for part, following in pairwise(found):
            assert part.end_offset == following.start_offset, "parts are not in the log's order"
        joined[partition] = OffsetRange(found[0].start_offset, found[-1].end_offset)
    return joined
