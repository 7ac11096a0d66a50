"""The group coordinator of a broker: one shard per partition of `__consumer_offsets` it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from wirekafka.clock import Clock
from wirekafka.coordinator.groups.commands import (
    DeleteGroups,
    ListedGroup,
    ListGroups,
    QuietHeartbeat,
)
from wirekafka.coordinator.groups.config import GroupConfig
from wirekafka.coordinator.groups.consumer.config import ConsumerGroupContext
from wirekafka.coordinator.groups.consumer.kind import ConsumerKind
from wirekafka.coordinator.groups.group import Group, GroupCounts
from wirekafka.coordinator.groups.kind_configs import KindConfigs
from wirekafka.coordinator.groups.record_table import GroupRecordCodec
from wirekafka.coordinator.groups.shard import KINDS, GroupShard
from wirekafka.coordinator.groups.share.config import ShareGroupContext
from wirekafka.coordinator.groups.share.kind import ShareGroupKind
from wirekafka.coordinator.groups.streams.config import StreamsGroupContext, StreamsGroupOptions
from wirekafka.coordinator.groups.streams.kind import StreamsKind
from wirekafka.coordinator.groups.times import GroupTimes, default_times
from wirekafka.coordinator.groups.topic_changes import changed, deleted, gone
from wirekafka.coordinator.java_hash import java_hash_code
from wirekafka.coordinator.java_order import HashOrder
from wirekafka.coordinator.shards import Shards
from wirekafka.coordinator.topic_changes import Pieces, TopicChanges
from wirekafka.coordinator.topics import NO_TOPICS, CoordinatedTopics
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.partition.internal_topics import OFFSETS_TOPIC
from wirekafka.runtime.machine import Producer
from wirekafka.runtime.replicated_log import ReplicatedLog
from wirekafka.runtime.runtime import Runtime

_Options = TypeVar("_Options")

_TOPIC_HASH_CODE = java_hash_code(OFFSETS_TOPIC)


class GroupCoordinator(Shards):
    """The shards of groups, by group id."""

    def __init__(
        self,
        config: GroupConfig,
        clock: Clock,
        partition_count: Callable[[], int],
        observer_failed: Callable[[Exception], None],
        *,
        kinds: KindConfigs | None = None,
        topics: CoordinatedTopics = NO_TOPICS,
        options: Callable[[str], GroupTimes] = default_times,
        share_options: Callable[[str], GroupTimes] = default_times,
        streams_options: Callable[[str], StreamsGroupOptions] = StreamsGroupOptions.of_kafka,
    ):
        super().__init__(OFFSETS_TOPIC, clock, partition_count, observer_failed)
        kinds = kinds or KindConfigs()
        self._config = config
        self.assignors: Sequence[str] = kinds.consumer.assignors
        """The server-side assignors that members of consumer groups may ask for."""
        self.counts = GroupCounts()
        self.held_assignments: set[str] = set()
        """The ids of groups for which no assignment is computed; only tests add any."""
        self._context = ConsumerGroupContext(kinds.consumer, topics, options, self.held_assignments)
        self._share_context = ShareGroupContext(
            kinds.share, topics, share_options, self.held_assignments
        )
        self._streams_context = StreamsGroupContext(
            kinds.streams, topics, streams_options, self.held_assignments
        )
        self._codec = GroupRecordCodec()
        self._codec.compression = config.compression
        self._topic_changes: dict[int, TopicChanges] = {}

    def make_runtime(self, partition: int, log: ReplicatedLog) -> Runtime:
        """Create the runtime of a shard of groups on its log."""
        runtime = Runtime(
            self.make_shard,
            log,
            self._codec,
            self._clock,
            write_timeout_ms=self._config.offsets_commit_timeout_ms,
            linger_ms=self._config.append_linger_ms,
            observer_failed=self._observer_failed,
        )
        self._topic_changes[partition] = TopicChanges(
            runtime, self._clock, f"{OFFSETS_TOPIC}-{partition}"
        )
        return runtime

    def make_shard(self) -> GroupShard:
        """Create the machine of one partition, with all kinds of groups."""
        makers = (self._make_consumer_kind, self._make_share_kind, self._make_streams_kind)
        return GroupShard(self._config, (*KINDS, *makers), self.counts)

    def _make_consumer_kind(self, config: GroupConfig, groups: dict[str, Group]) -> ConsumerKind:
        return ConsumerKind(self._context, config, groups)

    def _make_share_kind(self, config: GroupConfig, groups: dict[str, Group]) -> ShareGroupKind:
        return ShareGroupKind(self._share_context, groups)

    def _make_streams_kind(self, config: GroupConfig, groups: dict[str, Group]) -> StreamsKind:
        return StreamsKind(self._streams_context, groups)

    def resign(self, partition: int) -> None:
        """Drop the shard after a loss of leadership: parked requests get NOT_COORDINATOR."""
        changes = self._topic_changes.pop(partition, None)
        if changes is not None:
            changes.close()
        super().resign(partition)

    def renew(self, command: QuietHeartbeat[_Options]) -> _Options | None:
        """Return the options of the group, or None if the heartbeat has to be submitted in full.

        Raises NOT_COORDINATOR before the topic exists.
        """
        runtime = self._runtimes.get(self.partition_for(command.group_id))
        return None if runtime is None else runtime.renew(command)

    async def list_groups(self, states: frozenset[str]) -> list[ListedGroup]:
        """List the groups of all shards; raises COORDINATOR_LOAD_IN_PROGRESS while one loads."""
        listed: list[ListedGroup] = []
        for runtime in list(self._runtimes.values()):
            listed += await runtime.submit(ListGroups(states))
        return listed

    def by_shard(self, group_ids: Iterable[str]) -> list[list[str]]:
        """Return group ids by shard, in the order in which Kafka's responses list the shards.

        This is the order of a `HashMap` by partition, which `computeIfAbsent` fills.
        """
        order = HashOrder[int](_partition_hash_code)
        found = dict[int, list[str]]()
        for group_id in group_ids:
            try:
                partition = self.partition_for(group_id)
            except KafkaError:
                partition = 0  # There are no shards yet: each group will be refused.
            order.compute(partition)
            found.setdefault(partition, []).append(group_id)
        return [found[partition] for partition in order.walk()]

    async def delete_groups(self, group_ids: list[str]) -> dict[str, Error]:
        """Delete groups, with one batch per shard; returns an error or NONE for each."""
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
        """Delete the offsets committed for deleted partitions, given as (topic, index)."""
        by_topic: dict[str, set[int]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, set()).add(index)
        self._pass_on(deleted({topic: frozenset(each) for topic, each in by_topic.items()}))

    def forget_topics(self, topic_ids: frozenset[bytes]) -> None:
        """Forget which share partitions of deleted topics, given by id, have a stored state."""
        self._pass_on(gone(topic_ids))

    def topics_changed(self, topics: frozenset[str]) -> None:
        """Notify groups that topics of these names were created, deleted or extended.

        Only groups whose partitions the broker assigns are notified.
        """
        self._pass_on(changed(topics))

    def loaded(self, partition: int) -> None:
        """Apply the topic changes that arrived while the log was read."""
        self._topic_changes[partition].go_on()

    def _pass_on(self, change: Pieces) -> None:
        for changes in list(self._topic_changes.values()):
            changes.add(change)

    def write_collected(self, partition: int) -> None:
        """Append the records of a shard that linger, as has to precede an end marker.

        Raises `KafkaError`.
        """
        runtime = self._runtimes.get(partition)
        if runtime is not None:
            runtime.write_collected()

    def end_transaction(self, partition: int, producer: Producer, committed: bool) -> None:
        """Replay an end marker that was appended to a partition of `__consumer_offsets`.

        Raises NOT_COORDINATOR. While the shard loads, nothing is done: loading reads the marker.
        """
        runtime = self._runtimes.get(partition)
        if runtime is None:
            raise KafkaError(Error.NOT_COORDINATOR)
        if runtime.is_loaded:
            runtime.replay_end_marker(producer, committed)


def _partition_hash_code(partition: int) -> int:
    """Return `TopicPartition.hashCode()` of a partition of `__consumer_offsets`."""
    return 31 * (31 + partition) + _TOPIC_HASH_CODE
