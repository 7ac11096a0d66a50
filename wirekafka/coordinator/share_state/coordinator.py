"""The share coordinator of a broker: a shard per partition of `__share_group_state` it leads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from wirekafka.clock import Clock, Timer
from wirekafka.coordinator.shards import Shards
from wirekafka.coordinator.share_state.commands import KeyedCommand, StateRefused, TopicsDeletion
from wirekafka.coordinator.share_state.pruning import RedundantOffsets
from wirekafka.coordinator.share_state.records import ShareRecordCodec
from wirekafka.coordinator.share_state.shard import ShareCoordinatorConfig, ShareShard
from wirekafka.coordinator.share_state.states import StateWrite, coordinator_key
from wirekafka.coordinator.topic_changes import Pieces, TopicChanges
from wirekafka.coordinator.topics import CoordinatedTopics
from wirekafka.errors import KafkaError
from wirekafka.replication.partition.internal_topics import SHARE_STATE_TOPIC
from wirekafka.runtime.driver import start
from wirekafka.runtime.promise import Promise
from wirekafka.runtime.replicated_log import ReplicatedLog
from wirekafka.runtime.runtime import Runtime

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShareCoordinatorParts:
    """The dependencies of the coordinator."""

    config: ShareCoordinatorConfig
    topics: CoordinatedTopics
    delete_records: Callable[[int, int], object]
    """Deletes the records of a partition of `__share_group_state` below an offset, which is not
    above the high watermark. Raises KafkaError."""


class ShareCoordinator(Shards):
    """The share coordinator of a broker: a shard per `__share_group_state` partition it leads."""

    def __init__(
        self,
        parts: ShareCoordinatorParts,
        clock: Clock,
        partition_count: Callable[[], int],
        observer_failed: Callable[[Exception], None],
    ):
        super().__init__(SHARE_STATE_TOPIC, clock, partition_count, observer_failed)
        self._parts = parts
        self.writes = 0
        """How many states of share partitions were written."""
        self._codec = ShareRecordCodec(parts.config.compression)
        self._redundant: dict[int, RedundantOffsets] = {}
        self._deletions: dict[int, TopicChanges] = {}
        self._prune_timers: dict[int, Timer] = {}

    # Shards

    def make_runtime(self, partition: int, log: ReplicatedLog) -> Runtime:
        """Create the runtime of a shard of share partitions on its log."""
        config, topics = self._parts.config, self._parts.topics
        runtime = Runtime(
            lambda: ShareShard(config, topics),
            log,
            self._codec,
            self._clock,
            write_timeout_ms=config.write_timeout_ms,
            linger_ms=config.append_linger_ms,
            observer_failed=self._observer_failed,
        )
        redundant = self._redundant[partition] = RedundantOffsets()
        runtime.observe(redundant.note)
        self._deletions[partition] = TopicChanges(
            runtime, self._clock, f"{SHARE_STATE_TOPIC}-{partition}"
        )
        return runtime

    def loaded(self, partition: int) -> None:
        """Apply deletions of topics that arrived while the log was read; begin to prune it."""
        self._deletions[partition].go_on()
        self._prune_later(partition)

    def resign(self, partition: int) -> None:
        """Drop the shard after a loss of leadership: parked requests get NOT_COORDINATOR."""
        self._redundant.pop(partition, None)
        deletions = self._deletions.pop(partition, None)
        if deletions is not None:
            deletions.close()
        timer = self._prune_timers.pop(partition, None)
        if timer is not None:
            timer.cancel()
        super().resign(partition)

    # Commands

    async def submit_all(self, commands: Sequence[KeyedCommand]) -> list[Any | KafkaError]:
        """Run commands on the shards of their keys; returns the reply or error of each, in order.

        All commands are begun before the first reply is awaited.
        """
        replies: list[Promise[Any]] = []
        for command in commands:
            replies.append(Promise())
            start(self._submit(command, replies[-1]))
        return [await _reply_or_error(reply) for reply in replies]

    async def _submit(self, command: KeyedCommand, reply: Promise[Any]) -> None:
        try:
            found = await self.submit(coordinator_key(command.key), command)
            self.writes += isinstance(command, StateWrite)
            reply.set(found)
        except Exception as error:
            reply.set(error)

    def is_final(self, error: KafkaError) -> bool:
        """Whether an error was chosen by the machine for the client, not raised by the log."""
        return isinstance(error, StateRefused)

    def delete_topics(self, topic_ids: frozenset[bytes]) -> None:
        """Delete the states of the share partitions of deleted topics."""
        for deletions in list(self._deletions.values()):
            deletions.add(_deletion(topic_ids))

    # Pruning

    def _prune_later(self, partition: int) -> None:
        self._prune_timers[partition] = self._clock.call_later(
            self._parts.config.prune_interval_ms, partial(self._prune, partition)
        )

    def _prune(self, partition: int) -> None:
        self._prune_later(partition)
        needed_from = self._redundant[partition].needed_from
        if not needed_from:
            return
        try:
            self._parts.delete_records(partition, needed_from)
        except KafkaError as error:
            logger.warning(
                "Deleting the records of %s-%d below offset %d failed; it is retried: %s",
                SHARE_STATE_TOPIC,
                partition,
                needed_from,
                error,
            )


async def _reply_or_error(reply: Promise[Any]) -> Any | KafkaError:
    try:
        return await reply
    except KafkaError as error:
        return error


def _deletion(topic_ids: frozenset[bytes]) -> Pieces:
    def pieces(shard: Callable[[], ShareShard]) -> Iterator[TopicsDeletion]:
        while shard().has_states_of(topic_ids):
            yield TopicsDeletion(topic_ids)

    return pieces
