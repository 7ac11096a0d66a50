"""The logs of a cluster, read from its brokers' sockets as Arrow record batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa

from wirekafka.client.client import RETRY_FOR_S, Client, CliError
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.option import ConfigError
from wirekafka.log.checkpoints import TopicPartition
from wirekafka.protocol.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from wirekafka.reader.fetches import Fetches, OffsetOutOfRange, ahead, end_of
from wirekafka.reader.leaders import Leaders, check_answer
from wirekafka.reader.problems import DamagedLog, DataLost, ReaderError
from wirekafka.reader.source import Isolation, OffsetRange, Split
from wirekafka.tables.rows import Rows
from wirekafka.tables.scan import Batches, DamagedBatch, scan

CLIENT_ID = "wirekafka-reader"
FETCH_BYTES = 8 << 20
"""The size of a Fetch response: large enough that its round trip costs little."""
SPLIT_BYTES = 64 << 20
_SAMPLE_BYTES = 64 << 10
_SMALL_RANGE = 20_000
"""Ranges with fewer offsets are one split, without a request for the size of the records."""
_LATEST, _EARLIEST = -1, -2


class WireLog:
    """The logs of a cluster, reached through its bootstrap addresses; for one thread at a time.

    Lost connections, elections of leaders and other failures that pass are retried for half a
    minute. Raises ReaderError.
    """

    def __init__(
        self,
        bootstrap: str,
        config: ClientConfig | None = None,
        *,
        client_id: str = CLIENT_ID,
        fetch_bytes: int = FETCH_BYTES,
    ) -> None:
        try:
            self._leaders = Leaders(Client(bootstrap, config, client_id=client_id))
        except (CliError, ConfigError) as error:
            raise ReaderError(str(error)) from None
        self._fetch_bytes = fetch_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._leaders.close()

    def topics(self) -> list[str]:
        """The names of all topics, but for internal topics."""
        return self._leaders.topics()

    def partitions(self, topic: str) -> list[int]:
        """The partitions that a topic has now. Raises UnknownLog."""
        return self.all_partitions([topic])[topic]

    def all_partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """The `partitions` of many topics, with one request."""
        return self._leaders.partitions(topics)

    def offsets(
        self, topic: str, partition: int, *, isolation: Isolation = "read_committed"
    ) -> OffsetRange:
        """The first offset and the safe end: high watermark or last stable offset."""
        key = (topic, partition)
        return self.all_offsets([key], isolation=isolation)[key]

    def all_offsets(
        self, partitions: Iterable[TopicPartition], *, isolation: Isolation = "read_committed"
    ) -> dict[TopicPartition, OffsetRange]:
        """The `offsets` of many partitions, with two requests for each leader."""
        chosen = list(partitions)
        starts = self._listed(dict.fromkeys(chosen, _EARLIEST), isolation)
        ends = self._listed(dict.fromkeys(chosen, _LATEST), isolation)
        return {each: OffsetRange(starts[each], max(starts[each], ends[each])) for each in chosen}

    def offset_for_time(
        self,
        topic: str,
        partition: int,
        timestamp_ms: int,
        *,
        isolation: Isolation = "read_committed",
    ) -> int | None:
        """The offset of the first record with this timestamp or a later one."""
        key = (topic, partition)
        return self.offsets_for_times({key: timestamp_ms}, isolation=isolation)[key]

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], *, isolation: Isolation = "read_committed"
    ) -> dict[TopicPartition, int | None]:
        """The `offset_for_time` of many partitions, with one request for each leader."""
        found = self._listed(times_ms, isolation)
        return {each: offset if offset >= 0 else None for each, offset in found.items()}

    def splits(
        self,
        topic: str,
        partition: int,
        start_offset: int,
        end_offset: int,
        *,
        target_bytes: int = SPLIT_BYTES,
        isolation: Isolation = "read_committed",
    ) -> list[Split]:
        """Parts of a range of about that size as they are stored.

        The size of the first batches stands for the size of all.
        """
        if end_offset <= start_offset:
            return []
        step = end_offset - start_offset
        if step > _SMALL_RANGE:
            fetches = self._fetches(topic, partition, isolation, _SAMPLE_BYTES)
            step = _offsets_in(target_bytes, fetches, start_offset)
        bounds = [*range(start_offset, end_offset, step), end_offset]
        return [Split(topic, partition, *each) for each in itertools.pairwise(bounds)]

    def read(
        self,
        split: Split,
        *,
        columns: Sequence[str] | None = None,
        headers: bool = False,
        isolation: Isolation = "read_committed",
    ) -> Iterator[pa.RecordBatch]:
        """Read a split in order; the next response is awaited while one is decoded.

        Raises DataLost where records of the split have been deleted, DamagedLog, and other
        ReaderErrors, each after all rows in front; ValueError for a name that is no column.
        """
        rows = Rows(split.topic, split.partition, columns=columns, headers=headers)
        start, end = split.start_offset, split.end_offset
        fetches = self._fetches(split.topic, split.partition, isolation, self._fetch_bytes)
        problem: ReaderError | OffsetOutOfRange | None = None
        try:
            for batches in ahead(fetches.batches(start, end)):
                done = 0
                while done < len(batches):
                    done = _add(rows, batches, split, done)
                    if rows.is_full:
                        yield rows.take()
        except (ReaderError, OffsetOutOfRange) as error:
            problem = error
        if rows.count:
            yield rows.take()
        if isinstance(problem, OffsetOutOfRange):
            raise self._loss(split, problem.offset, isolation)
        if problem is not None:
            raise problem

    def _loss(self, split: Split, offset: int, isolation: Isolation) -> DataLost:
        """What is lost of a split, since its leader has no record at an offset."""
        start, end = self.offsets(split.topic, split.partition, isolation=isolation)
        name = f"{split.topic}-{split.partition}"
        if offset < start:
            lost_end = min(start, split.end_offset)
            return DataLost(name, offset, lost_end, f"deleted, the log starts at offset {start}")
        return DataLost(name, offset, split.end_offset, f"the log ends at offset {end}")

    def _fetches(
        self, topic: str, partition: int, isolation: Isolation, size_bytes: int
    ) -> Fetches:
        return Fetches(self._leaders, topic, partition, isolation, size_bytes)

    def _listed(
        self, times_ms: Mapping[TopicPartition, int], isolation: Isolation
    ) -> dict[TopicPartition, int]:
        """The offsets for timestamps, -1 where no record is found."""
        found: dict[TopicPartition, int] = {}
        topics = {topic for topic, _ in times_ms}

        def attempt() -> None:
            by_leader: dict[int, dict[TopicPartition, int]] = {}
            for each, time_ms in times_ms.items():
                if each not in found:
                    leader = self._leaders.id_of(*each)
                    by_leader.setdefault(leader, {})[each] = time_ms
            for leader, wanted in by_leader.items():
                request = _list_offsets(wanted, isolation)
                answer = self._leaders.connection(leader).send(request, ListOffsetsResponse)
                for topic in answer.topics:
                    for listed in topic.partitions:
                        name = f"{topic.name}-{listed.partition_index}"
                        check_answer(listed.error_code, f"the offsets of {name}")
                        found[topic.name, listed.partition_index] = listed.offset

        self._leaders.retried("offsets", attempt, topics)
        return found


def _add(rows: Rows, batches: Batches, split: Split, first: int) -> int:
    """Add what a split has of batches; returns the batch to go on with. Raises DamagedLog."""
    try:
        return rows.add(batches, split.start_offset, split.end_offset, first=first)
    except DamagedBatch as damage:
        offset = int(batches["base_offset"][batches.index_at(damage.position)])
        name = f"{split.topic}-{split.partition}, the batch at offset {offset}"
        raise DamagedLog(name, 0, damage.reason) from None


def _list_offsets(
    times_ms: Mapping[TopicPartition, int], isolation: Isolation
) -> ListOffsetsRequest:
    kind = ListOffsetsRequest.Topic
    topics: dict[str, list[ListOffsetsRequest.Topic.Partition]] = {}
    for (topic, partition), time_ms in times_ms.items():
        each = kind.Partition(partition_index=partition, timestamp=time_ms)
        topics.setdefault(topic, []).append(each)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(isolation == "read_committed"),
        topics=[kind(name=name, partitions=partitions) for name, partitions in topics.items()],
        timeout_ms=int(RETRY_FOR_S * 1000),
    )


def _offsets_in(size_bytes: int, fetches: Fetches, start_offset: int) -> int:
    """How many offsets have a size, if all records are like the first ones."""
    try:
        batches = scan(fetches.response(start_offset).records or b"")
    except (OffsetOutOfRange, DamagedBatch):
        return _SMALL_RANGE  # The task that reads the first split reports it.
    covered = end_of(batches) - start_offset
    if covered <= 0:
        return _SMALL_RANGE
    return max(_SMALL_RANGE, covered * size_bytes // batches.end)
