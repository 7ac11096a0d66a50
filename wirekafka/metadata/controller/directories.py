"""Reports of brokers to the controller on the log directory of each replica (KIP-858)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from wirekafka.clock import Clock
from wirekafka.codec.message import Message
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.channel import Replica
from wirekafka.metadata.controller.command import (
    MOST_RECORDS_PER_BATCH,
    ControllerCommand,
    ControllerState,
    Decision,
)
from wirekafka.metadata.controller.registration import registered
from wirekafka.metadata.controller.topic_rules import TopicRules
from wirekafka.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from wirekafka.metadata.image.partition_change import DIRECTORIES_SINCE, ElectionRule, Goal, changed
from wirekafka.runtime.driver import start
from wirekafka.runtime.machine import command

logger = logging.getLogger(__name__)

_AGAIN_MS = 1_000


class DirectoryAssigner(Protocol):
    """A registered broker."""

    broker_id: int

    async def assign_directories(self, directories: Mapping[Replica, bytes]) -> None:
        """As `ControllerChannel.assign_directories`, with the broker's current epoch."""


@command
class AssignDirectories(ControllerCommand[dict[Replica, Error]]):
    """Note in which log directories (ids of 16 bytes) a broker's replicas are.

    The reply has an `Error` for each replica, NONE unless the replica was deleted or moved
    meanwhile.
    """

    broker_id: int
    broker_epoch: int
    directories: Mapping[Replica, bytes]

    def decide(self, state: ControllerState, now_ms: int) -> Decision[dict[Replica, Error]]:
        """Return a change for each replica whose recorded directory differs.

        Raises as `registered`, and UNSUPPORTED_VERSION.
        """
        if state.image.metadata_version < DIRECTORIES_SINCE:
            raise KafkaError(
                Error.UNSUPPORTED_VERSION, "Directory assignment is not supported yet."
            )
        broker = registered(state, self.broker_id, self.broker_epoch)
        rules = TopicRules(state)
        records: list[Message] = []
        offline: list[tuple[TopicImage, PartitionImage]] = []
        errors: dict[Replica, Error] = {}
        for (topic_id, index), directory in self.directories.items():
            topic = state.image.topics_by_id.get(topic_id)
            partition = topic.partitions.get(index) if topic is not None else None
            if topic is None:
                errors[topic_id, index] = Error.UNKNOWN_TOPIC_ID
            elif partition is None:
                errors[topic_id, index] = Error.UNKNOWN_TOPIC_OR_PARTITION
            elif self.broker_id not in partition.replicas:
                errors[topic_id, index] = Error.NOT_LEADER_OR_FOLLOWER
            else:
                errors[topic_id, index] = Error.NONE
                goal = Goal(directories={broker.id: directory}, election=ElectionRule.ONLINE)
                change = changed(topic.id, partition, goal, rules.of(topic))
                if change is not None:
                    records.append(change)
                if not broker.has_online(directory):
                    offline.append((topic, partition))
        return Decision([*records, *_without(state, broker.id, offline)], errors)


class DirectoryReports:
    """Reports the log directories of this broker's replicas to the controller, in batches."""

    def __init__(self, member: DirectoryAssigner, image: MetadataImage, clock: Clock):
        self._member = member
        self._image = image
        self._clock = clock
        self._unreported: dict[Replica, bytes] = {}
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._unreported)

    def note(self, topic: TopicImage, partition: PartitionImage, directory: bytes) -> None:
        """Queue a report that a replica is in this directory, unless the image says so."""
        if self._image.metadata_version < DIRECTORIES_SINCE:
            return
        if partition.directory_of(self._member.broker_id) == directory:
            self._unreported.pop((topic.id, partition.index), None)
            return
        self._unreported[topic.id, partition.index] = directory
        self._schedule(0)

    def _schedule(self, delay_ms: int) -> None:
        if not self._is_scheduled and self._unreported:
            self._is_scheduled = True
            self._clock.call_later(delay_ms, lambda: start(self._report()))

    async def _report(self) -> None:
        some = dict(list(self._unreported.items())[:MOST_RECORDS_PER_BATCH])
        for replica in some:
            del self._unreported[replica]
        delay_ms = 0
        try:
            if some:
                await self._member.assign_directories(some)
        except Exception as error:  # Whatever it is, the reports must be sent at last.
            logger.warning(
                "Reporting the directories of %d replicas failed; it is retried: %s",
                len(some),
                error,
                exc_info=not isinstance(error, KafkaError),
            )
            self._unreported = some | self._unreported
            delay_ms = _AGAIN_MS
        self._is_scheduled = False
        self._schedule(delay_ms)


def _without(
    state: ControllerState, broker: int, replicas: Sequence[tuple[TopicImage, PartitionImage]]
) -> Iterator[Message]:
    """Changes that remove a broker's replicas in failed log directories from ISRs."""
    rules = TopicRules(state, gone=broker)
    for topic, partition in replicas:
        isr = [member for member in partition.isr if member != broker]
        change = changed(topic.id, partition, Goal(isr=isr), rules.of(topic))
        if change is not None:
            yield change
