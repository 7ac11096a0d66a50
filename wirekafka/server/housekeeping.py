"""What a broker does now and then: retention, syncing, checkpoints, closing idle connections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from wirekafka.broker import Broker
from wirekafka.clock import Timer
from wirekafka.errors import KafkaError
from wirekafka.log.log import Log
from wirekafka.replication.partition import Partition
from wirekafka.server.cleaning import Cleaning
from wirekafka.server.listener import Listener
from wirekafka.server.syncing import Syncing

logger = logging.getLogger(__name__)

FOREVER_MS = (1 << 63) - 1
_SWEEP_MS = 5_000
_REMOVE_MS = 10_000
_SYNC_MS = 1_000
_SPACE_MS = 1_000
_SNAPSHOT_MS = 10_000
_LEAST_BACKOFF_MS = 100
_RESERVE_BYTES = 32 << 20
"""What is kept free of a disk, so that metadata and checkpoints can still be written."""


class Housekeeping:
    """Timers that outlive every fault of what they call."""

    def __init__(self, broker: Broker, listeners: Sequence[Listener]):
        self._broker = broker
        self._listeners = listeners
        self._timers: dict[str, Timer] = {}
        self._checkpointed: object = None
        self._syncing = Syncing(broker)
        self._is_syncing = False
        self._unsynced_since_ms: dict[Log, int] = {}
        self._has_space = True
        self._failing: set[str] = set()
        self._cleaning = Cleaning(broker)
        self._is_stopped = False

    def start(self) -> None:
        """Set every timer."""
        config = self._broker.config
        self._syncing.start()
        self._every(_SWEEP_MS, self._sweep_connections)
        self._every(_REMOVE_MS, self._remove_deleted)
        self._every(config.log_retention_check_interval_ms, self._retain)
        self._every(config.log_flush_offset_checkpoint_interval_ms, self._checkpoint)
        self._every(config.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._every(_SYNC_MS, self._sync_due)
        self._every(_SPACE_MS, self._check_space)
        self._every(_SNAPSHOT_MS, self._snapshot_metadata)
        backoff_ms = max(config.log_cleaner_backoff_ms, _LEAST_BACKOFF_MS)
        self._every(backoff_ms, self._cleaning.start_if_due)

    def stop(self) -> None:
        """Clear every timer."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._cleaning.stop()
        self._syncing.stop()

    def _every(self, interval_ms: int, task: Callable[[], None]) -> None:
        def fire() -> None:
            try:
                task()
                self._failing.discard(task.__name__)
            except Exception:
                if task.__name__ not in self._failing:
                    # Once: it is tried again and again.
                    self._failing.add(task.__name__)
                    logger.exception("%s failed", task.__name__.strip("_"))
            if not self._is_stopped:
                self._timers[task.__name__] = self._broker.clock.call_later(interval_ms, fire)

        self._timers[task.__name__] = self._broker.clock.call_later(interval_ms, fire)

    def _sweep_connections(self) -> None:
        now_ms = self._broker.clock.now_ms()
        for listener in self._listeners:
            listener.sweep(now_ms)

    def _remove_deleted(self) -> None:
        now_ms = self._broker.clock.now_ms()
        for directory in self._broker.directories:
            directory.remove_deleted(now_ms)

    def _snapshot_metadata(self) -> None:
        broker = self._broker
        broker.metadata_snapshots.write_if_due(broker.config, broker.clock.now_ms())

    def _retain(self) -> None:
        """Retire the segments that retention.ms, retention.bytes or DeleteRecords let go."""
        now_ms = self._broker.clock.now_ms()
        for partition in list(self._broker.partitions.values()):
            try:
                partition.log.delete_old_segments(now_ms, partition.high_watermark)
            except KafkaError as error:
                logger.error("Retention of %s failed: %s", partition.log.name, error)

    def _checkpoint(self) -> None:
        """Write the offset checkpoints, unless nothing has moved."""
        offsets = [(partition.high_watermark, partition.log.start_offset,
                    partition.log.recovery_point)
                   for partition in self._broker.partitions.values()]
        if offsets == self._checkpointed:
            return
        high_watermarks = self._broker.high_watermarks()
        for directory in self._broker.directories:
            directory.checkpoint(high_watermarks)
        self._checkpointed = offsets

    def _expire_producers(self) -> None:
        now_ms = self._broker.clock.now_ms()
        expiration_ms = self._broker.config.producer_id_expiration_ms
        for partition in self._broker.partitions.values():
            partition.log.producers.expire(now_ms, expiration_ms)

    def _check_space(self) -> None:
        """Refuse appends before the disk is full; tell once when that begins and ends."""
        full = [directory.path for directory in self._broker.directories
                if not directory.check_space(_RESERVE_BYTES)]
        has_space = not full
        if has_space != self._has_space:
            self._has_space = has_space
            if has_space:
                logger.info("There is room on the disk again: records are taken")
            else:
                logger.error("Nearly full: %s. Records are refused, reading goes on",
                             ", ".join(full))

    def _sync_due(self) -> None:
        """Sync what rolled, so that recovery need not scan sealed segments, and what flush.ms
        asks for; in a thread."""
        if self._is_syncing:
            return
        now_ms = self._broker.clock.now_ms()
        due = [partition for partition in self._broker.partitions.values()
               if self._is_sync_due(partition.log, now_ms)]
        if due:
            self._is_syncing = True
            asyncio.get_running_loop().create_task(self._sync(due))

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
        for partition in partitions:
            self._unsynced_since_ms.pop(partition.log, None)
            await self._syncing.sync(partition)
        self._is_syncing = False
