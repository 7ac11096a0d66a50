"""Checks the records of a batch by their lengths, without decoding them to objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from wirekafka.codec.batch import BatchHeader
from wirekafka.codec.record import SMALLEST_RECORD_BYTES, invalid
from wirekafka.codec.varint import MAX_VARINT_BYTES, decode_varint, decode_varlong

_FEWEST_IN_A_RUN = 8
_SMALLEST_LENGTH_BYTE = 2 * (SMALLEST_RECORD_BYTES - 1)


class Outline(NamedTuple):
    """The fields of a record that validation checks; `timestamp` in ms."""

    offset_delta: int
    timestamp: int
    has_key: bool


def check_framing(body: bytes | memoryview, count: int) -> int:
    """Check that `count` records fill the body exactly; returns where the last one begins.

    Costs about 0.1 us a record, and a quarter of that where neighbours have the same size, since
    such a run is checked by comparing whole columns of length bytes at once. Raises
    KafkaError(INVALID_RECORD).
    """
    end = len(body)
    position = last = before = 0
    left = count
    try:
        while left > 0:
            last = position
            low = body[position]
            if low < 128:
                if low & 1 or low < _SMALLEST_LENGTH_BYTE:
                    raise invalid(f"Found invalid record size at byte {position} of {end}")
                position += 1 + (low >> 1)
            else:
                high = body[position + 1]
                if low & 1:
                    raise invalid(f"Found negative record size at byte {position} of {end}")
                if high < 128:
                    position += 2 + ((low & 0x7F) >> 1 | high << 6)
                else:
                    size, position = decode_varint(body, position)
                    position += size
            left -= 1
            if low == before and left > _FEWEST_IN_A_RUN:
                run = _run_length(body, last, position - last, left)
                step = position - last
                last += run * step
                position += run * step
                left -= run
            before = low
    except (IndexError, ValueError):
        raise invalid(
            f"Found {count - left} whole records in {end} bytes instead of {count}"
        ) from None
    if position != end:
        raise invalid(
            f"Incorrect declared batch size: {count} records take {position} of {end} bytes"
        )
    return last


def _run_length(body: bytes | memoryview, first: int, step: int, most: int) -> int:
    """How many records after the first have the same length prefix."""
    run = most
    for column in range(first, first + MAX_VARINT_BYTES):
        byte = body[column]
        found = bytes(body[column + step : column + step * run + 1 : step])
        run = len(found) - len(found.lstrip(bytes((byte,))))
        if byte < 128 or not run:
            break
    return run


def outlines(body: bytes | memoryview, header: BatchHeader) -> Iterator[Outline]:
    """The outline of every record, in order; timestamps absolute, offsets as the client set them.

    The outlines are yielded one by one, since a batch may have millions of records.

    A LogAppendTime batch gives every record its maximum timestamp. Raises
    KafkaError(INVALID_RECORD) where the records do not fill the body exactly.
    """
    append_time = header.max_timestamp if header.timestamp_type else None
    position = 0
    end = len(body)
    try:
        for _ in range(header.count):
            size, position = decode_varint(body, position)
            stop = position + size
            if size < SMALLEST_RECORD_BYTES - 1 or stop > end:
                raise ValueError(f"a record of {size} bytes where {end - position} are left")
            delta, position = decode_varlong(body, position + 1)
            offset_delta, position = decode_varint(body, position)
            key_bytes, position = decode_varint(body, position)
            if position + max(key_bytes, 0) > stop:
                raise ValueError(f"a key of {key_bytes} bytes where {stop - position} are left")
            timestamp = header.base_timestamp + delta if append_time is None else append_time
            yield Outline(offset_delta, timestamp, key_bytes >= 0)
            position = stop
    except (IndexError, ValueError) as error:
        raise invalid(f"Found invalid record structure: {error}") from None
    if position != end:
        raise invalid("Incorrect declared batch size, records still remaining in file")


def longest_record(body: bytes | memoryview) -> int:
    """The size in bytes of the largest record, without its length prefix.

    The framing must have been checked.
    """
    longest = position = 0
    while position < len(body):
        size, position = decode_varint(body, position)
        longest = max(longest, size)
        position += size
    return longest


def check_record(body: bytes | memoryview, position: int) -> tuple[int, int, int]:
    """Check the fields of one record: (timestamp delta, offset delta, position after it).

    Raises KafkaError(INVALID_RECORD) where they do not fill it exactly, or are missing.
    """
    try:
        # Varints of one byte, and of two where usual, are decoded inline to avoid calls.
        low = body[position]
        if low & 1:
            raise ValueError("a record of negative size")
        if low < 128:
            end = position + 1 + (low >> 1)
            position += 2
        elif (high := body[position + 1]) < 128:
            end = position + 2 + ((low & 0x7F) >> 1 | high << 6)
            position += 3
        else:
            size, start = decode_varint(body, position)
            end = start + size
            position = start + 1
        low = body[position]
        if low < 128:
            timestamp_delta = (low >> 1) ^ -(low & 1)
            position += 1
        else:
            timestamp_delta, position = decode_varlong(body, position)
        low = body[position]
        if low < 128:
            offset_delta = (low >> 1) ^ -(low & 1)
            position += 1
        else:
            offset_delta, position = decode_varint(body, position)
        for _ in ("key", "value"):
            low = body[position]
            if low < 128:
                position += 1 if low & 1 else 1 + (low >> 1)
            elif not low & 1 and (high := body[position + 1]) < 128:
                position += 2 + ((low & 0x7F) >> 1 | high << 6)
            else:
                position = _behind_field(body, position)
        if position < end and body[position]:
            position = _behind_headers(body, position, end)
        else:
            position += 1
    except (IndexError, ValueError) as error:
        raise invalid(f"Found invalid record structure: {error}") from None
    if position != end:
        raise invalid(f"Found a record whose fields end {end - position} bytes before it does")
    return timestamp_delta, offset_delta, end


def _behind_field(body: bytes | memoryview, position: int) -> int:
    size, position = decode_varint(body, position)
    return position + size if size > 0 else position


def _behind_headers(body: bytes | memoryview, position: int, end: int) -> int:
    count, position = decode_varint(body, position)
    if not 0 <= count <= (end - position) // 2:
        raise ValueError(f"{count} headers in {end - position} bytes")
    for _ in range(count):
        size, position = decode_varint(body, position)
        if size < 0:
            raise ValueError("a header without a name")
        position = _behind_field(body, position + size)
    return position


def first_at_or_after(
    body: bytes | memoryview, header: BatchHeader, timestamp: int
) -> tuple[int, int] | None:
    """Offset and timestamp of the first record that is not older than `timestamp` in ms."""
    for outline in outlines(body, header):
        if outline.timestamp >= timestamp:
            return header.base_offset + outline.offset_delta, outline.timestamp
    return None
