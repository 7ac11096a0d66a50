"""Tiered storage of one broker: its partitions, its periodic work, and what is shared by them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from wirekafka.broker import Broker
from wirekafka.clock import Timer
from wirekafka.errors import KafkaError
from wirekafka.log.directories.log_names import REMOTE_INDEX_CACHE
from wirekafka.replication.fetching.throttle import ReplicationThrottle
from wirekafka.replication.partition.partition import Partition
from wirekafka.server.tiering.copier import Copier, CopyFailed, note_copied
from wirekafka.server.tiering.partition_tier import PartitionTier
from wirekafka.server.tiering.remote_metadata import RemoteMetadata
from wirekafka.server.tiering.settings import MetadataTopicOptions
from wirekafka.server.tiering.work import ReaderPool, Run, Slots, run_in_own_thread
from wirekafka.tiered.counters import TierCounters
from wirekafka.tiered.index_files import IndexFiles
from wirekafka.tiered.layout import Layout
from wirekafka.tiered.remote_reader import RemoteReader
from wirekafka.tiered.remote_segment import RemoteSegment, TieredPartition
from wirekafka.tiered.store import StoreError

logger = logging.getLogger(__name__)

_CHUNK_CACHE_BYTES = 32 << 20
_INDEX_CACHE_BYTES = 16 << 20
_ORPHANED_MS = 60_000
_COPY, _EXPIRE, _DELETION = "copy", "expire", "deletion"
_Work = Callable[[], Awaitable[None]]


class Tiering:
    """The tiered partitions of a broker (`tiered_partitions.TieredPartitions`)."""

    def __init__(self, broker: Broker, layout: Layout, run: Run | None = None):
        config = broker.config
        self._broker = broker
        self.layout = layout
        measures = broker.measures
        self.readers = ReaderPool(
            lambda: broker.config.remote_log_reader_threads,
            config.remote_log_reader_max_pending_tasks,
            None if measures is None else measures.remote_reads.record,
        )
        self._read_run = run or self.readers.run
        self.metadata = RemoteMetadata(broker, MetadataTopicOptions.of(config))
        self.index_files = IndexFiles(
            broker.disk,
            f"{config.data_directories[0]}/{REMOTE_INDEX_CACHE}",
            config.remote_log_index_file_cache_total_size_bytes,
        )
        self.reader = RemoteReader(
            layout,
            index_bytes=_INDEX_CACHE_BYTES,
            chunk_bytes=_CHUNK_CACHE_BYTES,
            files=self.index_files,
        )
        self.metadata.deleted = self.reader.forget
        self._fetch_rate = ReplicationThrottle(
            broker.node_id,
            lambda: broker.config.remote_log_manager_fetch_max_bytes_per_second,
            config.remote_log_manager_fetch_quota_window_num,
            config.remote_log_manager_fetch_quota_window_size_seconds * 1_000,
        )
        self.counters: dict[str, TierCounters] = {}
        """What was done, by topic."""
        self.past_counters = TierCounters()
        """What was done for topics that are no longer here."""
        self.copier = Copier(broker, self.metadata, layout, run or run_in_own_thread)
        self.copier.counters = self._counters_of
        self.copier.deleted = self._deleted
        self.tiers: dict[tuple[str, int], PartitionTier] = {}
        """The tiered partitions that are placed here."""
        self._tasks: dict[tuple[str, TieredPartition], asyncio.Task[None]] = {}
        self._failures: dict[tuple[str, TieredPartition], str] = {}
        self.copiers = Slots(lambda: broker.config.remote_log_manager_copier_thread_pool_size)
        self._expirers = Slots(lambda: broker.config.remote_log_manager_expiration_thread_pool_size)
        self._orphans: dict[TieredPartition, int] = {}
        """Since when, in ms, partitions have been deleted whose segments still exist."""
        self._index_files_from_ms: int | None = None
        """Since when the use of files of indexes is noted, in ms."""
        self._timer: Timer | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Begin the periodic work."""
        self._schedule()

    def stop(self) -> None:
        """Stop at once: a copy that is under way is repeated after the next start."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks.values():
            task.cancel()
        self.metadata.stop()
        self.readers.close()

    # Changes of partitions, from the broker.

    def placed(self, partition: Partition) -> None:
        """Take over a partition that was placed here, or whose role or configuration changed."""
        key = partition.topic, partition.index
        tier = self.tiers.get(key)
        if tier is not None and tier.partition is not partition:
            self.forget(tier.partition)
            tier = None
        if not partition.log.config.is_tiered:
            if tier is not None:
                self.forget(partition)
                if partition.is_leader:
                    self._begin_deletion(tier.identity)
            return
        if tier is None:
            tier = self.tiers[key] = PartitionTier(
                self._broker,
                partition,
                metadata=self.metadata,
                reader=self.reader,
                run=self._read_run,
                rate=self._fetch_rate,
                counters=self._counters_of(partition.topic),
            )
            self.metadata.follow(tier.identity)
        partition.remote = tier

    def forget(self, partition: Partition) -> None:
        """A partition is no longer here, or no longer tiered."""
        tier = self.tiers.get((partition.topic, partition.index))
        if tier is None or tier.partition is not partition:
            return
        del self.tiers[partition.topic, partition.index]
        partition.remote = None
        self.metadata.unfollow(tier.identity)
        for kind in (_COPY, _EXPIRE):
            self._failures.pop((kind, tier.identity), None)
            task = self._tasks.get((kind, tier.identity))
            if task is not None:
                task.cancel()

    def dropped(self, partition: Partition) -> None:
        """A partition is about to be deleted: its topic is gone, or the replica moves away."""
        tier = self.tiers.get((partition.topic, partition.index))
        if tier is not None and partition.is_leader and self._is_orphaned(tier.identity):
            self._begin_deletion(tier.identity)

    def failing(self) -> Iterable[tuple[str, TieredPartition]]:
        """The tasks whose last run has failed, and their partitions."""
        return list(self._failures)

    @property
    def is_busy(self) -> bool:
        """Whether anything that `work` has begun is not done yet."""
        return bool(self._tasks)

    def work(self) -> None:
        """Begin what is to be done for each partition, unless it is still being done."""
        self.metadata.follow_led()
        self._tend_index_files()
        for tier in self.tiers.values():
            note_copied(tier.partition.log, tier.states)
            if tier.partition.is_leader and tier.states is not None:
                self._begin(_COPY, tier.identity, partial(self.copier.copy, tier), self.copiers)
                expire = partial(self.copier.expire, tier)
                self._begin(_EXPIRE, tier.identity, expire, self._expirers)
        self._delete_orphans()
        self._forget_past()

    def _tend_index_files(self) -> None:
        config, now_ms = self._broker.config, self._broker.clock.now_ms()
        self.index_files.limit(config.remote_log_index_file_cache_total_size_bytes)
        kept_ms = config.remote_log_index_file_cache_ttl_ms
        if self._index_files_from_ms is None:
            self._index_files_from_ms = now_ms
        elif kept_ms >= 0 and now_ms - self._index_files_from_ms >= kept_ms:
            self._index_files_from_ms = now_ms
            self.reader.drop_unused_files()

    def _schedule(self) -> None:
        interval_ms = self._broker.config.remote_log_manager_task_interval_ms

        def fire() -> None:
            self.work()
            if not self._is_stopped:
                self._timer = self._broker.clock.call_later(interval_ms, fire)

        self._timer = self._broker.clock.call_later(interval_ms, fire)

    def _delete_orphans(self) -> None:
        """Delete the segments of partitions that are deleted or no longer tiered.

        The leader of such a partition has begun that, but may have failed. The leader of the
        partition of the metadata topic completes it, a while after it has found the orphan: this
        broker's metadata may be older than the segments.
        """
        now_ms = self._broker.clock.now_ms()
        found = [each for each, _ in self.metadata.led_here() if self._is_orphaned(each)]
        self._orphans = {each: self._orphans.get(each, now_ms) for each in found}
        for partition, since_ms in self._orphans.items():
            if now_ms - since_ms >= _ORPHANED_MS:
                self._begin_deletion(partition)

    def _forget_past(self) -> None:
        """Forget failures of tasks that other brokers have now, and counters of past topics."""
        led = {tier.identity for tier in self.tiers.values() if tier.partition.is_leader}
        for kind, partition in list(self._failures):
            if partition not in (self._orphans if kind == _DELETION else led):
                del self._failures[kind, partition]
        present = {topic for topic, _ in self.tiers}
        present.update(partition.topic for _, partition in self._tasks)
        for topic in self.counters.keys() - present:
            self.past_counters.add(self.counters.pop(topic))

    def _is_orphaned(self, partition: TieredPartition) -> bool:
        """Whether a partition has been deleted, or its topic is no longer tiered."""
        image = self._broker.image
        topic = image.topics_by_id.get(partition.topic_id)
        if topic is None or partition.number not in topic.partitions:
            return True
        return not self._broker.topic_config(topic.name).is_tiered

    def _begin_deletion(self, partition: TieredPartition) -> None:
        delete_all = partial(self.copier.delete_all, partition)
        self._begin(_DELETION, partition, delete_all, self._expirers)

    def _begin(self, kind: str, partition: TieredPartition, work: _Work, limit: Slots) -> None:
        key = kind, partition
        if key in self._tasks or self._is_stopped:
            return
        task = asyncio.get_running_loop().create_task(self._run(key, work, limit))
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    async def _run(self, key: tuple[str, TieredPartition], work: _Work, limit: Slots) -> None:
        kind, (topic, _, index) = key
        try:
            async with limit:
                await work()
            self._failures.pop(key, None)
        except (CopyFailed, KafkaError, StoreError, OSError) as error:
            reason = getattr(error, "reason", str(error))
            if self._failures.get(key) != reason:  # Logged once: it is repeated, with new ids.
                self._failures[key] = reason
                logger.warning("%s-%d in remote storage: %s failed: %s", topic, index, kind, error)
        except Exception:
            logger.exception("%s-%d in remote storage: %s failed", topic, index, kind)

    def _counters_of(self, topic: str) -> TierCounters:
        return self.counters.setdefault(topic, TierCounters())

    def _deleted(self, segment: RemoteSegment) -> None:
        self.reader.forget(segment.id)
