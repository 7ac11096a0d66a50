"""The health of a broker: why it cannot serve, and what it has to serve without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wirekafka.broker import Broker
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.metadata.broker.directory_failures import may_be_offline
from wirekafka.metadata.image.image import PartitionImage, TopicImage
from wirekafka.metrics.exposition import GAUGE, Column, Table
from wirekafka.replication.partition.replica import NO_LEADER, PartitionIdentity

_PARTITIONS_PER_STEP = 1000


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """The result of a health check: without a `failure` it has passed."""

    failure: str | None = None
    """The reason why the node is unhealthy."""
    warning: str | None = None
    """The problems of a node that is healthy nevertheless."""


class ReplicaCollector:
    """The replicas that the metadata assigns to a broker, compared with what the broker serves."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._generation = -1
        self._missing: list[tuple[TopicImage, PartitionImage]] = []
        """Assigned replicas that were not served when they were last seen."""
        self.assigned = 0
        """Partitions that the metadata assigns to this broker."""
        self.leaderless = 0
        """Assigned partitions without a leader."""
        self.offline = 0
        """Replicas whose log, or log directory, has failed."""
        self.unapplied = 0
        """Partitions to which metadata is not applied: each is retried until it succeeds."""
        self._table = Table(
            [],
            [
                Column(
                    "wirekafka_assigned_replicas",
                    GAUGE,
                    "Replicas that the metadata assigns to this broker, served or not.",
                ),
                Column(
                    "wirekafka_leaderless_partitions",
                    GAUGE,
                    "Partitions with a replica assigned to this broker and without a leader.",
                ),
                Column(
                    "wirekafka_unapplied_replicas",
                    GAUGE,
                    "Replicas of this broker to which metadata is not applied, or not yet.",
                ),
            ],
        )
        self.tables = (self._table,)

    def collect(self) -> Iterator[None]:
        """Count on the event loop, in steps; nearly nothing to do unless metadata has changed."""
        broker = self._broker
        if broker.image.generation != self._generation:
            self._generation = broker.image.generation
            yield from self._compare()
        self._missing = [each for each in self._missing if not self._is_served(*each)]
        offline = sum(self._is_offline(*each) for each in self._missing)
        self.offline = offline
        self.unapplied = max(len(self._missing) - offline, broker.metadata.lagging)
        self._table.fill([((), (self.assigned, self.leaderless, self.unapplied))])
        yield

    @property
    def failure(self) -> str | None:
        """The reason why no replica is served; None if some are, or if there are none."""
        if not self.assigned or len(self._missing) < self.assigned:
            return None
        return f"none of its {self.assigned} replicas is served: {self._reasons()}"

    @property
    def warnings(self) -> Iterator[str]:
        """What is not served."""
        if self.leaderless:
            yield f"{self.leaderless} of {self.assigned} partitions have no leader"
        if self._missing or self.unapplied:
            yield self._reasons()

    def _reasons(self) -> str:
        reasons = []
        if self.offline:
            reasons.append(f"{self.offline} replicas are out of service with their logs")
        if self.unapplied:
            reasons.append(f"metadata is not applied to {self.unapplied} replicas")
        return ", ".join(reasons)

    def _compare(self) -> Iterator[None]:
        """Go through all partitions of the cluster."""
        node_id = self._broker.node_id
        assigned = leaderless = seen = 0
        missing = []
        for topic in list(self._broker.image.topics.values()):
            for partition in list(topic.partitions.values()):
                if node_id in partition.replicas:
                    assigned += 1
                    leaderless += partition.leader == NO_LEADER
                    if not self._is_served(topic, partition):
                        missing.append((topic, partition))
                seen += 1
                if seen % _PARTITIONS_PER_STEP == 0:
                    yield
        self.assigned, self.leaderless, self._missing = assigned, leaderless, missing

    def _is_served(self, topic: TopicImage, partition: PartitionImage) -> bool:
        placed = self._broker.partitions.get((topic.name, partition.index))
        return placed is not None and placed.topic_id == topic.id

    def _is_offline(self, topic: TopicImage, partition: PartitionImage) -> bool:
        identity = PartitionIdentity(topic.name, topic.id, partition.index)
        assigned = partition.directory_of(self._broker.node_id)
        return may_be_offline(self._broker.directories, identity, assigned)


def directories_refuse(directories: Sequence[LogDirectory]) -> str | None:
    """The reason why no log directory accepts appends; None if one does."""
    serving = [each for each in directories if each.failure is None]
    if all(each.is_full for each in serving):
        return "appends are refused: no log directory has enough free space"
    return None


def controller_warnings(broker: Broker) -> Iterator[str]:
    """What the broker does not learn."""
    if broker.unanswered_ms:
        yield f"no controller has answered for {broker.unanswered_ms // 1000} s"


def directory_warnings(directories: Sequence[LogDirectory]) -> Iterator[str]:
    """What the broker has to serve without, of its log directories."""
    count = len(directories)
    failed = sum(each.failure is not None for each in directories)
    if failed:
        yield f"{failed} of {count} log directories are out of service"
    full = sum(each.is_full for each in directories if each.failure is None)
    if full:
        yield f"{full} of {count} log directories refuse appends for lack of free space"
