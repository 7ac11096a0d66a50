"""An object store as a source: the segments of tiered topics, with or without their metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from wirekafka.log.aborted_index import AbortedTransaction, CorruptIndex, decode_entries
from wirekafka.log.epochs import EpochEntry
from wirekafka.log.producers import CorruptSnapshot, decode_snapshot
from wirekafka.reader.problems import DamagedLog, DataLost, ReaderError, UnknownLog
from wirekafka.reader.source import CheckedBatches, Isolation, OffsetRange, SplitPoint, overlapping
from wirekafka.reader.stored_segment import BatchCursor, first_at_or_after, split_points
from wirekafka.reader.tier_objects import StoredPartition, TierSegment, stored_partitions
from wirekafka.tiered.audit import folded
from wirekafka.tiered.layout import Layout
from wirekafka.tiered.local_layout import id_text
from wirekafka.tiered.metadata_record import MetadataRecord
from wirekafka.tiered.remote_segment import (
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
    TieredPartition,
)
from wirekafka.tiered.segment_states import ReadablePart, SegmentStates
from wirekafka.tiered.store import Store

Records = Callable[[], Iterable[MetadataRecord]]


class TierLog:
    """The remote segments of one partition, in the order in which a reader needs them."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        states: SegmentStates,
        epochs: Sequence[EpochEntry] | None = None,
    ):
        """`epochs` are the leader epochs of the log; None: of the newest segment."""
        self.name = name
        self._layout = layout
        copied = [each for each in states if each.state is SegmentState.COPY_FINISHED]
        newest = max(copied, key=_age_of, default=None)
        if epochs is None:
            epochs = self._opened(newest).epochs() if newest is not None else []
        self.parts: list[ReadablePart] = []
        """The segments of the log in order, each up to where its records are in the log."""
        starts = sorted(each.start_offset for each in copied)
        offset = -1
        for start_offset in starts:
            if start_offset < offset:
                continue
            offset = start_offset
            while (part := states.readable_at(epochs, offset)) is not None:
                self.parts.append(part)
                offset = part.end_offset

    @property
    def start_offset(self) -> int:
        """Where the first segment begins; 0 if there is none."""
        return self.parts[0].segment.start_offset if self.parts else 0

    @property
    def end_offset(self) -> int:
        """Where the last segment ends; 0 if there is none."""
        return self.parts[-1].end_offset if self.parts else 0

    def has(self, offset: int) -> bool:
        """Whether a segment has an offset."""
        return any(part.segment.start_offset <= offset < part.end_offset for part in self.parts)

    def stable_end(self) -> int:
        """The end of what is decided: a transaction may have its marker in no segment yet."""
        if not self.parts:
            return 0
        last = self._opened(self.parts[-1].segment)
        data = last.producers()
        if data is None:
            return self.end_offset
        try:
            producers = decode_snapshot(data)
        except CorruptSnapshot as error:
            raise DamagedLog(last.name, 0, str(error)) from error
        opened = [each.transaction_offset for each in producers]
        return min([each for each in opened if each is not None], default=self.end_offset)

    def aborted(self, offsets: OffsetRange) -> list[AbortedTransaction]:
        """The aborted transactions that overlap a range, by the indexes of all segments behind."""
        found: list[AbortedTransaction] = []
        for segment in self._segments_from(offsets.start_offset):
            if segment.has_no_transactions:
                continue
            opened = self._opened(segment)
            try:
                entries = decode_entries(opened.transactions())
            except CorruptIndex as error:
                raise DamagedLog(opened.name, 0, f"its transaction index: {error}") from error
            found += entries
            if any(each.last_stable_offset >= offsets.end_offset for each in entries):
                break
        return overlapping(found, offsets)

    def read(self, offsets: OffsetRange) -> Iterator[CheckedBatches]:
        """All batches that overlap a range; problems are passed on in their place."""
        offset, end_offset = offsets
        for part in self.parts:
            if offset >= end_offset:
                return
            if part.end_offset <= offset:
                continue
            start_offset = part.segment.start_offset
            if start_offset > offset:
                lost = min(start_offset, end_offset)
                problem = DataLost(self.name, offset, lost, "no segment has them")
                yield CheckedBatches(problem=problem)
            try:
                yield from self._read(part, offset)
            except ReaderError as error:
                yield CheckedBatches(problem=error)
            offset = part.end_offset
        if offset < end_offset:
            problem = DataLost(self.name, offset, end_offset, "no segment has them")
            yield CheckedBatches(problem=problem)

    def offset_for_time(self, timestamp_ms: int, offsets: OffsetRange) -> int | None:
        """The offset of the first record of a range with that timestamp or a later one."""
        for part in self.parts:
            segment = part.segment
            if 0 <= segment.max_timestamp_ms < timestamp_ms:
                continue
            within = _overlap(part, offsets)
            if within.start_offset < within.end_offset:
                found = first_at_or_after(self._opened(segment), timestamp_ms, within)
                if found is not None:
                    return found
        return None

    def split_points(self, offsets: OffsetRange, target_bytes: int) -> list[SplitPoint]:
        """Where to cut a range, at every segment at least."""
        points = []
        for part in self.parts:
            within = _overlap(part, offsets)
            if within.start_offset < within.end_offset:
                opened = self._opened(part.segment)
                points += split_points(opened, part.segment.size_bytes, within, target_bytes)
        return points

    def _read(self, part: ReadablePart, offset: int) -> Iterator[CheckedBatches]:
        cursor = BatchCursor(self._opened(part.segment), offset)
        while (found := cursor.read(part.segment.end_offset, is_sealed=True)) is not None:
            if not len(found.batches):
                yield found
                continue
            batches = found.batches
            if batches["end_offset"][-1] > part.end_offset:
                batches = batches.where(batches["end_offset"] <= part.end_offset)
            yield CheckedBatches(batches, found.file, found.position)
            if found.batches["end_offset"][-1] >= part.end_offset:
                return

    def _segments_from(self, offset: int) -> list[RemoteSegment]:
        return [part.segment for part in self.parts if part.end_offset > offset]

    def _opened(self, segment: RemoteSegment) -> TierSegment:
        return TierSegment(self._layout, segment)


class TierSource:
    """The partitions of a store, each up to where its segments reach."""

    def __init__(
        self,
        store: Store,
        *,
        key_prefix: str = "",
        topic_ids: Mapping[str, bytes] | None = None,
        records: Records | None = None,
    ):
        """`records` reads the records of the metadata topic; None: there are none."""
        self._store = store
        self._key_prefix = key_prefix
        self._topic_ids = dict(topic_ids or {})
        self._records = records
        self._stored: list[StoredPartition] = []
        self._known: dict[TieredPartition, SegmentStates] = {}
        self._logs: dict[TieredPartition, TierLog] = {}
        self.refresh()

    def refresh(self) -> None:
        """List the store again, and read the metadata again."""
        # The objects first: they are there before the metadata of their segment says so.
        self._stored = stored_partitions(self._store, self._key_prefix)
        self._known = folded(self._records()) if self._records is not None else {}
        self._logs.clear()

    def topics(self) -> list[str]:
        return sorted({each.partition.topic for each in self._stored})

    def partitions(self, topic: str) -> list[int]:
        found = [each.partition for each in self._stored if each.partition.topic == topic]
        if not found:
            raise UnknownLog(f"the store has no topic {topic}")
        chosen = self._chosen_id(topic)
        return sorted({each.number for each in found if each.topic_id == chosen})

    def offsets(self, topic: str, partition: int, isolation: Isolation) -> OffsetRange:
        self.refresh()
        log = self._log(topic, partition)
        end_offset = log.stable_end() if isolation == "read_committed" else log.end_offset
        return OffsetRange(log.start_offset, max(end_offset, log.start_offset))

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        log = self._log(topic, partition)
        return log.offset_for_time(timestamp_ms, OffsetRange(log.start_offset, log.end_offset))

    def split_points(
        self, topic: str, partition: int, offsets: OffsetRange, target_bytes: int
    ) -> list[SplitPoint]:
        points = self._log(topic, partition).split_points(offsets, target_bytes)
        return points or [SplitPoint(offsets.start_offset, 0)]

    def aborted(self, topic: str, partition: int, offsets: OffsetRange) -> list[AbortedTransaction]:
        return self._log(topic, partition).aborted(offsets)

    def read(self, topic: str, partition: int, offsets: OffsetRange) -> Iterator[CheckedBatches]:
        try:
            log = self._log(topic, partition)
        except ReaderError as error:
            yield CheckedBatches(problem=error)
            return
        yield from log.read(offsets)

    def close(self) -> None:
        """Nothing stays open between reads."""

    def log_of(
        self, partition: TieredPartition, epochs: Sequence[EpochEntry] | None = None
    ) -> TierLog | None:
        """The remote segments of a partition, in the lineage of a log; None without objects."""
        if partition not in self._logs:
            stored = [each for each in self._stored if each.partition == partition]
            if not stored:
                return None
            states = self._known.get(partition) or SegmentStates()
            # The metadata is read up to its high watermark on disk, behind which a broker may
            # have reported a copy and deleted its local segment: then the objects say so.
            ids = {each.id for each in states if each.state is not SegmentState.COPY_STARTED}
            found = [segment for each in stored for segment in each.segments(ids)]
            for segment in sorted(found, key=_age_of):
                _add_copied(states, segment)
            name = f"{partition.topic}-{partition.number}"
            self._logs[partition] = TierLog(name, stored[0].layout, states, epochs)
        return self._logs[partition]

    def _log(self, topic: str, partition: int) -> TierLog:
        key = TieredPartition(topic, self._chosen_id(topic), partition)
        found = self.log_of(key)
        if found is None:
            raise UnknownLog(f"the store has no log {topic}-{partition}")
        return found

    def _chosen_id(self, topic: str) -> bytes:
        if topic in self._topic_ids:
            return self._topic_ids[topic]
        ids = {each.partition.topic_id for each in self._stored if each.partition.topic == topic}
        if len(ids) > 1:
            names = ", ".join(sorted(id_text(each) for each in ids))
            raise ReaderError(
                f"several topics were named {topic}, with the ids {names}: choose by topic_ids"
            )
        return next(iter(ids), b"")


def _add_copied(states: SegmentStates, segment: RemoteSegment) -> None:
    states.add(replace(segment, state=SegmentState.COPY_STARTED))
    states.update(
        SegmentUpdate(
            partition=segment.partition,
            id=segment.id,
            broker_id=segment.broker_id,
            event_ms=segment.event_ms,
            state=SegmentState.COPY_FINISHED,
        )
    )


def _overlap(part: ReadablePart, offsets: OffsetRange) -> OffsetRange:
    return OffsetRange(
        max(offsets.start_offset, part.segment.start_offset),
        min(offsets.end_offset, part.end_offset),
    )


def _age_of(segment: RemoteSegment) -> tuple[int, int, int]:
    last = segment.epochs[-1].epoch if segment.epochs else -1
    return last, segment.end_offset, segment.event_ms
