"""Log directories together with the tier that has the older segments of their topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.reader.directory_source import DirectorySource
from wirekafka.reader.problems import DamagedLog, DataLost, ReaderError
from wirekafka.reader.source import CheckedBatches, Isolation, OffsetRange, SplitPoint, overlapping
from wirekafka.reader.tier_source import TierLog, TierSource
from wirekafka.tables.rows import NO_LIMIT, Rows
from wirekafka.tables.scan import DamagedBatch
from wirekafka.tiered.metadata_record import (
    REMOTE_LOG_METADATA_TOPIC,
    MalformedMetadata,
    MetadataRecord,
    decode,
)
from wirekafka.tiered.remote_segment import TieredPartition


class JoinedSource:
    """Reads from the files what they still have, and from the store what is older."""

    def __init__(self, local: DirectorySource, tier: TierSource):
        self._local = local
        self._tier = tier

    def topics(self) -> list[str]:
        return self._local.topics()

    def partitions(self, topic: str) -> list[int]:
        return self._local.partitions(topic)

    def offsets(self, topic: str, partition: int, isolation: Isolation) -> OffsetRange:
        remote = self._remote(topic, partition)
        if remote is None or not remote.parts:
            return self._local.offsets(topic, partition, isolation)
        end_offset = self._local.end_offset(topic, partition, isolation)
        first_offset = self._local.first_local_offset(topic, partition)
        deleted_up_to = self._local.start_checkpoint(topic, partition)
        start_offset = max(min(remote.start_offset, first_offset), deleted_up_to)
        return OffsetRange(start_offset, max(end_offset, start_offset))

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        offsets = self.offsets(topic, partition, "read_uncommitted")
        older, _ = self._divided(topic, partition, offsets)
        remote = self._remote(topic, partition)
        if older is not None and remote is not None:
            found = remote.offset_for_time(timestamp_ms, older)
            if found is not None:
                return found
        return self._local.offset_for_time(topic, partition, timestamp_ms)

    def split_points(
        self, topic: str, partition: int, offsets: OffsetRange, target_bytes: int
    ) -> list[SplitPoint]:
        older, newer = self._divided(topic, partition, offsets)
        points: list[SplitPoint] = []
        remote = self._remote(topic, partition)
        if older is not None and remote is not None:
            points += remote.split_points(older, target_bytes)
        if newer is not None:
            points += self._local.split_points(topic, partition, newer, target_bytes)
        return points

    def aborted(self, topic: str, partition: int, offsets: OffsetRange) -> list[AbortedTransaction]:
        older, _ = self._divided(topic, partition, offsets)
        remote = self._remote(topic, partition)
        found: list[AbortedTransaction] = []
        if older is not None and remote is not None:
            found += remote.aborted(older)
        # Last, and of all: the marker of an older transaction may be in the files.
        found += self._local.aborted(topic, partition, offsets)
        return overlapping(found, offsets)

    def read(self, topic: str, partition: int, offsets: OffsetRange) -> Iterator[CheckedBatches]:
        try:
            yield from self._read(topic, partition, offsets)
        except ReaderError as error:
            yield CheckedBatches(problem=error)

    def close(self) -> None:
        """Release what both have open."""
        self._local.close()
        self._tier.close()

    def _read(self, topic: str, partition: int, offsets: OffsetRange) -> Iterator[CheckedBatches]:
        offset, end_offset = offsets
        while offset < end_offset:
            older, _ = self._divided(topic, partition, OffsetRange(offset, end_offset))
            remote = self._remote(topic, partition)
            if older is not None and remote is not None:
                yield from remote.read(older)
                offset = older.end_offset
                continue
            for found in self._local.read(topic, partition, OffsetRange(offset, end_offset)):
                if isinstance(found.problem, DataLost) and self._has_moved(
                    topic, partition, offset
                ):
                    break
                yield found
                if len(found.batches):
                    offset = int(found.batches["end_offset"][-1])
                elif isinstance(found.problem, DataLost):
                    offset = max(offset, found.problem.end_offset)
            else:
                return

    def _has_moved(self, topic: str, partition: int, offset: int) -> bool:
        """Whether the store has an offset that the files had until now."""
        self._tier.refresh()
        remote = self._remote(topic, partition)
        return remote is not None and remote.has(offset)

    def _divided(
        self, topic: str, partition: int, offsets: OffsetRange
    ) -> tuple[OffsetRange | None, OffsetRange | None]:
        """The part of a range that is read from the store, and the part read from the files."""
        start_offset, end_offset = offsets
        first_local = self._local.first_local_offset(topic, partition)
        if start_offset >= first_local:
            return None, offsets
        remote = self._remote(topic, partition)
        if (remote is None or not remote.has(start_offset)) and not self._has_moved(
            topic, partition, start_offset
        ):
            return None, offsets
        if end_offset <= first_local:
            return offsets, None
        return OffsetRange(start_offset, first_local), OffsetRange(first_local, end_offset)

    def _remote(self, topic: str, partition: int) -> TierLog | None:
        topic_id = self._local.topic_id(topic, partition)
        if topic_id is None:
            return None
        epochs = self._local.epochs(topic, partition)
        return self._tier.log_of(TieredPartition(topic, topic_id, partition), epochs or None)


def metadata_records(local: DirectorySource) -> Iterator[MetadataRecord]:
    """The records of the metadata topic, as far as the directories have its partitions.

    Raises ReaderError.
    """
    topic = REMOTE_LOG_METADATA_TOPIC
    if topic not in local.topics():
        return
    for partition in local.partitions(topic):
        offsets = local.offsets(topic, partition, "read_uncommitted")
        rows = Rows(topic, partition, columns=("value",), limit_rows=NO_LIMIT)
        for found in local.read(topic, partition, offsets):
            if found.problem is not None:
                raise found.problem
            for value in _values(rows, found, offsets):
                with suppress(MalformedMetadata):
                    yield decode(value)


def _values(rows: Rows, found: CheckedBatches, offsets: OffsetRange) -> Iterator[bytes]:
    """The values of the records of batches that are in a range. Raises DamagedLog."""
    done = 0
    while done < len(found.batches):
        try:
            done = rows.add(found.batches, *offsets, first=done)
        except DamagedBatch as damage:
            position = found.position + damage.position
            raise DamagedLog(found.file, position, damage.reason) from None
        yield from rows.take().column("value").to_pylist()
