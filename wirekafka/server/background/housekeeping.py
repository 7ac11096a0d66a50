"""Periodic tasks of a broker: retention, fsync, checkpoints, snapshots, idle connections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from wirekafka.broker import Broker
from wirekafka.clock import Timer
from wirekafka.config.options import TOPIC as OPTIONS
from wirekafka.config.own import disk_limit
from wirekafka.errors import KafkaError
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.log.log import Log
from wirekafka.metadata.image.image import TOPIC
from wirekafka.replication.partition.partition import Partition
from wirekafka.server.background.cleaning import Cleaning
from wirekafka.server.background.relocating import Relocating
from wirekafka.server.background.syncing import Syncing
from wirekafka.server.background.table_notice import TableNotice
from wirekafka.server.background.threads import OwnThread, sync_in_thread
from wirekafka.server.connections.listener import Listener

if TYPE_CHECKING:
    from wirekafka.server.space.disk_space import DiskSpace

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

FOREVER_MS = (1 << 63) - 1
_SWEEP_MS = 5_000
_SWEEP_PAUSE_MS = 2
_REVIEW_MS = 300
_READERS_MS = 30_000
"""How soon a change of the limits on connections takes effect."""
_TABLES_MS = 5_000
"""How soon a topic is noticed whose table is not written here."""
_REMOVE_MS = 10_000
_REMOVE_PAUSE_MS = 5
_REMOVED_FILES = 40
"""How many files of deleted logs are removed between two pauses: one or two milliseconds."""
_TURN_MS = 2
_TURN_PAUSE_MS = 5
"""How long a loop over partitions runs before it pauses, and for how long it pauses."""
_SYNC_MS = 1_000
_SPACE_MS = 1_000
_LEAST_SPACE_MS = 10
_FASTEST_BYTES_PER_MS = 1 << 20
"""No broker writes faster: the free space is checked before it can get below the reserve."""
_SNAPSHOT_MS = 10_000
_HELD_PAUSE_MS = 100
_LEAST_BACKOFF_MS = 100
_KEEP_UNREAD = OPTIONS["wirekafka.retention.keep.unread"].name
_UNLIMITED_BYTES = 1 << 63
_RESERVE_BYTES = 32 << 20
"""Free space to keep on a disk, so that metadata and checkpoints can still be written."""


class Housekeeping:
    """Runs the periodic tasks; a task that raises is logged and runs again at its next interval."""

    def __init__(self, broker: Broker, listeners: Callable[[], Sequence[Listener]]):
        self._broker = broker
        self._listeners = listeners
        self._timers: dict[str, Timer] = {}
        self._checkpointed: object = None
        self._high_watermarks: dict[tuple[str, int], int] = {}
        self._is_checkpointing = False
        self._syncing = Syncing(broker)
        # One batch at a time: a batch that is converted may take up to 64 MiB of memory.
        self._checks = OwnThread("checks")
        broker.check_apart = self._checks.run
        self._sync_task: asyncio.Task[None] | None = None
        self._unsynced_since_ms: dict[Log, int] = {}
        self._has_space = True
        self._unretained: list[tuple[str, int]] = []
        self._sweep: Iterator[None] | None = None
        """The running check of the connections."""
        self._failing: set[str] = set()
        self._cleaning = Cleaning(broker)
        self._relocating = Relocating(broker)
        self._tables = TableNotice(broker)
        self._is_stopped = False
        self.space: DiskSpace | None = None
        """Budgets and unread records that are kept; None while there are neither."""
        self._kept_generation = -1
        self._holding: Iterator[None] | None = None
        """The running search for what retention must keep."""

    def start(self) -> None:
        """Start every timer."""
        config = self._broker.config
        self._syncing.start()
        self._checks.start()
        self._relocating.start()
        self._every(_SWEEP_MS, self._sweep_connections)
        self._every(_REVIEW_MS, self._review_limits)
        self._every(_READERS_MS, self._sweep_readers)
        self._every(_TABLES_MS, self._tables.notice_tables)
        self._every(_REMOVE_MS, self._remove_deleted)
        self._every(config.log_retention_check_interval_ms, self._retain)
        self._every(config.log_flush_offset_checkpoint_interval_ms, self._checkpoint)
        self._every(
            config.replica_high_watermark_checkpoint_interval_ms, self._checkpoint_high_watermarks
        )
        self._every(config.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._every(_SYNC_MS, self._sync_due)
        self._every(self._check_space(), self._check_space)
        self._every(_SPACE_MS, self._keep_space)
        self._every(_SNAPSHOT_MS, self._snapshot_metadata)
        backoff_ms = max(config.log_cleaner_backoff_ms, _LEAST_BACKOFF_MS)
        self._every(backoff_ms, self._cleaning.start_if_due)

    def stop(self) -> None:
        """Cancel every timer."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._cleaning.stop()
        self._relocating.stop()
        self._checks.stop()
        self._syncing.stop()

    def _every(self, interval_ms: int, task: Callable[[], int | None]) -> None:
        """Run a task periodically; it may return the delay in ms until its next run."""

        def fire() -> None:
            pause_ms = None
            try:
                pause_ms = task()
                self._failing.discard(task.__name__)
            except Exception:
                if task.__name__ not in self._failing:
                    # Log once: the task runs again.
                    self._failing.add(task.__name__)
                    logger.exception("%s failed", task.__name__.strip("_"))
            if not self._is_stopped:
                delay_ms = interval_ms if pause_ms is None else pause_ms
                self._timers[task.__name__] = self._broker.clock.call_later(delay_ms, fire)

        self._timers[task.__name__] = self._broker.clock.call_later(interval_ms, fire)

    def _sweep_connections(self) -> int | None:
        """Check some connections; returns the ms until the next check, None at the end."""
        now_ms = self._broker.clock.now_ms()
        if self._sweep is None:
            self._sweep = chain.from_iterable(
                listener.sweep_in_steps(now_ms) for listener in self._listeners()
            )
        sweep, self._sweep = self._sweep, None  # Forgotten if it fails.
        for _ in sweep:
            self._sweep = sweep
            return _SWEEP_PAUSE_MS
        return None

    def _review_limits(self) -> None:
        for listener in self._listeners():
            listener.review()

    def _sweep_readers(self) -> None:
        self._broker.readers.sweep(self._broker.clock.now_ms())

    def _remove_deleted(self) -> int | None:
        """Remove files of deleted partitions and retired segments, a few at a time."""
        if self._broker.disk.holds:
            return None
        now_ms = self._broker.clock.now_ms()
        again_ms = self._on_each_disk(
            lambda directory: directory.remove_deleted(now_ms, _REMOVED_FILES)
        )
        is_more_due = any(due_ms is not None and due_ms <= now_ms for due_ms in again_ms)
        return _REMOVE_PAUSE_MS if is_more_due else None

    def _snapshot_metadata(self) -> None:
        broker = self._broker
        now_ms = broker.clock.now_ms()
        broker.metadata_snapshots.write_if_due(broker.config, now_ms)
        broker.metadata_snapshots.clean_if_due(now_ms)

    def _retain(self) -> int | None:
        """Delete segments beyond retention.ms or retention.bytes, or below the log start offset.

        Returns the pause in ms before the next partitions, or None when all were checked.
        """
        if self._broker.disk.holds:
            return _HELD_PAUSE_MS
        if not self._unretained:
            if self._is_holding():
                return _TURN_PAUSE_MS
            self._unretained = list(self._broker.partitions)
        clock = self._broker.clock
        turn_ends_ms = clock.now_ms() + _TURN_MS
        while self._unretained:
            partition = self._broker.partitions.get(self._unretained.pop())
            if partition is not None:
                try:
                    if partition.log.delete_old_segments(clock.now_ms(), partition.high_watermark):
                        partition.wake()
                except KafkaError as error:
                    logger.error("Retention of %s failed: %s", partition.log.name, error)
            if clock.now_ms() >= turn_ends_ms:
                break
        return _TURN_PAUSE_MS if self._unretained else None

    def _is_holding(self) -> bool:
        """Find out a bit more of what retention must keep; whether there is more to find."""
        if self.space is None:
            return False
        holding, self._holding = self._holding or self.space.hold(), None  # Forgotten if it fails.
        for _ in holding:
            self._holding = holding
            return True
        return False

    def _keep_space(self) -> int | None:
        """Keep the budgets of directories, and what groups have not read, where that is set."""
        if self.space is None and self._is_space_kept():
            from wirekafka.server.space.disk_space import DiskSpace

            limit = disk_limit(self._broker.config.sources)
            self.space = DiskSpace(self._broker, limit, _RESERVE_BYTES)
        return None if self.space is None else self.space.work()

    def _is_space_kept(self) -> bool:
        """Whether there is a budget, or a topic whose unread records are kept."""
        image = self._broker.image
        if image.generation == self._kept_generation:
            return False
        self._kept_generation = image.generation
        return disk_limit(self._broker.config.sources) is not None or any(
            kind == TOPIC
            and _KEEP_UNREAD in values
            and self._broker.topic_config(name).wirekafka_retention_keep_unread
            for (kind, name), values in image.configs.items()
        )

    def _checkpoint(self) -> None:
        """Write the offset checkpoints, unless no offset has changed."""
        offsets = [
            (partition.high_watermark, partition.start_offset, partition.log.recovery_point)
            for partition in self._broker.partitions.values()
        ]
        if offsets == self._checkpointed:
            return
        high_watermarks = self._broker.high_watermarks()
        self._on_each_disk(lambda directory: directory.checkpoint(high_watermarks))
        self._checkpointed = offsets

    def _checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks in a thread, if any has changed.

        Without followers the broker itself does not need them, as the whole log is then committed
        after a restart; but whoever reads its files ends there (`wirekafka.reader`).
        """
        if self._is_checkpointing:
            return
        high_watermarks = self._broker.high_watermarks()
        if high_watermarks == self._high_watermarks:
            return

        failures: list[tuple[LogDirectory, OSError]] = []

        def write() -> None:
            for directory in self._working():
                try:
                    directory.checkpoint_high_watermarks(high_watermarks)
                except OSError as error:
                    failures.append((directory, error))

        def written(error: BaseException | None) -> None:
            self._is_checkpointing = False
            for directory, failure in failures:
                logger.error("The high watermarks could not be written: %s", failure)
                directory.note(failure)
            if error is None and not failures:
                self._high_watermarks = high_watermarks

        self._is_checkpointing = True
        sync_in_thread(write, written)

    def _on_each_disk(self, task: Callable[[LogDirectory], _Result]) -> list[_Result]:
        """Call for each directory in service; a directory that fails is taken out of service."""
        results = []
        for directory in self._working():
            try:
                results.append(task(directory))
            except OSError as error:
                logger.error("%s cannot be used: %s", directory.path, error)
                directory.note(error)
        return results

    def _working(self) -> list[LogDirectory]:
        return [each for each in self._broker.directories if each.failure is None]

    def _expire_producers(self) -> None:
        now_ms = self._broker.clock.now_ms()
        expiration_ms = self._broker.config.producer_id_expiration_ms
        for partition in self._broker.partitions.values():
            partition.log.producers.expire(now_ms, expiration_ms)

    def _check_space(self) -> int:
        """Refuse appends before a disk is full; the begin and the end are logged once.

        Returns the delay in ms until the next check, which is due the sooner the less is free.
        """
        now_ms = self._broker.clock.now_ms()
        refusals = self._on_each_disk(
            lambda directory: directory.check_space(_RESERVE_BYTES, now_ms)
        )
        full = [refusal for refusal in refusals if refusal is not None]
        has_space = not full
        if has_space != self._has_space:
            self._has_space = has_space
            if has_space:
                logger.info("The disks have free space again: appends are accepted")
            else:
                logger.error("Appends are refused, reads are served: %s", "; ".join(full))
        left = [(each.free_bytes or 0) - _RESERVE_BYTES for each in self._working()]
        least = min((each for each in left if each >= 0), default=_UNLIMITED_BYTES)
        return min(max(least // _FASTEST_BYTES_PER_MS, _LEAST_SPACE_MS), _SPACE_MS)

    def _sync_due(self) -> None:
        """Sync, in a thread, logs with rolled segments, which recovery need not scan then, and logs
        whose flush.ms has passed."""
        if self._sync_task is not None:
            return
        now_ms = self._broker.clock.now_ms()
        partitions = self._broker.partitions.values()
        due = [partition for partition in partitions if self._is_sync_due(partition.log, now_ms)]
        if self._unsynced_since_ms:
            present = {partition.log for partition in partitions}
            for log in self._unsynced_since_ms.keys() - present:
                del self._unsynced_since_ms[log]
        if due:
            self._sync_task = asyncio.get_running_loop().create_task(self._sync(due))

    def _is_sync_due(self, log: Log, now_ms: int) -> bool:
        if log.has_failed:
            return False
        if log.recovery_point < log.segments.active.base_offset:
            return True
        if log.config.flush_ms == FOREVER_MS:
            return False
        if log.recovery_point == log.end_offset:
            self._unsynced_since_ms.pop(log, None)
            return False
        return now_ms - self._unsynced_since_ms.setdefault(log, now_ms) >= log.config.flush_ms

    async def _sync(self, partitions: Sequence[Partition]) -> None:
        try:
            for partition in partitions:
                self._unsynced_since_ms.pop(partition.log, None)
                if not partition.log.has_failed:
                    await self._syncing.sync(partition)
        finally:
            self._sync_task = None
