"""Reads a log file batch by batch, headers only or verifying every checksum."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

from wirekafka.codec.batch import (
    CONTROL_BIT,
    CRC_COVERS_FROM,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    read_header,
)
from wirekafka.codec.crc import crc32c
from wirekafka.log.files import File

LARGEST_RELATIVE_OFFSET = 0x7FFFFFFF

REMEMBERED_BATCHES = 5
"""Batches remembered of each producer: duplicates among so many in flight are recognized."""

_NOTED = Struct(">qiibIhi8xqq")
"""The header fields that `notable` reads: base offset, length, leader epoch, magic, CRC,
attributes, last offset delta, largest timestamp, producer id."""
_IN_TRANSACTION = TRANSACTIONAL_BIT | CONTROL_BIT

_HEADERS_READ_BYTES = 8192
_CHECK_READ_BYTES = 1 << 20
_SMALLEST_LENGTH = HEADER_BYTES - 12


class BadBatch(Exception):
    """The bytes at a position are no valid batch, or a batch whose offsets are impossible there."""

    def __init__(self, position: int, reason: str):
        super().__init__(f"{reason} at position {position}")
        self.position = position
        self.reason = reason


def headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch from a batch boundary up to the position `end`.

    Raises BadBatch where the framing breaks, OSError.
    """
    window = b""
    start = position
    while position < end:
        at = position - start
        if at + HEADER_BYTES > len(window):
            window = file.pread(min(_HEADERS_READ_BYTES, end - position), position)
            start, at = position, 0
        header = _framed(window, at, position, end)
        yield position, header
        position += header.length + 12


def header_at(file: File, position: int) -> BatchHeader:
    """The header of the batch at a position. Raises BadBatch, OSError."""
    return _framed(file.pread(HEADER_BYTES, position), 0, position, file.size_bytes)


def checked(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader, Buffer]]:
    """Position, header and, for control batches, bytes of each batch; verifies each checksum."""
    window = memoryview(b"")
    start = position
    while position < end:
        at = position - start
        if at + HEADER_BYTES > len(window):
            window = memoryview(file.pread(min(_CHECK_READ_BYTES, end - position), position))
            start, at = position, 0
        header = _framed(window, at, position, end)
        size_bytes = header.length + 12
        if at + size_bytes > len(window):
            read_bytes = min(max(_CHECK_READ_BYTES, size_bytes), end - position)
            window = memoryview(file.pread(read_bytes, position))
            start, at = position, 0
        if crc32c(window[at + CRC_COVERS_FROM : at + size_bytes]) != header.crc:
            raise BadBatch(position, "checksum mismatch")
        is_control = header.attributes & CONTROL_BIT
        yield position, header, window[at : at + size_bytes] if is_control else b""
        position += size_bytes


class Passage:
    """The progress of `notable` in a segment, and the values gathered from its batches."""

    __slots__ = (
        "due_position",
        "end_offset",
        "largest_offset",
        "largest_timestamp",
        "leader_epoch",
        "position",
        "replay",
        "verified_from",
    )

    def __init__(
        self,
        end_offset: int,
        due_position: int,
        verified_from: int,
        replay: Callable[[BatchHeader], object],
    ):
        self.position = 0
        self.end_offset = end_offset
        """The least offset the next batch may have."""
        self.largest_timestamp = NO_TIMESTAMP
        self.largest_offset = end_offset
        """The last offset of the first batch with the largest timestamp."""
        self.leader_epoch = -1
        """The current leader epoch; batches of another are notable."""
        self.due_position = due_position
        """Batches after this position are notable: an index entry is due."""
        self.verified_from = verified_from
        """The offset from which on checksums are verified."""
        self.replay = replay
        """Called with the newest batch headers of each producer, except in transactions."""

    def reach(self, position: int, end_offset: int) -> None:
        """Set the position and the end offset reached."""
        self.position, self.end_offset = position, end_offset

    def replay_newest(self, window: memoryview, places: dict[int, list[int]]) -> None:
        """Call `replay` with each producer's newest batches; older batches are not remembered."""
        for found in places.values():
            for at in found[-REMEMBERED_BATCHES:]:
                self.replay(read_header(window, at))
        places.clear()


def notable(file: File, passage: Passage) -> Iterator[tuple[int, BatchHeader, Buffer]]:
    """Verify all batches; yields position, header and bytes of the batches that recovery looks at.

    Yielded are batches of transactions, batches of another leader epoch, batches due for the index,
    and batches whose offsets leave a gap. When a batch is yielded, the passage has its timestamp,
    but not its offset yet. All other batches take one loop without calls: after a crash there may
    be millions, and this loop takes a third of the time of a loop that yields each batch. Raises
    BadBatch, OSError.
    """
    unpack, check, end = _NOTED.unpack_from, crc32c, file.size_bytes
    position = read_bytes = 0
    producers: dict[int, list[int]] = {}
    while position < end:
        read_bytes = min(max(read_bytes, _CHECK_READ_BYTES), end - position)
        window = memoryview(file.pread(read_bytes, position))
        at = 0
        whole_to = len(window) - HEADER_BYTES
        window_bytes = len(window)
        due = passage.due_position - position
        epoch = passage.leader_epoch
        end_offset = passage.end_offset
        largest, verified_from = passage.largest_timestamp, passage.verified_from
        while at <= whole_to:
            (
                base_offset,
                length,
                leader_epoch,
                magic,
                crc,
                attributes,
                delta,
                timestamp,
                producer_id,
            ) = unpack(window, at)
            stop = at + length + 12
            if magic != MAGIC or length < _SMALLEST_LENGTH or delta < 0 or stop > window_bytes:
                break
            last_offset = base_offset + delta
            if last_offset >= verified_from and check(window[at + CRC_COVERS_FROM : stop]) != crc:
                passage.replay_newest(window, producers)
                passage.reach(position + at, end_offset)
                raise BadBatch(position + at, "checksum mismatch")
            if timestamp > largest:
                largest = passage.largest_timestamp = timestamp
                passage.largest_offset = last_offset
            if producer_id >= 0 and not attributes & _IN_TRANSACTION:
                producers.setdefault(producer_id, []).append(at)
            if (
                at > due
                or leader_epoch != epoch
                or base_offset < end_offset
                or attributes & _IN_TRANSACTION
            ):
                passage.replay_newest(window, producers)
                passage.reach(position + at, end_offset)
                yield position + at, read_header(window, at), window[at:stop]
                due = passage.due_position - position
                epoch = passage.leader_epoch
            end_offset = last_offset + 1
            at = stop
        passage.replay_newest(window, producers)
        position += at
        passage.reach(position, end_offset)
        is_cut = position < end and (at <= whole_to or not at)
        read_bytes = _framed(window, at, position, end).length + 12 if is_cut else 0


def next_valid(file: File, position: int, end_offset: int) -> tuple[int, BatchHeader] | None:
    """The first complete, intact and plausible batch at or after a position of a log file.

    It tries every byte, for use after a bad batch whose length cannot be trusted. Raises OSError.
    """
    size_bytes = file.size_bytes
    overlap_bytes = HEADER_BYTES - 1
    while position + HEADER_BYTES <= size_bytes:
        window = file.pread(_CHECK_READ_BYTES + overlap_bytes, position)
        at = window.find(MAGIC, MAGIC_AT, len(window) - overlap_bytes + MAGIC_AT)
        while at >= 0:
            start = at - MAGIC_AT
            header = read_header(window, start)
            found = position + start
            if _is_plausible(header, end_offset, size_bytes - found):
                batch = file.pread(header.length + 12, found)
                if crc32c(memoryview(batch)[CRC_COVERS_FROM:]) == header.crc:
                    return found, header
            at = window.find(MAGIC, at + 1, len(window) - overlap_bytes + MAGIC_AT)
        position += len(window) - overlap_bytes
    return None


def _is_plausible(header: BatchHeader, end_offset: int, left_bytes: int) -> bool:
    return (
        HEADER_BYTES <= header.length + 12 <= left_bytes
        and 0 <= header.base_offset - end_offset <= LARGEST_RELATIVE_OFFSET
        and header.last_offset_delta >= 0
    )


def _framed(window: Buffer, at: int, position: int, end: int) -> BatchHeader:
    if at + HEADER_BYTES > len(window):
        raise BadBatch(position, "incomplete batch header")
    header = read_header(window, at)
    length = header.length
    if header.magic != MAGIC or length < _SMALLEST_LENGTH or header.last_offset_delta < 0:
        raise BadBatch(
            position,
            f"no batch (magic {header.magic}, length {length}, last offset delta"
            f" {header.last_offset_delta})",
        )
    if position + length + 12 > end:
        raise BadBatch(position, "incomplete batch")
    return header
