"""A coordinator's shards: one machine for each partition of an internal topic that is led here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from wirekafka.clock import Clock
from wirekafka.coordinator.java_hash import coordinator_partition
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.replicated_log import ReplicatedLog
from wirekafka.replication.runtime import Runtime

logger = logging.getLogger(__name__)

_BATCHES_PER_STEP = 500
"""How much of a log is replayed before others get a turn."""

_LOADED = object()

_APPEND_ERRORS = {
    # Why a coordinator's log took no records is its own affair; what a client should do is not.
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.REQUEST_TIMED_OUT: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
    Error.MESSAGE_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.RECORD_LIST_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
}

_partition_of = lru_cache(maxsize=16_384)(coordinator_partition)


class Shards:
    """Finds the shard of a key, and keeps shards in step with leadership.

    `partition_count` tells how many partitions the topic has, 0 while there is none.
    """

    def __init__(self, topic: str, clock: Clock, partition_count: Callable[[], int]):
        self.topic = topic
        self._clock = clock
        self._partition_count = partition_count
        self._runtimes: dict[int, Runtime] = {}
        self._loading: dict[int, Iterator[None]] = {}

    def make_runtime(self, partition: int, log: ReplicatedLog) -> Runtime:
        """The shard's machine on its log, not loaded yet."""
        raise NotImplementedError

    def loaded(self, partition: int) -> None:
        """The shard has read all of its log."""

    # Leadership

    def lead(self, partition: int, log: ReplicatedLog) -> None:
        """This broker became leader of a partition: load its shard.

        A small log is there when this returns; a larger one goes on loading between requests,
        and its shard answers COORDINATOR_LOAD_IN_PROGRESS until then.
        """
        self.resign(partition)
        runtime = self.make_runtime(partition, log)
        self._runtimes[partition] = runtime
        self._loading[partition] = runtime.load_steps()
        self._load_on(partition, self._loading[partition])

    def resign(self, partition: int) -> None:
        """Leadership is gone: whoever waits is sent to find the new coordinator."""
        self._loading.pop(partition, None)
        runtime = self._runtimes.pop(partition, None)
        if runtime is not None:
            runtime.stop()

    def stop(self) -> None:
        """The broker stops."""
        for partition in list(self._runtimes):
            self.resign(partition)

    @property
    def is_loading(self) -> bool:
        """Whether a partition is still being read."""
        return bool(self._loading)

    def _load_on(self, partition: int, steps: Iterator[None]) -> None:
        if self._loading.get(partition) is not steps:
            return
        try:
            for _ in range(_BATCHES_PER_STEP):
                if next(steps, _LOADED) is _LOADED:
                    del self._loading[partition]
                    self.loaded(partition)
                    return
        except Exception:
            # The partition stays without a coordinator rather than with half of one.
            logger.exception("Loading %s-%d failed", self.topic, partition)
            self.resign(partition)
            return
        self._clock.call_later(0, lambda: self._load_on(partition, steps))

    # Commands

    def partition_for(self, key: str) -> int:
        """The partition that owns a key; raises NOT_COORDINATOR before the topic exists."""
        count = self._partition_count()
        if not count:
            raise KafkaError(Error.NOT_COORDINATOR)
        return _partition_of(key, count)

    def shard_for(self, key: str) -> Runtime:
        """The runtime of the key's shard; raises NOT_COORDINATOR if it is led elsewhere."""
        runtime = self._runtimes.get(self.partition_for(key))
        if runtime is None:
            raise KafkaError(Error.NOT_COORDINATOR)
        return runtime

    async def submit(self, key: str, command: Any) -> Any:
        """Have the key's shard answer; does not suspend when it can at once.

        Raises `KafkaError`: what the shard refuses with, NOT_COORDINATOR, or
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        try:
            return await self.shard_for(key).submit(command)
        except KafkaError as error:
            told = _APPEND_ERRORS.get(error.error)
            if told is None:
                raise
            raise KafkaError(told) from error
