"""Compaction in the background: chooses the next log and swaps in its new segments."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing

from wirekafka.broker import Broker
from wirekafka.errors import KafkaError
from wirekafka.log.compaction.cleanable import (
    Cleanable,
    CleaningProgress,
    cleanable,
    is_due,
    job_for,
)
from wirekafka.log.compaction.cleaner import Cleaned, CleaningJob
from wirekafka.log.compaction.swap import Swap
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.log.files import RealDisk
from wirekafka.log.log import Log
from wirekafka.log.scan import BadBatch
from wirekafka.replication.partition.partition import Partition
from wirekafka.server.background.cleaner_process import (
    CleanerBackend,
    CleanerProcess,
    CleaningFailed,
    InlineCleaner,
)

logger = logging.getLogger(__name__)

_HELD_PAUSE_S = 0.05
_RETRY_MS = 300_000
"""How long a log is skipped after its compaction failed."""
_EXPECTED = (CleaningFailed, KafkaError, OSError)
"""Failures that the log's files, the disk or a change of the log cause; any other is a bug and
logged with its traceback."""
_INTERNAL_ROLL_BYTES = 4 << 20
"""Active segments of internal topics are rolled at this size, since they are never compacted
and coordinators read them at each start: Kafka's 100 MiB hold more than a million commits."""


class Cleaning:
    """Compacts one log at a time, the dirtiest first, until no log is dirty enough."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._backend: CleanerBackend = (
            CleanerProcess() if type(broker.disk) is RealDisk else InlineCleaner(broker.disk)
        )
        self._task: asyncio.Task[None] | None = None
        self._skipped_until_ms: dict[Log, int] = {}

    def start_if_due(self) -> None:
        """Start the task that compacts, unless it is running or no log is dirty enough."""
        if self._task is not None or not self._broker.config.log_cleaner_enable:
            return
        self._roll_internal()
        if self._dirtiest():
            self._task = asyncio.get_running_loop().create_task(self._clean_all())

    def stop(self) -> None:
        """Stop at once; `.cleaned` files left behind are deleted at the next start."""
        if self._task is not None:
            self._task.cancel()
        self._backend.abort()

    def _roll_internal(self) -> None:
        now_ms = self._broker.clock.now_ms()
        for partition in self._broker.partitions.values():
            log = partition.log
            if partition.is_internal and log.segments.active.size_bytes > _INTERNAL_ROLL_BYTES:
                log.roll(now_ms)

    async def _clean_all(self) -> None:
        try:
            while (dirtiest := self._dirtiest()) is not None:
                partition, range_to_clean = dirtiest
                try:
                    await self._clean(partition, range_to_clean)
                except Exception as error:
                    self._skipped_until_ms[partition.log] = self._broker.clock.now_ms() + _RETRY_MS
                    trace = None if isinstance(error, _EXPECTED) else error
                    logger.error(
                        "%s could not be compacted: %s", partition.log.name, error, exc_info=trace
                    )
                    _report(partition.log, error)
        finally:
            await self._backend.rest()
            self._task = None

    def _dirtiest(self) -> tuple[Partition, Cleanable] | None:
        now_ms = self._broker.clock.now_ms()
        self._skipped_until_ms = {
            log: until_ms for log, until_ms in self._skipped_until_ms.items() if until_ms > now_ms
        }
        best: tuple[Partition, Cleanable] | None = None
        dirtiest = 0.0
        for (topic, index), partition in self._broker.partitions.items():
            log = partition.log
            if (
                not log.config.is_compacted
                or len(log.segments) < 2
                # Its copy would keep what a removed tombstone deletes.
                or (topic, index) in self._broker.relocations.moving
                or log in self._skipped_until_ms
            ):
                continue
            offsets = self._broker.directory_of(topic, index).cleaner_offsets
            progress = CleaningProgress(
                offsets.get((topic, index)), partition.last_stable_offset, now_ms
            )
            try:
                candidate = cleanable(log, progress)
            except (BadBatch, OSError) as error:
                self._skipped_until_ms[log] = now_ms + _RETRY_MS
                logger.error("%s cannot be compacted: %s", log.name, error)
                _report(log, error)
                continue
            if candidate is None:
                continue
            dirtiest = max(dirtiest, candidate.ratio)
            if is_due(candidate, log) and (best is None or candidate.ratio > best[1].ratio):
                best = partition, candidate
        self._report_look(now_ms, dirtiest)
        return best

    def _report_look(self, now_ms: int, dirtiest: float) -> None:
        if self._broker.measures is not None:
            run = self._broker.measures.cleaner
            run.at_ms, run.dirtiest = now_ms, dirtiest
            places = [log.directory.rpartition("/")[0] for log in self._skipped_until_ms]
            run.skipped = {place: places.count(place) for place in places}

    async def _clean(self, partition: Partition, range_to_clean: Cleanable) -> None:
        log, clock = partition.log, self._broker.clock
        directory = self._broker.directory_of(partition.topic, partition.index)
        began_ms = clock.now_ms()
        before_bytes = log.size_bytes
        job = job_for(log, range_to_clean, self._broker.config, began_ms)
        measures = self._broker.measures
        left_bytes = {piece.base_offset: piece.log_bytes for piece in job.pieces}
        try:
            async with aclosing(self._backend.clean(job)) as outcome:
                if measures is not None:
                    measures.compacting_bytes = sum(left_bytes.values())
                async for progress in outcome:
                    if not isinstance(progress, Cleaned):
                        await self._record_clean(directory, partition, progress)
                        continue
                    await self._swap_in(log, job, progress)
                    if measures is not None:
                        for base_offset in progress.replaced:
                            measures.compacting_bytes -= left_bytes.pop(base_offset, 0)
        finally:
            if measures is not None:
                measures.compacting_bytes = 0
        if measures is not None:
            took_ms = max(clock.now_ms() - began_ms, 0)
            measures.compactions.record(took_ms * 1000)
            measures.cleaner.last_s = took_ms / 1000
            measures.compacted_bytes += max(before_bytes - log.size_bytes, 0)
        logger.info(
            "Compacted %s up to offset %d: %d of %d bytes remain, in %d ms",
            log.name,
            directory.cleaner_offsets.get((partition.topic, partition.index), 0),
            log.size_bytes,
            before_bytes,
            clock.now_ms() - began_ms,
        )

    async def _swap_in(self, log: Log, job: CleaningJob, cleaned: Cleaned) -> None:
        swap = Swap(self._broker.disk, log, job, cleaned)
        moving = self._broker.relocations.moving
        is_done = False
        try:
            await self._until_released()
            if swap.is_possible() and (log.topic, log.partition) not in moving:
                swap.announce()
                await asyncio.to_thread(self._broker.disk.fsync_directory, job.directory)
                await self._until_released()
                if swap.is_possible() and (log.topic, log.partition) not in moving:
                    swap.carry_out(self._broker.clock.now_ms())
                    is_done = True
        finally:
            if not is_done and not log.has_failed:
                swap.discard()
        if not is_done:
            raise CleaningFailed("its segments changed during the compaction")

    async def _until_released(self) -> None:
        """Wait while a snapshot takes files: it would take the new one under the same name."""
        while self._broker.disk.holds:
            await asyncio.sleep(_HELD_PAUSE_S)

    async def _record_clean(
        self, directory: LogDirectory, partition: Partition, end_offset: int
    ) -> None:
        """Write the cleaner offset checkpoint, once the renamed files are durable."""
        await asyncio.to_thread(self._broker.disk.fsync_directory, partition.log.directory)
        key = partition.topic, partition.index
        if directory.logs.get(key) is partition.log:
            directory.cleaner_offsets[key] = end_offset
            await asyncio.to_thread(directory.write_cleaner_offsets)


def _report(log: Log, error: Exception) -> None:
    if log.report is not None and isinstance(error, OSError):
        log.report(error)
