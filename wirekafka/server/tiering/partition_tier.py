"""The remote part of one partition's log: reads of it, as `RemoteLog` describes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

from wirekafka.broker import Broker
from wirekafka.errors import Error, KafkaError
from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.log.lookup import TimestampOffset
from wirekafka.log.slice import MemorySlice
from wirekafka.replication.fetching.throttle import ReplicationThrottle
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.reading import ReadRange
from wirekafka.replication.partition.remote_log import LocalStart, Pending, RemoteResult
from wirekafka.runtime.promise import Promise
from wirekafka.server.tiering.remote_metadata import RemoteMetadata
from wirekafka.server.tiering.work import Job, Run, within
from wirekafka.tiered.counters import TierCounters
from wirekafka.tiered.remote_reader import FoundBatches, RemoteReader
from wirekafka.tiered.remote_segment import RemoteSegment, TieredPartition
from wirekafka.tiered.segment_states import SegmentStates
from wirekafka.tiered.store import StoreError

logger = logging.getLogger(__name__)

_START_MS = 10_000
_READY_MS = 100
"""How long a read waits for the metadata, which a starting broker still reads."""


class PartitionTier:
    """What this broker knows of a tiered partition, whether it leads or follows."""

    def __init__(
        self,
        broker: Broker,
        partition: Partition,
        *,
        metadata: RemoteMetadata,
        reader: RemoteReader,
        run: Run,
        rate: ReplicationThrottle,
        counters: TierCounters,
    ):
        self._broker = broker
        self._metadata = metadata
        self._reader = reader
        self._run = run
        self._rate = rate
        self._counters = counters
        self._ahead: asyncio.Task[None] | None = None
        self.partition = partition
        self.identity = TieredPartition(partition.topic, partition.topic_id, partition.index)
        self.failure = ""
        """Why the last read of the store failed; empty if it did not."""
        self._late: Exception | None = None
        """The failure of a read whose reader has gone, for the next reader."""

    @property
    def states(self) -> SegmentStates | None:
        """The segments; None while the metadata is still being read."""
        return self._metadata.states(self.identity)

    # RemoteLog

    def read(self, wanted: ReadRange, found: RemoteResult) -> Pending[RemoteResult]:
        """See `RemoteLog`."""
        return asyncio.get_running_loop().create_task(self._counted(wanted, found))

    def offset_for_timestamp(
        self, timestamp: int, limit_ms: int
    ) -> Pending[TimestampOffset | None]:
        """See `RemoteLog`."""
        limit_ms = limit_ms or self._broker.config.remote_list_offsets_request_timeout_ms
        return asyncio.get_running_loop().create_task(self._search(timestamp, limit_ms))

    def largest_timestamp(self) -> int:
        """See `RemoteLog`."""
        return max((segment.max_timestamp_ms for segment in self._readable()), default=-1)

    async def local_start(self, epoch: int, offset: int) -> LocalStart:
        """See `RemoteLog`."""
        self._counters.starts += 1
        try:
            segment = (await self._ready_states()).find(epoch, offset)
            if segment is None:
                raise KafkaError(
                    Error.OFFSET_MOVED_TO_TIERED_STORAGE, f"no remote segment has offset {offset}"
                )
            work = self._guarded(self._run(partial(self._local_start, segment)))
            # All partitions of the leader wait meanwhile.
            done = await within(self._broker.clock, _START_MS, work)
            if done is None:
                raise KafkaError(Error.REQUEST_TIMED_OUT, f"no answer within {_START_MS} ms")
        except KafkaError:
            self._counters.failed_starts += 1
            raise
        start: LocalStart = done[0]
        return start

    def _local_start(self, segment: RemoteSegment) -> LocalStart:
        reader = self._reader
        return LocalStart(
            offset=segment.end_offset,
            epochs=reader.epochs(segment),
            producers=reader.producers(segment),
        )

    async def _counted(self, wanted: ReadRange, found: RemoteResult) -> RemoteResult:
        self._counters.reads += 1
        try:
            found = await self._read(wanted, found)
        except KafkaError:
            self._counters.failed_reads += 1
            raise
        if found.records is not None:
            self._counters.read_bytes += found.records.size_bytes
        return found

    async def _read(self, wanted: ReadRange, found: RemoteResult) -> RemoteResult:
        states = await self._ready_states()
        if self._late is not None:
            # Otherwise readers would get nothing, and no reason, for as long as the store fails:
            # its client repeats a request for longer than a Fetch waits.
            raise self._failed(self._late)
        log = self.partition.log
        epochs = log.epochs
        segment = states.find(epochs.epoch_at(wanted.offset), wanted.offset)
        if segment is None:
            # The offset is within the log, so its segment is not known yet. Consumers would begin
            # elsewhere after OFFSET_OUT_OF_RANGE, which Apache Kafka returns here.
            raise KafkaError(
                Error.REPLICA_NOT_AVAILABLE, f"no remote segment has offset {wanted.offset} yet"
            )
        limit_ms = self._broker.config.remote_fetch_max_wait_ms
        clock = self._broker.clock
        if self._rate.is_exceeded(clock.now_ms()):
            await Promise[None]().within(clock, limit_ms)
            if self._rate.is_exceeded(clock.now_ms()):
                return found  # As Kafka: nothing for now (KIP-956).
        done = await within(clock, limit_ms, self._found(segment, states, wanted))
        if done is None:
            self._counters.late_reads += 1
            return found  # As Kafka: nothing for now. What was read is in the cache next time.
        batches, source, aborted = done[0]
        self._rate.record(len(batches.records), clock.now_ms())
        found.records = MemorySlice(batches.records)
        found.aborted = aborted
        self._read_ahead(source, batches.next_position)
        return found

    async def _found(
        self, segment: RemoteSegment, states: SegmentStates, wanted: ReadRange
    ) -> tuple[FoundBatches, RemoteSegment, Sequence[AbortedTransaction]]:
        """As `_first_batches`, with the aborted transactions that a reader has to leave out."""
        batches, source = await self._first_batches(segment, states, wanted)
        aborted: Sequence[AbortedTransaction] = ()
        if wanted.committed and batches.records:
            segments = self._from(segment, states)
            aborted = await self._aborted(segments, wanted.offset, batches.end_offset)
        return batches, source, aborted

    async def _first_batches(
        self, segment: RemoteSegment, states: SegmentStates, wanted: ReadRange
    ) -> tuple[FoundBatches, RemoteSegment]:
        """The first batches from an offset on, and the segment that has them."""
        while True:
            read = partial(
                self._reader.read,
                segment,
                wanted.offset,
                wanted.max_bytes,
                at_least_one=wanted.at_least_one,
            )
            batches: FoundBatches = await self._guarded(self._run(self._noted(read)))
            following = None
            if not batches.records and batches.next_position >= segment.size_bytes:
                # Compaction, before the topic was tiered, may have removed the last records.
                following = states.following(segment, self.partition.log.epochs.entries)
            if following is None:
                return batches, segment
            segment = following

    async def _search(self, timestamp: int, limit_ms: int) -> TimestampOffset | None:
        await self._ready_states()
        start_offset = self.partition.log.first_offset
        segments = [each for each in self._readable() if each.max_timestamp_ms >= timestamp]
        if not segments:
            return None

        def search() -> TimestampOffset | None:
            for segment in segments:
                found = self._reader.first_at_or_after(segment, timestamp, start_offset)
                if found is not None:
                    return found
            return None

        done = await within(self._broker.clock, limit_ms, self._guarded(self._run(search)))
        if done is None:
            self._counters.late_look_ups += 1
            raise KafkaError(Error.REQUEST_TIMED_OUT)
        result: TimestampOffset | None = done[0]
        return result

    def _readable(self) -> list[RemoteSegment]:
        """The segments whose records are part of the log, by offset."""
        log, states = self.partition.log, self.states
        found = () if states is None else states.in_lineage(log.epochs.entries, log.end_offset)
        return [segment for segment in found if segment.end_offset > log.first_offset]

    async def _aborted(
        self, segments: Sequence[RemoteSegment], start_offset: int, end_offset: int
    ) -> list[AbortedTransaction]:
        read = partial(self._reader.aborted, segments, start_offset, end_offset)
        range_ = await self._guarded(self._run(self._noted(read)))
        found = list(range_.found)
        log = self.partition.log
        if not range_.is_complete and end_offset > log.first_offset:
            known = set(found)
            found += [
                each
                for each in log.aborted_transactions(log.start_offset, end_offset)
                if each not in known and each.last_offset >= start_offset
            ]
        return found

    def _from(self, segment: RemoteSegment, states: SegmentStates) -> list[RemoteSegment]:
        """A segment and the segments that follow it."""
        entries = self.partition.log.epochs.entries
        found = [segment]
        while (following := states.following(found[-1], entries)) is not None:
            found.append(following)
        return found

    async def _ready_states(self) -> SegmentStates:
        states = self.states
        if states is None:
            await Promise[None]().within(self._broker.clock, _READY_MS)
            states = self.states
        if states is None:
            raise KafkaError(Error.REPLICA_NOT_AVAILABLE, "the remote metadata is being read")
        return states

    async def _guarded(self, work: Awaitable[Any]) -> Any:
        """Convert errors of the store: they are never OFFSET_OUT_OF_RANGE, which resets readers."""
        try:
            result = await work
        except (StoreError, OSError) as error:
            raise self._failed(error) from error
        self.failure = ""
        return result

    def _failed(self, error: Exception) -> KafkaError:
        """The error for a reader; it is logged once."""
        self._late = None
        reason = getattr(error, "reason", str(error))
        if reason != self.failure:
            self.failure = reason
            logger.warning("%s: remote storage failed: %s", self.partition.log.name, error)
        return KafkaError(Error.UNKNOWN_SERVER_ERROR, str(error))

    def _noted(self, job: Job) -> Job:
        """A job that leaves its failure for the next reader, if its own waits no longer."""

        def run() -> Any:
            try:
                result = job()
            except (StoreError, OSError) as error:
                self._late = error
                raise
            self._late = None
            return result

        return run

    def _read_ahead(self, segment: RemoteSegment, position: int) -> None:
        reader = self._reader
        if self._ahead is None and reader.needs_ahead(segment, position):

            async def read_ahead() -> None:
                try:
                    await self._run(lambda: reader.read_ahead(segment, position))
                except (StoreError, OSError, KafkaError):
                    pass  # The read that needs it reports the error.
                finally:
                    self._ahead = None

            self._ahead = asyncio.get_running_loop().create_task(read_ahead())
