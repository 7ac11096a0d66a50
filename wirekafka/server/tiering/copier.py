"""Copies the closed segments of the partitions that this broker leads, and deletes expired ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from threading import Event

from wirekafka.broker import Broker
from wirekafka.errors import KafkaError
from wirekafka.log.files import RealDisk
from wirekafka.log.log import Log
from wirekafka.replication.fetching.throttle import ReplicationThrottle
from wirekafka.runtime.promise import Promise
from wirekafka.server.tiering.partition_tier import PartitionTier
from wirekafka.server.tiering.remote_metadata import RemoteMetadata
from wirekafka.server.tiering.work import Job, Run, within
from wirekafka.tiered.copying import Candidate, CopyJob, candidates
from wirekafka.tiered.counters import TierCounters
from wirekafka.tiered.expiry import LocalLog, expired
from wirekafka.tiered.layout import Layout
from wirekafka.tiered.remote_segment import (
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
    TieredPartition,
)
from wirekafka.tiered.segment_states import SegmentStates
from wirekafka.tiered.store import StoreError

logger = logging.getLogger(__name__)

_COPY_LIMIT_MS = 120_000
_LEAST_COPY_RATE = 1 << 20
"""Bytes a second: a slower copy is given up, since it has probably stopped for good."""
_DELETE_LIMIT_MS = 60_000
_RATE_PAUSE_MS = 100
_ABANDONED_MS = 600_000
"""After which a copy that another broker has begun and not finished counts as given up."""


class CopyFailed(Exception):
    """A copy that was given up; it is repeated at the next run."""

    def __init__(self, message: str, reason: str = ""):
        super().__init__(message)
        self.reason = reason or message
        """As `StoreError.reason`."""


class Copier:
    """The periodic work on one partition at a time, for all of them."""

    def __init__(self, broker: Broker, metadata: RemoteMetadata, layout: Layout, run: Run):
        self._broker = broker
        self._metadata = metadata
        self._layout = layout
        self._run = run
        self._copying: set[bytes] = set()
        """The ids of the segments that are being copied here."""
        config = broker.config
        self._rate = ReplicationThrottle(
            broker.node_id,
            lambda: broker.config.remote_log_manager_copy_max_bytes_per_second,
            config.remote_log_manager_copy_quota_window_num,
            config.remote_log_manager_copy_quota_window_size_seconds * 1_000,
        )
        self.counters: Callable[[str], TierCounters] = lambda topic: TierCounters()
        """Returns the counters of a topic."""
        self.deleted: Callable[[RemoteSegment], None] = _ignore
        """Called with each segment whose objects are gone."""

    async def copy(self, tier: PartitionTier) -> None:
        """Copy all segments of a partition that are due, the oldest first.

        Raises CopyFailed, KafkaError.
        """
        partition, states = tier.partition, tier.states
        leader = partition.leader
        if leader is None or states is None:
            return
        log = partition.log
        if log.remote is None or log.config.remote_log_copy_disable:
            return
        epoch, now_ms = partition.leader_epoch, self._broker.clock.now_ms()
        from_offset = log.remote.readable_end_offset
        due = candidates(log, log.config, from_offset, partition.last_stable_offset, now_ms)
        for candidate in due:
            await self._wait_for_rate()
            if partition.leader is not leader or partition.leader_epoch != epoch:
                return
            await self._copy_one(tier, candidate)
            note_copied(log, tier.states)

    async def expire(self, tier: PartitionTier) -> None:
        """Delete the segments of a partition that are expired, and what failures have left.

        Raises KafkaError, StoreError.
        """
        partition, states = tier.partition, tier.states
        log = partition.log
        if not partition.is_leader or states is None or log.remote is None:
            return
        now_ms = self._broker.clock.now_ms()
        self._raise_lost_start(tier, states)
        copied_end = log.remote.copied_end_offset
        local = LocalLog(
            epochs=log.epochs.entries,
            start_offset=log.first_offset,
            end_offset=log.end_offset,
            newer_bytes=sum(
                segment.size_bytes for segment in log.segments if segment.base_offset >= copied_end
            ),
        )
        expiry = expired(states, log.config, local, now_ms)
        if expiry.start_offset > log.first_offset:
            # First the log start offset, so that nothing is read while it is deleted.
            log.advance_start(min(expiry.start_offset, partition.high_watermark))
            partition.wake()
        for segment in [*expiry.segments, *self._left_over(states, now_ms)]:
            if not partition.is_leader:
                return
            await self.delete(segment)

    def _raise_lost_start(self, tier: PartitionTier, states: SegmentStates) -> None:
        """Begin the log with the oldest records that are anywhere, if its checkpoint was lost."""
        log = tier.partition.log
        entries = log.epochs.entries
        owned = states.in_lineage(entries, log.end_offset)
        oldest = min([log.start_offset, *(segment.start_offset for segment in owned)])
        if entries:
            # Remote records are found by their epochs: none is read below the first of them.
            oldest = min(max(oldest, entries[0].start_offset), log.start_offset)
        if oldest > log.first_offset:
            logger.info("%s begins at offset %d: nothing older is left", log.name, oldest)
            log.advance_start(oldest)
            tier.partition.wake()

    async def delete_all(self, partition: TieredPartition) -> None:
        """Delete all segments of a partition that is deleted or no longer tiered."""
        states = self._metadata.states(partition)
        for segment in sorted(states or (), key=lambda each: each.start_offset):
            if segment.id not in self._copying:
                await self.delete(segment)

    async def delete(self, segment: RemoteSegment) -> None:
        """Delete a segment's objects, and report it before and after. Raises as `expire`."""
        counters = self.counters(segment.partition.topic)
        counters.deletions += 1
        try:
            if segment.state is not SegmentState.DELETE_STARTED:
                await self._metadata.publish(self._update(segment, SegmentState.DELETE_STARTED))
            await self._within(_DELETE_LIMIT_MS, partial(self._layout.delete, segment))
            await self._metadata.publish(self._update(segment, SegmentState.DELETE_FINISHED))
        except (KafkaError, StoreError, OSError):
            counters.failed_deletions += 1
            raise
        self.deleted(segment)

    async def _copy_one(self, tier: PartitionTier, candidate: Candidate) -> None:
        broker = self._broker
        job = CopyJob.of(
            tier.partition.log,
            candidate,
            tier.identity,
            segment_id=broker.new_id(),
            broker_id=broker.node_id,
            now_ms=broker.clock.now_ms(),
        )
        segment = job.segment
        if not segment.epochs:
            raise CopyFailed(f"the leader epochs of segment {segment.start_offset} are unknown")
        counters = self.counters(segment.partition.topic)
        counters.copies += 1
        self._copying.add(segment.id)
        given_up = Event()
        try:
            await self._metadata.publish(segment)
            disk = RealDisk() if type(broker.disk) is RealDisk else broker.disk
            limit_ms = _COPY_LIMIT_MS + segment.size_bytes * 1_000 // _LEAST_COPY_RATE
            try:
                upload = partial(job.run, self._layout, disk, given_up)
                custom = await self._within(limit_ms, upload)
                self._check_custom(custom)
            except (StoreError, OSError, CopyFailed) as error:
                given_up.set()  # The upload may go on in its thread.
                await self._undo(segment)
                reason = getattr(error, "reason", str(error))
                raise CopyFailed(f"segment {segment.start_offset}: {error}", reason) from error
            finished = self._update(segment, SegmentState.COPY_FINISHED, custom)
            await self._metadata.publish(finished)
        except (CopyFailed, KafkaError):
            counters.failed_copies += 1
            raise
        except asyncio.CancelledError:
            given_up.set()
            raise
        finally:
            self._copying.discard(segment.id)
        counters.copied_bytes += segment.size_bytes
        self._rate.record(segment.size_bytes, broker.clock.now_ms())

    async def _undo(self, segment: RemoteSegment) -> None:
        """Delete what a failed copy has left, if the store can; `expire` tries again otherwise."""
        try:
            await self.delete(segment)
        except (KafkaError, StoreError, OSError) as error:
            logger.info("What a failed copy has left is deleted later: %s", error)

    def _check_custom(self, custom: bytes | None) -> None:
        limit_bytes = self._broker.config.remote_log_metadata_custom_metadata_max_bytes
        if custom is not None and len(custom) > limit_bytes:
            raise CopyFailed(f"custom metadata of {len(custom)} bytes, allowed are {limit_bytes}")

    def _left_over(self, states: SegmentStates, now_ms: int) -> list[RemoteSegment]:
        """Deletions that were not completed, and copies that nobody continues."""
        return [
            segment
            for segment in states
            if segment.state is SegmentState.DELETE_STARTED
            or (
                segment.state is SegmentState.COPY_STARTED
                and segment.id not in self._copying
                # Another broker may still be copying: it does not know yet that it does not lead.
                and (
                    segment.broker_id == self._broker.node_id
                    or now_ms - segment.event_ms > _ABANDONED_MS
                )
            )
        ]

    async def _within(self, limit_ms: int, job: Job) -> bytes | None:
        """Run a job in a thread. Raises StoreError if it takes too long."""
        done = await within(self._broker.clock, limit_ms, self._run(job))
        if done is None:
            raise StoreError(f"no answer within {limit_ms} ms")
        result: bytes | None = done[0]
        return result

    def _update(
        self, segment: RemoteSegment, state: SegmentState, custom: bytes | None = None
    ) -> SegmentUpdate:
        return SegmentUpdate(
            partition=segment.partition,
            id=segment.id,
            broker_id=self._broker.node_id,
            event_ms=self._broker.clock.now_ms(),
            state=state,
            custom_metadata=custom,
        )

    async def _wait_for_rate(self) -> None:
        """Wait while more is copied per second than is allowed (KIP-956)."""
        clock = self._broker.clock
        while self._rate.is_exceeded(clock.now_ms()):
            await Promise[None]().within(clock, _RATE_PAUSE_MS)


def note_copied(log: Log, states: SegmentStates | None) -> None:
    """Let a log know how far it has been copied, so that it can delete local segments."""
    if log.remote is not None and states is not None:
        entries = log.epochs.entries
        log.remote.copied_end_offset = states.end_offset(entries, log.end_offset)
        log.remote.readable_end_offset = states.readable_end(entries, log.start_offset)


def _ignore(segment: RemoteSegment) -> None:
    """The default of `Copier.deleted`."""
