"""A chunk: the next records of some partitions of one topic, as many as one commit shall have."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

import pyarrow as pa

from wirekafka.reader import DataLost, LogReader, OffsetRange, Split
from wirekafka.translation.columns import READ_COLUMNS

_BATCH_ROWS = 1 << 16


@dataclass(slots=True)
class RecordChunk:
    """Record batches with `columns.READ_COLUMNS`, partition by partition, by offset."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    added: dict[int, OffsetRange] = field(default_factory=dict)
    """The range of each partition that was read; it may have no records."""
    lost: dict[int, OffsetRange] = field(default_factory=dict)
    """Offsets that were deleted before they were read."""
    size_bytes: int = 0
    rows: int = 0
    is_cut: bool = False
    """Whether some records are left to a later chunk."""

    def end_at(self, partition: int, end_offset: int) -> None:
        """Leave what follows in a partition to a later chunk, and the partition if that is all."""
        self.is_cut = True
        start_offset = self.added[partition].start_offset
        if start_offset < end_offset:
            self.added[partition] = OffsetRange(start_offset, end_offset)
        else:
            del self.added[partition]


def read_chunk(
    reader: LogReader,
    topic: str,
    ranges: Mapping[int, OffsetRange],
    *,
    limit_rows: int,
    limit_bytes: int,
) -> RecordChunk:
    """The first records of ranges, of each partition its share of the limits.

    A share may be exceeded by one record batch of the reader. If the limits are reached by that,
    the last ranges have their turn with a later chunk. Raises ReaderError for anything but records
    that retention has deleted.
    """
    chunk = RecordChunk()
    share = max(len(ranges), 1)
    for partition, wanted in ranges.items():
        if chunk.rows >= limit_rows or chunk.size_bytes >= limit_bytes:
            break
        _read(chunk, reader, topic, partition, wanted, limit_rows // share, limit_bytes // share)
    chunk.batches.sort(key=lambda batch: batch.column("partition")[0].as_py())
    return chunk


def _read(
    chunk: RecordChunk,
    reader: LogReader,
    topic: str,
    partition: int,
    wanted: OffsetRange,
    limit_rows: int,
    limit_bytes: int,
) -> None:
    offset, end_offset = wanted
    rows = size_bytes = 0
    while offset < end_offset:
        split = Split(topic, partition, offset, end_offset)
        try:
            with closing(_batches(reader, split, max(limit_rows, 1))) as batches:
                for batch in batches:
                    chunk.batches.append(batch)
                    rows += batch.num_rows
                    size_bytes += batch.nbytes
                    offset = batch.column("offset")[-1].as_py() + 1
                    if rows >= limit_rows or size_bytes >= limit_bytes:
                        break
                else:
                    offset = end_offset
            break
        except DataLost as lost:
            if lost.end_offset <= offset:
                raise
            first = chunk.lost.get(partition, OffsetRange(offset, offset)).start_offset
            offset = min(lost.end_offset, end_offset)
            chunk.lost[partition] = OffsetRange(first, offset)
    chunk.added[partition] = OffsetRange(wanted.start_offset, offset)
    chunk.rows += rows
    chunk.size_bytes += size_bytes


def _batches(reader: LogReader, split: Split, limit_rows: int) -> Generator[pa.RecordBatch]:
    yield from reader.read(split, columns=READ_COLUMNS, max_rows=min(_BATCH_ROWS, limit_rows))
