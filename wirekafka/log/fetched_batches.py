"""Batches fetched from a leader: validated, and grouped by what fits into one segment."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple, Protocol

from wirekafka.codec.batch import (
    CONTROL_BIT,
    CRC_COVERS_FROM,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    Buffer,
    batches,
    read_header,
)
from wirekafka.codec.crc import crc32c
from wirekafka.errors import Error, KafkaError
from wirekafka.log.epochs import LeaderEpochs
from wirekafka.log.producers import ProducerStates
from wirekafka.log.scan import LARGEST_RELATIVE_OFFSET
from wirekafka.log.segment import BatchShape, Segment
from wirekafka.log.segments import Segments

NEWEST_EPOCH = 0x7FFFFFFF

_SMALLEST_LENGTH = HEADER_BYTES - LOG_OVERHEAD_BYTES
_new: Any = tuple.__new__  # Half the price of a NamedTuple's own constructor.
_unpack_header = HEADER.unpack_from
_unpack_needed = Struct(">qiibIhi8xqq").unpack_from
"""Of a header, all but the base timestamp and what only producers' states need."""


class Received(NamedTuple):
    """One batch, and its position in the fetched bytes."""

    at: int
    header: BatchHeader

    @property
    def end(self) -> int:
        """The position after the batch."""
        return self.at + self.header.length + LOG_OVERHEAD_BYTES


class FollowingLog(Protocol):
    """The parts of a `Log` that a batch of its leader changes."""

    segments: Segments
    epochs: LeaderEpochs
    producers: ProducerStates
    end_offset: int


def append_usual(log: FollowingLog, records: Buffer, newest_epoch: int) -> bool:
    """Append the whole batches if all are usual, with less work.

    Returns False, with nothing written, if there is no batch, or if any batch is corrupt, a control
    batch, of a new leader epoch, or needs a new segment. Raises OSError, and KafkaError as
    `checked`. Fast twin of `wirekafka.log.fetched_batches.checked` and what follows it.
    """
    data = memoryview(records)
    at = 0
    end = len(data)
    segment, end_offset = log.segments.active, log.end_offset
    if end < HEADER_BYTES or segment.file.size_bytes + end > segment.limit_bytes:
        return False
    known_epoch, roll_after_ms = log.epochs.recorded, segment.roll_after_ms
    shapes: list[tuple[int, int, int]] = []
    produced: list[BatchHeader] = []
    while end - at >= HEADER_BYTES:
        base_offset, length, epoch, magic, crc, attributes, delta, timestamp, producer_id = (
            _unpack_needed(data, at)
        )
        stop = at + length + LOG_OVERHEAD_BYTES
        if magic != MAGIC or length < _SMALLEST_LENGTH or stop > end:
            break
        if (
            attributes & CONTROL_BIT
            or epoch > known_epoch
            or epoch > newest_epoch
            or base_offset < end_offset
            or timestamp > roll_after_ms
            or crc32c(data[at + CRC_COVERS_FROM : stop]) != crc
        ):
            return False
        last_offset = base_offset + delta
        end_offset = last_offset + 1
        shapes.append((stop - at, last_offset, timestamp))
        if producer_id >= 0:
            produced.append(read_header(data, at))
        at = stop
    if at != end:
        check_cut_off(data, at)
        data = data[:at]
    if not shapes or end_offset - segment.base_offset > LARGEST_RELATIVE_OFFSET:
        return False
    segment.append_all(data, shapes)
    log.end_offset = log.producers.end_offset = end_offset
    for header in produced:
        log.producers.update(header, header.base_offset)
    return True


def checked(data: memoryview, end_offset: int, newest_epoch: int, log: str) -> list[Received]:
    """Validate the complete batches up to the first with a leader epoch above `newest_epoch`.

    Raises KafkaError: CORRUPT_MESSAGE; OFFSET_OUT_OF_RANGE for a batch that begins below the end of
    the previous batch, or below `end_offset`.
    """
    found: list[Received] = []
    at = 0
    end = len(data)
    while end - at >= HEADER_BYTES:
        header: BatchHeader = _new(BatchHeader, _unpack_header(data, at))
        base_offset, length, leader_epoch, magic, crc, _, last_offset_delta = header[:7]
        stop = at + length + LOG_OVERHEAD_BYTES
        if magic != MAGIC or length < _SMALLEST_LENGTH or stop > end:
            break
        if leader_epoch > newest_epoch:
            return found
        if crc32c(data[at + CRC_COVERS_FROM : stop]) != crc:
            raise KafkaError(Error.CORRUPT_MESSAGE, f"Record is corrupt in {log}")
        if base_offset < end_offset:
            raise KafkaError(
                Error.OFFSET_OUT_OF_RANGE,
                f"Offset {base_offset} is below the end {end_offset} of {log}",
            )
        end_offset = base_offset + last_offset_delta + 1
        found.append(_new(Received, (at, header)))
        at = stop
    check_cut_off(data, at)
    return found


def check_cut_off(data: memoryview, at: int) -> None:
    """Raise KafkaError(CORRUPT_MESSAGE) unless the remaining bytes may be the start of a batch."""
    next(batches(data, at), None)


def fit(group: list[Received], segment: Segment) -> bool:
    """Whether all batches fit into a segment as it is, so that no roll has to be checked."""
    at, last = group[-1]
    newest_ms = last.max_timestamp
    if len(group) > 1:
        newest_ms = max([header.max_timestamp for _, header in group])
    return (
        segment.file.size_bytes + at - group[0].at + last.length + LOG_OVERHEAD_BYTES
        <= segment.limit_bytes
        and last.base_offset + last.last_offset_delta - segment.base_offset
        < LARGEST_RELATIVE_OFFSET
        and newest_ms <= segment.roll_after_ms
    )


def groups(found: list[Received], segment_bytes: int) -> Iterator[list[Received]]:
    """The batches in groups that fit into one segment; a larger batch is a group by itself."""
    group: list[Received] = []
    if len(found) == 1 or (found and _fit_together(found[0], found[-1], segment_bytes)):
        group = found
        found = []
    for each in found:
        if group and not _fit_together(group[0], each, segment_bytes):
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _fit_together(first: Received, last: Received, segment_bytes: int) -> bool:
    return (
        last.end - first.at <= segment_bytes
        and last.header.end_offset - first.header.base_offset <= LARGEST_RELATIVE_OFFSET
    )


def shape_of_one(each: Received) -> BatchShape:
    """The shape of one batch."""
    header = each.header
    return BatchShape(header.size_bytes, header.end_offset - 1, header.max_timestamp)


def shape_of(group: list[Received]) -> BatchShape:
    """The shape of a group as if it were one batch."""
    return BatchShape(
        group[-1].end - group[0].at,
        group[-1].header.end_offset - 1,
        max(each.header.max_timestamp for each in group),
    )
