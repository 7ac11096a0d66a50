"""Walking over a log file batch by batch, reading headers only or checking every byte."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.codec.batch import (
    CONTROL_BIT,
    CRC_COVERS_FROM,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    Buffer,
    read_header,
)
from wirekafka.codec.crc import crc32c
from wirekafka.log.files import File

LARGEST_RELATIVE_OFFSET = 0x7FFFFFFF

_HEADERS_READ_BYTES = 8192
_CHECK_READ_BYTES = 1 << 20
_SMALLEST_LENGTH = HEADER_BYTES - 12


class BadBatch(Exception):
    """The bytes at a position are no batch, or not one that can stand there."""

    def __init__(self, position: int, reason: str):
        super().__init__(f"{reason} at position {position}")
        self.position = position
        self.reason = reason


def headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch between a batch boundary and `end`.

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


def checked(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader, Buffer]]:
    """As `headers`, after verifying each checksum; with the bytes of control batches."""
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


def next_valid(file: File, position: int, end_offset: int) -> tuple[int, BatchHeader] | None:
    """The first batch at or after a position that is whole, intact and plausible in this log.

    Looks at every byte, for use after a bad batch whose length says nothing. Raises OSError.
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
