"""Syncing logs in threads: appends that come while one sync runs share the next."""

from __future__ import annotations

import asyncio
import logging

from wirekafka.broker import Broker
from wirekafka.errors import KafkaError
from wirekafka.log.log import Log
from wirekafka.replication.partition import Partition

logger = logging.getLogger(__name__)


class Syncing:
    """At most one sync of a log at a time: a second one would not wait for the first's names."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._locks: dict[Log, asyncio.Lock] = {}
        self._tasks: dict[Partition, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Sync for all partitions, those to come as well."""
        self._broker.sync_later = self._begin
        for partition in self._broker.partitions.values():
            partition.sync_later = self._begin

    def stop(self) -> None:
        """Leave it to the partitions again."""
        self._broker.sync_later = None
        for partition in self._broker.partitions.values():
            partition.sync_later = None

    async def sync(self, partition: Partition) -> bool:
        """Sync what is in a log by now; whether that went well. An error is not tried again."""
        log = partition.log
        try:
            async with self._locks.setdefault(log, asyncio.Lock()):
                flush = log.begin_flush()
                if flush is not None:
                    await asyncio.to_thread(flush.run)
                    log.finish_flush(flush)
        except OSError as error:
            self._fail(partition, error)
            return False
        return True

    def _begin(self, partition: Partition) -> None:
        if partition not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._sync_until_done(partition))
            self._tasks[partition] = task

    async def _sync_until_done(self, partition: Partition) -> None:
        try:
            while await self.sync(partition) and not partition.synced():
                pass
        except KafkaError as error:
            logger.error("%s could not be synced: %s", partition.log.name, error)
        finally:
            del self._tasks[partition]
            self._locks.pop(partition.log, None)

    def _fail(self, partition: Partition, error: OSError) -> None:
        """Nobody can say what is on the medium: its whole directory takes no more records."""
        directory = self._broker.directory_of(partition.topic, partition.index)
        logger.error("%s takes no more records: %s could not be synced: %s", directory.path,
                     partition.log.name, error)
        directory.fail(error)
        partition.wake()
