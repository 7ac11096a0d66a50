"""A log with partitions of known offsets, in place of files or brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wirekafka.reader.problems import UnknownLog
from wirekafka.reader.source import OffsetRange, Split
from wirekafka.spark.offsets import TopicPartition


class KnownLog:
    """Each partition's offsets are set by tests; a record's time is its offset times ten."""

    def __init__(self, **topics: list[tuple[int, int]]) -> None:
        self.ranges = {
            (topic, partition): OffsetRange(*offsets)
            for topic, partitions in topics.items()
            for partition, offsets in enumerate(partitions)
        }

    def close(self) -> None:
        """Nothing is open."""

    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.ranges})

    def all_partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        found = {topic: [n for name, n in self.ranges if name == topic] for topic in topics}
        for topic, partitions in found.items():
            if not partitions:
                raise UnknownLog(f"no topic {topic}")
        return found

    def all_offsets(
        self, partitions: Iterable[TopicPartition], *, isolation: str
    ) -> dict[TopicPartition, OffsetRange]:
        return {each: self.ranges[each] for each in partitions}

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], *, isolation: str
    ) -> dict[TopicPartition, int | None]:
        found = {}
        for each, time_ms in times_ms.items():
            offset = max(self.ranges[each].start_offset, -(-time_ms // 10))
            found[each] = offset if offset < self.ranges[each].end_offset else None
        return found

    def splits(
        self,
        topic: str,
        partition: int,
        start_offset: int,
        end_offset: int,
        *,
        target_bytes: int,
        isolation: str,
    ) -> list[Split]:
        if (topic, partition) not in self.ranges:
            raise UnknownLog(f"no topic {topic}")
        return [Split(topic, partition, start_offset, end_offset)]
