"""The log that a query's options name: in files and tiers, or behind the brokers of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from wirekafka.config.client_config import ClientConfig
from wirekafka.reader.log_reader import LogReader
from wirekafka.reader.source import Isolation, OffsetRange, Split
from wirekafka.reader.wire_log import CLIENT_ID, WireLog
from wirekafka.replication.partition.internal_topics import INTERNAL_TOPICS, METADATA_TOPIC
from wirekafka.spark.offsets import TopicPartition
from wirekafka.spark.options import Options

_INTERNAL = INTERNAL_TOPICS | {METADATA_TOPIC}


class StoredLog(LogReader):
    """Logs in files and tiers, with the questions that a query has about many partitions."""

    def topics(self) -> list[str]:
        """The names of all topics, but for internal topics, as brokers list them."""
        return [topic for topic in super().topics() if topic not in _INTERNAL]

    def all_partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """The partitions of topics. Raises UnknownLog."""
        return {topic: self.partitions(topic) for topic in sorted(set(topics))}

    def all_offsets(
        self, partitions: Iterable[TopicPartition], *, isolation: Isolation
    ) -> dict[TopicPartition, OffsetRange]:
        """The first offset and the safe end of partitions."""
        return {each: self.offsets(*each, isolation=isolation) for each in partitions}

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], *, isolation: Isolation
    ) -> dict[TopicPartition, int | None]:
        """The offsets of the first records of a time or later; None where there is none."""
        found: dict[TopicPartition, int | None] = {}
        for (topic, partition), time_ms in times_ms.items():
            end = self.offsets(topic, partition, isolation=isolation).end_offset
            offset = self.offset_for_time(topic, partition, time_ms)
            found[topic, partition] = None if offset is None or offset >= end else offset
        return found


def open_log(options: Options) -> StoredLog | WireLog:
    """Open the log; the caller closes it. Raises ReaderError."""
    if options.bootstrap is None:
        return StoredLog.open(options.paths, tier=options.tier)
    client_id = options.client.get("client.id", CLIENT_ID)
    return WireLog(options.bootstrap, ClientConfig(options.client), client_id=client_id)


def read_split(
    log: StoredLog | WireLog, split: Split, options: Options
) -> Iterator[pa.RecordBatch]:
    """Read a split in the columns and the isolation of a query."""
    if isinstance(log, WireLog):
        return log.read(
            split,
            columns=options.columns,
            headers=options.includes_headers,
            isolation=options.isolation,
        )
    return log.read(
        split,
        columns=options.columns,
        headers=options.includes_headers,
        isolation=options.isolation,
        on_error=options.on_error,
    )
