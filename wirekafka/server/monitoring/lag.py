"""The lag of every group and every reader: read at one instant, sampled for an hour."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple, cast

from wirekafka.broker import Broker
from wirekafka.codec.batch import HEADER_BYTES, read_header
from wirekafka.coordinator.groups.shard import GroupShard
from wirekafka.coordinator.groups.share.latest_offsets import LatestOffsets
from wirekafka.coordinator.routing import TopicPartition
from wirekafka.errors import KafkaError
from wirekafka.metrics.lag import HISTORY_MS, Behind, EndOffsets, LagHistory, LagSample, behind
from wirekafka.replication.fetching.readers import LONGEST_CLIENT_ID, Reader
from wirekafka.replication.partition.partition import Partition
from wirekafka.server.monitoring.share_lag import SHARE, ShareOffsets

logger = logging.getLogger(__name__)

GROUP, READER = "group", "reader"
"""Kinds of rows; `SHARE` is the third."""
_OBSERVE_S = 1.0
_SAMPLE_EVERY = LagHistory.EVERY_MS // 1000
_ROWS_PER_STEP = 100
_MOST_STAMPS = 10_000
_MOST_HISTORIES = 2_000
_LONGEST_NAME = 256
"""Groups with longer names have no history."""


class LagRow(NamedTuple):
    """The lag of a group, or of a client that reads, in one partition."""

    kind: str
    """GROUP, READER or SHARE."""
    name: str
    """The group id, or the name of a reader."""
    topic: str
    partition: int
    behind: Behind
    idle_ms: int
    """Since the last Fetch of a reader; 0 for groups."""
    is_query: bool = False
    """Whether this is a reader that reads for a Spark query."""


class LagTracker:
    """Computes lag on demand, and keeps its history.

    A group's position is its committed offset; a reader's position is the end of the records sent
    to it, so that readers that never commit, such as Spark, are seen too. The progress of share
    groups is read every ten seconds. The end of a partition is its high watermark. If another
    broker leads the partition, the end is the high watermark that this broker has requested last,
    at most ten seconds ago.
    """

    def __init__(self, broker: Broker):
        self._broker = broker
        self._latest = LatestOffsets(broker.partition, broker.routing)
        self._ends: dict[TopicPartition, EndOffsets] = {}
        self._elsewhere: dict[TopicPartition, int | None] = {}
        """High watermarks of partitions led by other brokers; None until one is known."""
        self._stamps: dict[tuple[str, int, int], int | None] = {}
        """The timestamps that the last sample has needed, by topic, partition and position."""
        self._next_stamps: dict[tuple[str, int, int], int | None] = {}
        """The timestamps needed since the last sample, which replace `_stamps` after the next
        sample."""
        self._shares = ShareOffsets(broker, self._end)
        self._task: asyncio.Task[None] | None = None
        self.histories: dict[tuple[str, str], LagHistory] = {}
        """The last hour of each group and reader, by kind and name."""

    def start(self) -> None:
        """Sample periodically, on the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop sampling."""
        if self._task is not None:
            self._task.cancel()

    def rows(self) -> Iterator[LagRow | None]:
        """Each group and reader in each of its partitions; None between two steps."""
        for number, row in enumerate(self._all()):
            yield row
            if number % _ROWS_PER_STEP == _ROWS_PER_STEP - 1:
                yield None

    def members(self) -> Iterator[tuple[str, int]]:
        """Each group with the number of its members."""
        for machine in self._broker.groups.machines():
            for group in list(cast(GroupShard, machine).groups.values()):
                yield group.group_id, group.member_count

    def member_clients(self) -> Iterator[tuple[str, str]]:
        """The client id, as readers have it, and the host of each member of all groups."""
        for machine in self._broker.groups.machines():
            for group in list(cast(GroupShard, machine).groups.values()):
                for client_id, host in group.clients():
                    yield client_id[:LONGEST_CLIENT_ID], host

    def observe(self) -> None:
        """Note the ends of all partitions that a group or a reader has been seen in."""
        now_ms = self._broker.clock.now_ms()
        for key, ends in self._ends.items():
            end_offset = self._end(key)
            if end_offset is not None:
                ends.observe(now_ms, end_offset)

    def sample(self) -> Iterator[None]:
        """Add a sample to each history, in steps; also of groups whose consumers have stopped."""
        now_ms = self._broker.clock.now_ms()
        lags: dict[tuple[str, str], tuple[int, int]] = {}
        seen: set[TopicPartition] = set()
        for row in self.rows():
            if row is None:
                yield
                continue
            seen.add((row.topic, row.partition))
            lag, behind_ms = lags.get((row.kind, row.name), (0, -1))
            known_ms = -1 if row.behind.behind_ms is None else row.behind.behind_ms
            lags[row.kind, row.name] = lag + row.behind.lag, max(behind_ms, known_ms)
        for key, (lag, behind_ms) in lags.items():
            history = self.histories.get(key)
            if history is None:
                if len(self.histories) >= _MOST_HISTORIES or len(key[1]) > _LONGEST_NAME:
                    continue
                history = self.histories[key] = LagHistory()
            history.note(LagSample(now_ms, lag, behind_ms))
        for key in [
            key
            for key, history in self.histories.items()
            if history.latest_ms < now_ms - HISTORY_MS
        ]:
            del self.histories[key]
        for partition in self._ends.keys() - seen:
            del self._ends[partition]
        for partition in self._elsewhere.keys() - seen:
            if self._elsewhere[partition] is not None:
                del self._elsewhere[partition]
        self._stamps = self._next_stamps
        self._next_stamps = {}

    async def find_elsewhere(self) -> None:
        """Request high watermarks and states of share groups from other brokers."""
        await self._shares.read()
        wanted = list(self._elsewhere)
        if not wanted:
            return
        for key, found in (await self._latest.of(wanted)).items():
            if isinstance(found, int):
                self._elsewhere[key] = found

    async def _run(self) -> None:
        beats = 0
        while True:
            try:
                self.observe()
                if beats % _SAMPLE_EVERY == 0:
                    for _ in self.sample():
                        await asyncio.sleep(0)
                    await self.find_elsewhere()
            except Exception:
                logger.exception("Sampling the lag of groups failed")
            beats += 1
            await asyncio.sleep(_OBSERVE_S)

    def _all(self) -> Iterator[LagRow | None]:
        now_ms = self._broker.clock.now_ms()
        for machine in self._broker.groups.machines():
            shard = cast(GroupShard, machine)
            for group_id in shard.offsets.group_ids():
                for topic, index, committed in list(shard.offsets.committed(group_id)):
                    found = self._behind((topic, index), committed.offset, now_ms)
                    if found is not None:
                        yield LagRow(GROUP, group_id, topic, index, found, 0)
            yield None
        for (group_id, topic, index), progress in list(self._shares.known.items()):
            found = self._behind((topic, index), progress.start_offset, now_ms)
            if found is not None:
                found = found._replace(position=progress.position)
                if found.lag == 0:  # What follows the start offset has been delivered.
                    found = found._replace(behind_ms=0)
                yield LagRow(SHARE, group_id, topic, index, found, 0)
        yield from self._of_readers(now_ms)

    def _of_readers(self, now_ms: int) -> Iterator[LagRow | None]:
        """The rows of readers that are members of no group."""
        members = set(self.member_clients())
        newest: dict[tuple[str, str, int], tuple[Reader, int]] = {}
        for reader in self._broker.readers.present(now_ms):
            # A member that has left its group goes on to fetch for a moment.
            reader.is_member = reader.is_member or (reader.client_id, reader.host) in members
            if reader.is_member:
                continue
            for partition, position in reader.positions(self._find):
                newest[reader.name, partition.topic, partition.index] = reader, position
            yield None
        for (name, topic, index), (reader, position) in newest.items():
            found = self._behind((topic, index), position, now_ms)
            if found is not None:
                idle_ms = max(now_ms - reader.at_ms, 0)
                yield LagRow(READER, name, topic, index, found, idle_ms, reader.is_query)

    def _behind(self, key: TopicPartition, position: int, now_ms: int) -> Behind | None:
        end_offset = self._end(key)
        if end_offset is None:
            return None
        ends = self._ends.get(key)
        if ends is None:
            ends = self._ends[key] = EndOffsets()
        ends.observe(now_ms, end_offset)
        if position >= end_offset:
            return Behind(position, end_offset, 0)
        appended_ms = ends.passed_ms(position)
        if appended_ms is None:
            appended_ms = self._stamp(key, position)
        return behind(position, end_offset, appended_ms, now_ms)

    def _end(self, key: TopicPartition) -> int | None:
        """The high watermark; None if the partition does not exist, or it is not known yet."""
        partition = self._broker.partitions.get(key)
        if partition is not None and partition.is_leader:
            return partition.high_watermark
        if self._broker.image.partition(*key) is None:
            self._elsewhere.pop(key, None)
            return None
        found = self._elsewhere.setdefault(key, None)
        return partition.high_watermark if found is None and partition is not None else found

    def _stamp(self, key: TopicPartition, position: int) -> int | None:
        """The timestamp of the batch at a position, from before the ends were observed.

        The timestamp is read from the log once, as long as the position stays. Beyond the limit,
        further timestamps are read each time and not kept: all timestamps are needed in turn, so
        that replacing a kept timestamp would forget each just before it is needed.
        """
        known = (*key, position)
        for stamps in (self._next_stamps, self._stamps):
            if known in stamps:
                found = stamps[known]
                break
        else:
            partition = self._broker.partitions.get(key)
            found = None if partition is None else _stamp_at(partition, position)
        if len(self._next_stamps) < _MOST_STAMPS:
            self._next_stamps[known] = found
        return found

    def _find(self, key: tuple[str | bytes, int]) -> Partition | None:
        topic, index = key
        if isinstance(topic, bytes):
            known = self._broker.image.topics_by_id.get(topic)
            topic = known.name if known is not None else ""
        return self._broker.partitions.get((topic, index))


def _stamp_at(partition: Partition, position: int) -> int | None:
    log = partition.log
    with suppress(KafkaError, OSError):
        offset = max(position, log.start_offset)
        found = log.read(offset, HEADER_BYTES, end_offset=log.end_offset)
        data = b"".join(found.buffers())
        if len(data) >= HEADER_BYTES:
            stamp = read_header(data).max_timestamp
            return stamp if stamp >= 0 else None
    return None
