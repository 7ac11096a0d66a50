"""The remote segments of one partition, folded from their metadata records."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple

from wirekafka.log.epochs import EpochEntry
from wirekafka.tiered.remote_segment import RemoteSegment, SegmentState, SegmentUpdate


class _Range(NamedTuple):
    """The part of a readable segment that one leader epoch wrote."""

    start_offset: int
    end_offset: int
    segment_id: bytes


class _Epoch:
    """The readable segments of one leader epoch, by offset."""

    __slots__ = ("end_offset", "ranges")

    def __init__(self) -> None:
        self.ranges: list[_Range] = []
        self.end_offset = -1
        """The end of all that was ever copied under the epoch; -1 before the first segment."""

    def add(self, added: _Range) -> None:
        # A segment that a later leader has copied again supersedes the segments that it covers.
        first = bisect_left(self.ranges, added.start_offset, key=_start_of)
        last = first
        while last < len(self.ranges) and self.ranges[last].end_offset <= added.end_offset:
            last += 1
        self.ranges[first:last] = [added]
        self.end_offset = max(self.end_offset, added.end_offset)

    def remove(self, segment_id: bytes) -> None:
        self.ranges = [each for each in self.ranges if each.segment_id != segment_id]

    def at(self, offset: int) -> _Range | None:
        number = bisect_right(self.ranges, offset, key=_start_of) - 1
        found = self.ranges[number] if number >= 0 else None
        return found if found is not None and offset < found.end_offset else None


_start_of = itemgetter(0)


class ReadablePart(NamedTuple):
    """A readable segment, and the end of its records that are in a log."""

    segment: RemoteSegment
    end_offset: int


class SegmentStates:
    """All known segments of a partition, and which of them are readable.

    A readable segment has been copied completely and is not superseded: for each leader epoch, a
    later segment that covers the range of another one hides it.
    """

    __slots__ = ("_epochs", "_segments")

    def __init__(self) -> None:
        self._segments: dict[bytes, RemoteSegment] = {}
        self._epochs: dict[int, _Epoch] = {}

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[RemoteSegment]:
        return iter(self._segments.values())

    def get(self, segment_id: bytes) -> RemoteSegment | None:
        """The segment with an id, in whatever state."""
        return self._segments.get(segment_id)

    def add(self, segment: RemoteSegment) -> bool:
        """Replay the record of a new segment; False if it is none: its state is another."""
        if segment.state is not SegmentState.COPY_STARTED:
            return False
        if segment.id not in self._segments:
            self._segments[segment.id] = segment
        return True

    def update(self, update: SegmentUpdate) -> bool:
        """Replay a change of state; False if it does not apply.

        That is if the record of the segment is gone, or the state cannot follow its present one.
        """
        segment = self._segments.get(update.id)
        if segment is None or not segment.state.may_become(update.state):
            return False
        custom = update.custom_metadata
        changed = replace(
            segment,
            state=update.state,
            broker_id=update.broker_id,
            event_ms=update.event_ms,
            custom_metadata=segment.custom_metadata if custom is None else custom,
        )
        self._segments[update.id] = changed
        if segment.state is update.state:
            return True
        match update.state:
            case SegmentState.COPY_FINISHED:
                for number, (epoch, start_offset) in enumerate(changed.epochs):
                    part = _Range(start_offset, changed.end_of_epoch(number), changed.id)
                    self._epochs.setdefault(epoch, _Epoch()).add(part)
            case SegmentState.DELETE_STARTED:
                self._hide(changed)
            case SegmentState.DELETE_FINISHED:
                del self._segments[update.id]
            case _:
                pass
        return True

    def find(self, epoch: int, offset: int) -> RemoteSegment | None:
        """The readable segment that has a record which that leader epoch wrote."""
        written = self._epochs.get(epoch)
        found = None if written is None else written.at(offset)
        return None if found is None else self._segments[found.segment_id]

    def following(
        self, segment: RemoteSegment, epochs: Sequence[EpochEntry]
    ) -> RemoteSegment | None:
        """The readable segment after another one, in the lineage of a log's leader epochs."""
        number = bisect_right(epochs, segment.end_offset, key=_start_of_epoch) - 1
        return None if number < 0 else self.find(epochs[number].epoch, segment.end_offset)

    def end_offset(self, epochs: Sequence[EpochEntry], log_end_offset: int) -> int:
        """The end of what was copied of a log with these leader epochs; -1 for nothing.

        What was copied under an epoch counts as far as the epoch reaches in this log: the rest
        is from a leader whose records were lost by an unclean election.
        """
        end_of_epoch = log_end_offset
        for epoch, start_offset in reversed(epochs):
            written = self._epochs.get(epoch)
            if written is not None and written.end_offset >= 0:
                return min(written.end_offset, end_of_epoch)
            end_of_epoch = start_offset
        return -1

    def readable_end(
        self, epochs: Sequence[EpochEntry], from_offset: int, log_end_offset: int
    ) -> int:
        """How far the readable segments reach without a gap from an offset on.

        Not beyond the end of the log: after an unclean election, other records will be there.
        """
        while (
            from_offset < log_end_offset
            and (part := self.readable_at(epochs, from_offset)) is not None
        ):
            from_offset = min(part.end_offset, log_end_offset)
        return from_offset

    def readable_at(self, epochs: Sequence[EpochEntry], offset: int) -> ReadablePart | None:
        """The readable segment that has an offset of a log with these epochs."""
        number = bisect_right(epochs, offset, key=_start_of_epoch) - 1
        found = None if number < 0 else self.find(epochs[number].epoch, offset)
        if found is None:
            return None
        end_offset = found.end_offset
        if number + 1 < len(epochs) and found.epochs[-1].epoch == epochs[number].epoch:
            # The rest is of a leader whose records were lost.
            end_offset = min(end_offset, epochs[number + 1].start_offset)
        return ReadablePart(found, end_offset)

    def in_lineage(self, epochs: Sequence[EpochEntry], log_end_offset: int) -> list[RemoteSegment]:
        """The segments copied completely that belong to a log with these epochs, by offset."""
        lineage = Lineage(epochs, log_end_offset)
        found = [
            segment
            for segment in self._segments.values()
            if segment.state is SegmentState.COPY_FINISHED and lineage.has(segment)
        ]
        found.sort(key=_place_of)
        return found

    def _hide(self, segment: RemoteSegment) -> None:
        for epoch, _ in segment.epochs:
            written = self._epochs.get(epoch)
            if written is not None:
                written.remove(segment.id)


class Lineage:
    """The leader epochs of a log: the offsets that each of them wrote there."""

    __slots__ = ("_end_offset", "_first_epoch", "_ranges")

    def __init__(self, epochs: Sequence[EpochEntry], log_end_offset: int):
        ends = [*(entry.start_offset for entry in epochs[1:]), log_end_offset]
        self._ranges = {
            entry.epoch: (entry.start_offset, end) for entry, end in zip(epochs, ends, strict=False)
        }
        self._first_epoch = epochs[0].epoch if epochs else None
        self._end_offset = log_end_offset

    def has(self, segment: RemoteSegment) -> bool:
        """Whether the records of a segment are records of the log, before its end."""
        if segment.end_offset > self._end_offset:
            return False
        shared = False
        last = len(segment.epochs) - 1
        for number, (epoch, start_offset) in enumerate(segment.epochs):
            end_offset = segment.end_of_epoch(number)
            if start_offset == end_offset:
                continue  # An epoch without records.
            written = self._ranges.get(epoch)
            if written is None:
                if shared or number == last:
                    return False
                continue  # Older than the log's first epoch, which begins with the log's start.
            first, end = written
            if shared and start_offset != first:
                return False
            if (number < last and end_offset != end) or (number == last and end_offset > end):
                return False
            if not shared and start_offset < first and epoch != self._first_epoch:
                return False
            shared = True
        return shared


def _start_of_epoch(entry: EpochEntry) -> int:
    return entry.start_offset


def _place_of(segment: RemoteSegment) -> tuple[int, int]:
    return segment.start_offset, segment.end_offset
