"""Syncs logs in threads: all appends that arrive during one fsync share the next one."""

from __future__ import annotations

import asyncio
import logging

from wirekafka.broker import Broker
from wirekafka.errors import KafkaError
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.log.log import Log
from wirekafka.replication.partition.partition import Partition

logger = logging.getLogger(__name__)

_RETRY_S = 0.5


class Syncing:
    """Runs at most one fsync of a log at a time.

    A second one would not wait until the first has synced the directory entries.
    """

    def __init__(self, broker: Broker):
        self._broker = broker
        self._turns: dict[Log, _Turns] = {}
        self._tasks: dict[Partition, asyncio.Task[None]] = {}
        self._failing: set[str] = set()
        """The names of logs whose last sync has failed."""
        self._is_stopped = False

    def start(self) -> None:
        """Take over the fsyncs of all partitions, including those created later."""
        self._is_stopped = False
        self._broker.sync_later = self._begin
        for partition in self._broker.partitions.values():
            partition.sync_later = self._begin

    def stop(self) -> None:
        """Return the fsyncs to the partitions."""
        self._is_stopped = True
        self._broker.sync_later = None
        for partition in self._broker.partitions.values():
            partition.sync_later = None

    async def sync(self, partition: Partition) -> bool:
        """Sync a log up to its present end; returns False if the sync failed.

        Whether its directory has failed too depends on the error, see `LogDirectory.note`.
        A partition that was deleted is not synced (False).
        """
        key = partition.topic, partition.index
        if self._broker.partitions.get(key) is not partition:
            return False
        log = partition.log
        directory = self._broker.directory_of(*key)
        turns = self._turns.setdefault(log, _Turns())
        turns.wanted += 1
        try:
            async with turns.lock:
                flush = log.begin_flush()
                if flush is not None:
                    began_ns = self._broker.clock.work_ns()
                    try:
                        await asyncio.to_thread(flush.run)
                    except OSError as error:
                        if directory.logs.get(key) is log:
                            log.withdraw_flush(flush, error)
                        raise
                    log.finish_flush(flush)
                    if self._broker.measures is not None:
                        took_ns = self._broker.clock.work_ns() - began_ns
                        self._broker.measures.flushes.record(took_ns // 1000)
        except OSError as error:
            self._failed(directory, partition, error)
            return False
        finally:
            turns.wanted -= 1
            if not turns.wanted:
                del self._turns[log]
        self._failing.discard(log.name)
        return True

    def _failed(self, directory: LogDirectory, partition: Partition, error: OSError) -> None:
        """Fail the log directory, unless nothing was lost, so that the sync can be repeated.

        Not if the partition has been deleted meanwhile, so that its files have other names.
        """
        log = partition.log
        if log.name not in self._failing:  # Logged once: it is repeated.
            self._failing.add(log.name)
            logger.error("%s could not be synced: %s", log.name, error)
        if directory.logs.get((partition.topic, partition.index)) is log:
            directory.note(error)
        partition.wake_all()

    def _begin(self, partition: Partition) -> None:
        if partition not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._sync_until_done(partition))
            self._tasks[partition] = task

    async def _sync_until_done(self, partition: Partition) -> None:
        key = partition.topic, partition.index
        try:
            while not partition.log.has_failed:
                if await self.sync(partition):
                    if partition.synced():
                        break
                elif self._is_stopped or self._broker.partitions.get(key) is not partition:
                    break
                else:
                    await asyncio.sleep(_RETRY_S)
        except KafkaError as error:
            logger.error("%s could not be synced: %s", partition.log.name, error)
        finally:
            del self._tasks[partition]


class _Turns:
    """The order of a log's syncs, kept while any is under way or waits."""

    __slots__ = ("lock", "wanted")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.wanted = 0
