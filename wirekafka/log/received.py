"""Batches fetched from a leader: validated, and grouped by what fits into one segment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from wirekafka.codec.batch import BatchHeader, batches, is_intact
from wirekafka.errors import Error, KafkaError
from wirekafka.log.scan import LARGEST_RELATIVE_OFFSET
from wirekafka.log.segment import BatchShape

NEWEST_EPOCH = 0x7FFFFFFF


class Received(NamedTuple):
    """One batch, and its position in the fetched bytes."""

    at: int
    header: BatchHeader

    @property
    def end(self) -> int:
        """The position after the batch."""
        return self.at + self.header.size_bytes

    @property
    def shape(self) -> BatchShape:
        header = self.header
        return BatchShape(header.size_bytes, header.end_offset - 1, header.max_timestamp)


def checked(data: memoryview, end_offset: int, newest_epoch: int, log: str) -> list[Received]:
    """Validate the complete batches up to the first with a leader epoch above `newest_epoch`.

    Raises KafkaError: CORRUPT_MESSAGE; OFFSET_OUT_OF_RANGE for a batch that begins below the end
    of the one before it, or below `end_offset`.
    """
    found = []
    for at, header in batches(data):
        if header.leader_epoch > newest_epoch:
            break
        if not is_intact(data, at, header):
            raise KafkaError(Error.CORRUPT_MESSAGE, f"Record is corrupt in {log}")
        if header.base_offset < end_offset:
            raise KafkaError(
                Error.OFFSET_OUT_OF_RANGE,
                f"Offset {header.base_offset} is below the end {end_offset} of {log}",
            )
        end_offset = header.end_offset
        found.append(Received(at, header))
    return found


def groups(found: list[Received], segment_bytes: int) -> Iterator[list[Received]]:
    """The batches in groups that fit into one segment; a larger batch is a group by itself."""
    group: list[Received] = []
    for each in found:
        if group:
            first = group[0]
            size_bytes = each.end - first.at
            offsets = each.header.end_offset - first.header.base_offset
            if size_bytes > segment_bytes or offsets > LARGEST_RELATIVE_OFFSET:
                yield group
                group = []
        group.append(each)
    if group:
        yield group


def shape_of(group: list[Received]) -> BatchShape:
    """The shape of a group as if it were one batch."""
    return BatchShape(
        group[-1].end - group[0].at,
        group[-1].header.end_offset - 1,
        max(each.header.max_timestamp for each in group),
    )
