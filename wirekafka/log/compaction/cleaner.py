"""Compacts sealed segments into new `.cleaned` files; the segments themselves are only read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wirekafka.codec.batch import (
    CRC_COVERS_FROM,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    Buffer,
    read_header,
)
from wirekafka.codec.crc import crc32c
from wirekafka.codec.record import record_bytes
from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.log.compaction.cleaned_segment import CleanedSegment, CleanedSizes
from wirekafka.log.compaction.cleaned_transactions import CleanedTransactions
from wirekafka.log.compaction.cleaner_batches import LastRecord, Retention, keys_in
from wirekafka.log.compaction.offset_map import ENTRY_BYTES, OffsetMap
from wirekafka.log.files import Disk, File
from wirekafka.log.scan import LARGEST_RELATIVE_OFFSET, BadBatch
from wirekafka.log.segment import LOG_SUFFIX, file_name

_READ_BYTES = 1 << 20
_MOST_IN_GROUP = 100
"""The most segments merged into one, so that replacing them does not delay clients."""


class Piece(NamedTuple):
    """A sealed segment to be cleaned: its base offset and the sizes of its files."""

    base_offset: int
    log_bytes: int
    index_bytes: int
    time_index_bytes: int


@dataclass(slots=True, kw_only=True)
class CleaningJob:
    """The input of a cleaning, which can be passed to another process.

    `pieces` are all segments below `end_offset`; records from `first_dirty_offset` on have not
    been cleaned yet.
    """

    directory: str
    pieces: Sequence[Piece]
    first_dirty_offset: int
    end_offset: int
    now_ms: int
    last_records: Mapping[int, LastRecord] = field(default_factory=dict)
    aborted: Sequence[AbortedTransaction] = ()
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    load_factor: float = 0.9
    bytes_per_second: float = float("inf")

    def encode(self) -> str:
        """The job as one line of JSON."""
        values = {name: getattr(self, name) for name in self.__slots__}
        values["last_records"] = [(key, *last) for key, last in self.last_records.items()]
        return json.dumps(values)

    @classmethod
    def decode(cls, line: str | bytes) -> CleaningJob:
        """The inverse of `encode`."""
        values: dict[str, Any] = json.loads(line)
        values["pieces"] = [Piece(*piece) for piece in values["pieces"]]
        values["aborted"] = [AbortedTransaction(*each) for each in values["aborted"]]
        values["last_records"] = {key: LastRecord(*rest) for key, *rest in values["last_records"]}
        return cls(**values)


class Cleaned(NamedTuple):
    """A new segment in synced `.cleaned` files, and the base offsets of the replaced segments."""

    replaced: list[int]
    sizes: CleanedSizes

    @property
    def base_offset(self) -> int:
        return self.replaced[0]


class Cleaner:
    """One cleaning of a log.

    `pace` is called with the number of bytes just read or written, and may block.
    Raises BadBatch, KafkaError for records that cannot be decoded, OSError.
    """

    def __init__(self, disk: Disk, job: CleaningJob, pace: Callable[[int], None] | None = None):
        self._disk = disk
        self._job = job
        self._pace = pace or (lambda size_bytes: None)
        self.cleaned_end_offset = job.first_dirty_offset
        """The offset up to which the log is clean once all groups are replaced."""

    def groups(self) -> Iterator[Cleaned]:
        """Write the new segments, each for a group of neighbouring old segments."""
        job = self._job
        latest = self._latest_offsets()
        retention = Retention(
            latest,
            transactions := CleanedTransactions(job.aborted),
            job.last_records,
            job.now_ms,
            job.delete_retention_ms,
        )
        self.cleaned_end_offset = latest.latest_offset + 1
        for group in self._grouped(self.cleaned_end_offset):
            cleaned = CleanedSegment(
                self._disk, job.directory, group[0].base_offset, job.index_interval_bytes
            )
            try:
                for piece in group:
                    self._clean(piece, cleaned, retention)
                    cleaned.note_aborted(transactions.kept)
                    transactions.kept.clear()
                sizes = cleaned.finish()
            except BaseException:
                cleaned.discard()
                raise
            yield Cleaned([piece.base_offset for piece in group], sizes)

    def _latest_offsets(self) -> OffsetMap:
        """The latest offset of each key in the dirty part, as far as the map has room."""
        job = self._job
        # No more keys than offsets: small logs take little memory.
        needed = int((job.end_offset - job.first_dirty_offset) / job.load_factor) + 16
        latest = OffsetMap(min(job.map_bytes // ENTRY_BYTES, needed), job.load_factor)
        # The markers of earlier ones are not read, so these would seem to stay open.
        transactions = CleanedTransactions(
            each for each in job.aborted if each.last_offset >= job.first_dirty_offset
        )
        for number, piece in enumerate(job.pieces):
            end_offset = self._end_of(number)
            if end_offset <= job.first_dirty_offset:
                continue
            for header, batch in self._batches(piece):
                # The batch in which an earlier cleaning stopped is read again.
                if header.end_offset <= job.first_dirty_offset:
                    continue
                is_data = not transactions.is_obsolete(header, batch) and not header.is_control
                if is_data and header.count:
                    keys = keys_in(record_bytes(batch, header), header.count)
                    if not latest.put_all(keys, header.base_offset):
                        return latest
                latest.latest_offset = max(latest.latest_offset, header.end_offset - 1)
            latest.latest_offset = max(latest.latest_offset, end_offset - 1)
        return latest

    def _grouped(self, end_offset: int) -> Iterator[list[Piece]]:
        """Groups of neighbouring segments that fit into one new segment."""
        job = self._job
        group: list[Piece] = []
        sizes = [0, 0, 0]
        limits = job.segment_bytes, job.segment_index_bytes, job.segment_index_bytes
        for number, piece in enumerate(job.pieces):
            if piece.base_offset >= end_offset:
                break
            sums = [total + more for total, more in zip(sizes, piece[1:], strict=True)]
            if group and (
                any(total > limit for total, limit in zip(sums, limits, strict=True))
                or self._end_of(number) - 1 - group[0].base_offset > LARGEST_RELATIVE_OFFSET
                or len(group) == _MOST_IN_GROUP
            ):
                yield group
                group = []
                sums = list(piece[1:])
            group.append(piece)
            sizes = sums
        if group:
            yield group

    def _clean(self, piece: Piece, cleaned: CleanedSegment, retention: Retention) -> None:
        held: tuple[BatchHeader, Buffer] | None = None
        for header, batch in self._batches(piece):
            if held is not None:
                self._copy(retention.keep(*held, ends_segment=False), cleaned)
            held = header, batch
        if held is not None:
            self._copy(retention.keep(*held, ends_segment=True), cleaned)

    def _copy(self, kept: Buffer | None, cleaned: CleanedSegment) -> None:
        if kept is not None:
            cleaned.append(kept)
            self._pace(len(kept))

    def _end_of(self, number: int) -> int:
        pieces = self._job.pieces
        return pieces[number + 1].base_offset if number + 1 < len(pieces) else self._job.end_offset

    def _batches(self, piece: Piece) -> Iterator[tuple[BatchHeader, Buffer]]:
        path = f"{self._job.directory}/{file_name(piece.base_offset, LOG_SUFFIX)}"
        file = self._disk.open(path, piece.log_bytes)
        try:
            yield from self._checked(file, piece.log_bytes)
        finally:
            file.close()

    def _checked(self, file: File, end: int) -> Iterator[tuple[BatchHeader, Buffer]]:
        window = memoryview(b"")
        start = 0
        position = 0
        while position < end:
            at = position - start
            header = read_header(window, at) if at + HEADER_BYTES <= len(window) else None
            if header is None or at + header.size_bytes > len(window):
                wanted_bytes = max(_READ_BYTES, 0 if header is None else header.size_bytes)
                window = memoryview(file.pread(min(wanted_bytes, end - position), position))
                start, at = position, 0
                self._pace(len(window))
                if len(window) < HEADER_BYTES:
                    raise BadBatch(position, "incomplete batch header")
                header = read_header(window)
                if header.magic == MAGIC and len(window) < header.size_bytes <= end - position:
                    continue
            size_bytes = header.size_bytes
            batch = window[at : at + size_bytes]
            if header.magic != MAGIC or not HEADER_BYTES <= size_bytes == len(batch):
                raise BadBatch(position, "no batch")
            if crc32c(batch[CRC_COVERS_FROM:]) != header.crc:
                raise BadBatch(position, "checksum mismatch")
            yield header, batch
            position += size_bytes
