"""Copies the closed segments of the partitions that this broker leads, and deletes expired ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from wirekafka.broker import Broker
from wirekafka.errors import KafkaError
from wirekafka.log.files import RealDisk
from wirekafka.log.log import Log
from wirekafka.replication.fetching.throttle import ReplicationThrottle
from wirekafka.runtime.promise import Promise
from wirekafka.server.tiering.copies import Copies, Upload, copy_limit_ms
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

_DELETE_LIMIT_MS = 60_000
_RATE_PAUSE_MS = 100


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
        self._copies = Copies(broker)
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
        if not partition.is_leader or states is None:
            return
        await self._raise_lost_start(tier)
        if log.remote is None:
            return
        now_ms = self._broker.clock.now_ms()
        note_copied(log, states)  # Or a segment that has just been copied would count twice.
        copied_end = log.remote.copied_end_offset
        local = LocalLog(
            epochs=log.epochs.entries,
            start_offset=log.first_offset,
            end_offset=log.end_offset,
            newer_bytes=sum(
                segment.size_bytes for segment in log.segments if segment.base_offset >= copied_end
            ),
            held_from=log.held_from,
        )
        expiry = expired(states, log.config, local, now_ms)
        if expiry.start_offset > log.first_offset:
            # First the log start offset, so that nothing is read while it is deleted.
            log.advance_start(min(expiry.start_offset, partition.high_watermark))
            partition.wake()
        left_over = [segment for segment in states if self._copies.is_left_over(segment)]
        for segment in [*expiry.segments, *left_over]:
            if not partition.is_leader:
                return
            if segment.state is SegmentState.COPY_FINISHED:
                await self.delete(segment)
            else:
                await self._delete_left_over(segment)

    async def _raise_lost_start(self, tier: PartitionTier) -> None:
        """Begin the log with the oldest records that are anywhere, if its checkpoint was lost.

        Raises KafkaError.
        """
        log = tier.partition.log
        if log.remote is None or self._oldest(tier) <= log.first_offset:
            return
        # What is read so far may end at an old high watermark: segments that seem not to be there
        # would be lost.
        await self._metadata.catch_up(tier.identity)
        oldest = self._oldest(tier)
        if tier.partition.is_leader and oldest > log.first_offset:
            logger.info("%s begins at offset %d: nothing older is left", log.name, oldest)
            log.advance_start(oldest)
            tier.partition.wake()

    def _oldest(self, tier: PartitionTier) -> int:
        """The first offset that a log has on its disk or in the store, by the metadata so far."""
        log, states = tier.partition.log, tier.states
        if states is None:
            return log.first_offset
        entries = log.epochs.entries
        owned = states.in_lineage(entries, log.end_offset)
        oldest = min([log.start_offset, *(segment.start_offset for segment in owned)])
        if entries:
            # Remote records are found by their epochs: none is read below the first of them.
            oldest = min(max(oldest, entries[0].start_offset), log.start_offset)
        return oldest

    async def delete_all(self, partition: TieredPartition) -> None:
        """Delete all segments of a partition that is deleted or no longer tiered."""
        states = self._metadata.states(partition)
        for segment in sorted(states or (), key=lambda each: each.start_offset):
            if segment.state is SegmentState.COPY_FINISHED:
                await self.delete(segment)
            elif self._copies.is_left_over(segment):
                await self._delete_left_over(segment)

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

    async def _delete_left_over(self, segment: RemoteSegment) -> None:
        """Delete what nobody continues, unless that has changed meanwhile. Raises as `expire`."""
        if segment.state is SegmentState.COPY_STARTED:
            # The record that the copy is finished may have been written, and not been read here.
            await self._metadata.catch_up(segment.partition)
        states = self._metadata.states(segment.partition)
        present = None if states is None else states.get(segment.id)
        if present is not None and self._copies.is_left_over(present):
            await self.delete(present)

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
        disk = RealDisk() if type(broker.disk) is RealDisk else broker.disk
        upload = Upload(partial(job.run, self._layout, disk))
        self._copies.begin(segment)
        try:
            await self._metadata.publish(segment)
            custom = await self._uploaded(segment, upload)
            await self._finish(segment, custom)
        except (CopyFailed, KafkaError):
            counters.failed_copies += 1
            raise
        finally:
            upload.give_up()  # It has ended, unless this task was cancelled.
            self._copies.end(segment, upload)
        counters.copied_bytes += segment.size_bytes
        self._rate.record(segment.size_bytes, broker.clock.now_ms())

    async def _uploaded(self, segment: RemoteSegment, upload: Upload) -> bytes | None:
        """Upload a segment; returns its custom metadata. Raises CopyFailed."""
        try:
            custom = await self._within(copy_limit_ms(segment.size_bytes), upload)
            self._check_custom(custom)
        except (StoreError, OSError, CopyFailed) as error:
            upload.give_up()
            await self._undo(segment, upload)
            reason = getattr(error, "reason", str(error))
            raise CopyFailed(f"segment {segment.start_offset}: {error}", reason) from error
        return custom

    async def _finish(self, segment: RemoteSegment, custom: bytes | None) -> None:
        """Report that a segment has been copied. Raises KafkaError."""
        finished = self._update(segment, SegmentState.COPY_FINISHED, custom)
        try:
            await self._metadata.publish(finished)
        except (KafkaError, asyncio.CancelledError):
            self._copies.finish_is_uncertain(segment)
            raise

    async def _undo(self, segment: RemoteSegment, upload: Upload) -> None:
        """Delete what a failed copy has left, if the store can; `expire` tries again otherwise."""
        try:
            await self._metadata.publish(self._update(segment, SegmentState.DELETE_STARTED))
            if upload.is_running:
                # What it stores after the deletion would be nobody's if this process ended then.
                logger.info("What a copy has stored is deleted once its upload has ended")
                return
            await self.delete(replace(segment, state=SegmentState.DELETE_STARTED))
        except (KafkaError, StoreError, OSError) as error:
            logger.info("What a failed copy has left is deleted later: %s", error)

    def _check_custom(self, custom: bytes | None) -> None:
        limit_bytes = self._broker.config.remote_log_metadata_custom_metadata_max_bytes
        if custom is not None and len(custom) > limit_bytes:
            raise CopyFailed(f"custom metadata of {len(custom)} bytes, allowed are {limit_bytes}")

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
        log.remote.readable_end_offset = states.readable_end(
            entries, log.start_offset, log.end_offset
        )


def _ignore(segment: RemoteSegment) -> None:
    """The default of `Copier.deleted`."""
