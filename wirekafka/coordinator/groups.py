"""The group coordinator of a broker: a shard for each partition of `__consumer_offsets` it leads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from wirekafka.clock import Clock
from wirekafka.coordinator.group_commands import DeleteGroups, ForgetTopics, ListedGroup, ListGroups
from wirekafka.coordinator.group_config import GroupConfig
from wirekafka.coordinator.group_records import GroupRecordCodec
from wirekafka.coordinator.group_shard import GroupShard
from wirekafka.coordinator.java_hash import coordinator_partition
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.machine import Producer
from wirekafka.replication.replicated_log import ReplicatedLog
from wirekafka.replication.runtime import Runtime

logger = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"

_BATCHES_PER_STEP = 500
"""How much of a log is replayed before others get a turn."""

_LOADED = object()

_partition_of = lru_cache(maxsize=16_384)(coordinator_partition)


class GroupCoordinator:
    """Finds the shard of a group, and keeps shards in step with leadership.

    `partition_count` tells how many partitions `__consumer_offsets` has, 0 while there is none.
    """

    def __init__(self, config: GroupConfig, clock: Clock, partition_count: Callable[[], int]):
        self._config = config
        self._clock = clock
        self._partition_count = partition_count
        self._codec = GroupRecordCodec()
        self._runtimes: dict[int, Runtime] = {}
        self._loading: dict[int, Iterator[None]] = {}

    # Leadership

    def lead(self, partition: int, log: ReplicatedLog) -> None:
        """This broker became leader of a partition: load its groups.

        A small log is there when this returns; a larger one goes on loading between requests,
        and its groups answer COORDINATOR_LOAD_IN_PROGRESS until then.
        """
        self.resign(partition)
        runtime = Runtime(lambda: GroupShard(self._config), log, self._codec, self._clock)
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
                    return
        except Exception:
            # The partition stays without a coordinator rather than with half of one.
            logger.exception("Loading %s-%d failed", OFFSETS_TOPIC, partition)
            self.resign(partition)
            return
        self._clock.call_later(0, lambda: self._load_on(partition, steps))

    # Commands

    def partition_for(self, group_id: str) -> int:
        """The partition that owns a group; raises NOT_COORDINATOR before the topic exists."""
        count = self._partition_count()
        if not count:
            raise KafkaError(Error.NOT_COORDINATOR)
        return _partition_of(group_id, count)

    def shard_for(self, group_id: str) -> Runtime:
        """The runtime of the group's shard; raises NOT_COORDINATOR if it is led elsewhere."""
        runtime = self._runtimes.get(self.partition_for(group_id))
        if runtime is None:
            raise KafkaError(Error.NOT_COORDINATOR)
        return runtime

    async def submit(self, group_id: str, command: Any) -> Any:
        """Have the group's shard answer; does not suspend when it can at once.

        Raises `KafkaError`: what the shard refuses with, NOT_COORDINATOR, or
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        return await self.shard_for(group_id).submit(command)

    async def list_groups(self, states: frozenset[str]) -> list[ListedGroup]:
        """All groups led here; raises COORDINATOR_LOAD_IN_PROGRESS while some are not known."""
        listed: list[ListedGroup] = []
        for runtime in list(self._runtimes.values()):
            listed += await runtime.submit(ListGroups(states))
        return listed

    async def delete_groups(self, group_ids: list[str]) -> dict[str, Error]:
        """Delete each group, those of one shard in one batch; what became of each."""
        errors: dict[str, Error] = {}
        by_shard: dict[Runtime, list[str]] = {}
        for group_id in dict.fromkeys(group_ids):
            try:
                by_shard.setdefault(self.shard_for(group_id), []).append(group_id)
            except KafkaError as error:
                errors[group_id] = error.error
        for runtime, ids in by_shard.items():
            try:
                errors.update(zip(ids, await runtime.submit(DeleteGroups(ids)), strict=True))
            except KafkaError as error:
                errors.update(dict.fromkeys(ids, error.error))
        return errors

    def forget_partitions(self, partitions: frozenset[tuple[str, int]]) -> None:
        """Partitions (topic, index) were deleted: so are the offsets committed for them."""
        for partition, runtime in self._runtimes.items():
            if partition not in self._loading:
                runtime.post(ForgetTopics(partitions))

    def end_transaction(self, partition: int, producer: Producer, committed: bool) -> None:
        """An end marker was appended to a partition of `__consumer_offsets`.

        Raises NOT_COORDINATOR. While loading there is nothing to do: the marker is read in turn.
        """
        runtime = self._runtimes.get(partition)
        if runtime is None:
            raise KafkaError(Error.NOT_COORDINATOR)
        if partition not in self._loading:
            runtime.replay_end_marker(producer, committed)
