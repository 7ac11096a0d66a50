"""The group coordinator of a broker: one shard per partition of `__consumer_offsets` it leads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import cast

from wirekafka.clock import Clock
from wirekafka.coordinator.group_commands import DeleteGroups, ForgetTopics, ListedGroup, ListGroups
from wirekafka.coordinator.group_config import GroupConfig
from wirekafka.coordinator.group_records import GroupRecordCodec
from wirekafka.coordinator.group_shard import GroupShard
from wirekafka.coordinator.shards import Shards
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.machine import Producer
from wirekafka.replication.replicated_log import ReplicatedLog
from wirekafka.replication.runtime import Runtime

logger = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"


class GroupCoordinator(Shards):
    """The shards of groups, by group id."""

    def __init__(self, config: GroupConfig, clock: Clock, partition_count: Callable[[], int]):
        super().__init__(OFFSETS_TOPIC, clock, partition_count)
        self._config = config
        self._codec = GroupRecordCodec()
        self._codec.compression = config.compression
        self._deleted_meanwhile: dict[int, frozenset[tuple[str, int]]] = {}

    def make_runtime(self, partition: int, log: ReplicatedLog) -> Runtime:
        """A shard of groups on its log."""
        return Runtime(lambda: GroupShard(self._config), log, self._codec, self._clock)

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
        for partition in list(self._runtimes):
            if partition in self._loading:
                self._deleted_meanwhile[partition] = (
                    self._deleted_meanwhile.get(partition, frozenset()) | partitions)
            else:
                self._forget(partition, partitions)

    def loaded(self, partition: int) -> None:
        """Catch up on what was deleted while the log was read."""
        deleted = self._deleted_meanwhile.pop(partition, None)
        if deleted:
            self._forget(partition, deleted)

    def _forget(self, partition: int, deleted: frozenset[tuple[str, int]]) -> None:
        """In as many batches as it takes."""
        runtime = self._runtimes[partition]
        try:
            while cast(GroupShard, runtime.machine).offsets.has_any_of(deleted):
                ticket = runtime.post(ForgetTopics(deleted))
                if ticket.done:
                    ticket.result()
        except KafkaError as error:
            logger.warning("Offsets of deleted partitions stay in %s-%d until they expire: %s",
                           OFFSETS_TOPIC, partition, error)

    def end_transaction(self, partition: int, producer: Producer, committed: bool) -> None:
        """An end marker was appended to a partition of `__consumer_offsets`.

        Raises NOT_COORDINATOR. While loading there is nothing to do: the marker is read in turn.
        """
        runtime = self._runtimes.get(partition)
        if runtime is None:
            raise KafkaError(Error.NOT_COORDINATOR)
        if partition not in self._loading:
            runtime.replay_end_marker(producer, committed)
