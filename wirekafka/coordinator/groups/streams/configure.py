"""Matches a topology with the existing topics: its tasks, and the internal topics it lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from wirekafka.coordinator.groups.streams.partitions import PartitionCounts
from wirekafka.coordinator.groups.streams.status import Status, StatusCode, TopicProblem
from wirekafka.coordinator.groups.streams.topology import (
    Subtopology,
    Topology,
    hash_order,
    sources_of,
)
from wirekafka.coordinator.java_order import java_text_order
from wirekafka.coordinator.topics import CoordinatedTopics
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.records.streams_groups import TopicInfo

_LISTED_TOPICS = 3


class InternalTopic(NamedTuple):
    """A repartition topic or changelog; a replication factor of 0 is the broker's default."""

    name: str
    partition_count: int
    replication_factor: int
    configs: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with the number of its tasks and its internal topics by name."""

    task_count: int
    source_topics: Sequence[str]
    repartition_sources: Mapping[str, InternalTopic]
    repartition_sinks: Sequence[str]
    changelogs: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state, which standby tasks can copy."""
        return bool(self.changelogs)


class ConfiguredTopology(NamedTuple):
    """A topology on the existing topics.

    `subtopologies` are sorted by id; None if a source topic is missing or topics do not fit
    together. `missing` are the internal topics to create. Without a `problem`, tasks can be
    assigned.
    """

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: Sequence[InternalTopic] = ()
    problem: Status | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.problem is None


def configure(topology: Topology, topics: CoordinatedTopics) -> ConfiguredTopology:
    """Match a topology with the existing topics.

    Raises STREAMS_INVALID_TOPOLOGY if no topics could make it work.
    """
    try:
        _check_sources(topology, topics)
        counts = PartitionCounts(topology, topics)
        subtopologies = {
            id: _configured(topology.subtopologies[id], counts)
            for id in sorted(topology.subtopologies, key=java_text_order)
        }
        missing = _missing(subtopologies.values(), topology, topics)
    except TopicProblem as problem:
        return ConfiguredTopology(topology.epoch, None, problem=problem.status)
    if not missing:
        return ConfiguredTopology(topology.epoch, subtopologies)
    listed = _listed([topic.name for topic in missing])
    return ConfiguredTopology(
        topology.epoch,
        subtopologies,
        missing,
        Status(StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {listed}"),
    )


def _check_sources(topology: Topology, topics: CoordinatedTopics) -> None:
    missing = {
        topic
        for subtopology in topology.subtopologies.values()
        for topic in subtopology.source_topics
        if topics.by_name(topic) is None
    }
    if missing:
        listed = _listed(sorted(missing, key=java_text_order))
        raise TopicProblem(
            Status(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {listed} are missing.")
        )


def _configured(subtopology: Subtopology, counts: PartitionCounts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        max(map(counts.get, sources_of(subtopology))),
        subtopology.source_topics,
        _internal(subtopology.repartition_source_topics, counts),
        subtopology.repartition_sink_topics,
        _internal(subtopology.state_changelog_topics, counts),
    )


def _internal(topics: Iterable[TopicInfo], counts: PartitionCounts) -> dict[str, InternalTopic]:
    by_name = {}
    for topic in topics:
        count = topic.partitions or counts.decided[topic.name]
        if count < 1:
            raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
        configs = {config.key: config.value for config in topic.topic_configs}
        by_name[topic.name] = InternalTopic(
            topic.name,
            count,
            topic.replication_factor,
            {key: configs[key] for key in hash_order(configs)},
        )
    return {name: by_name[name] for name in hash_order(by_name)}


def _missing(
    subtopologies: Collection[ConfiguredSubtopology], topology: Topology, topics: CoordinatedTopics
) -> list[InternalTopic]:
    """Return the missing internal topics; existing topics must have the right partitions."""
    expected: dict[str, InternalTopic] = {}
    for subtopology in subtopologies:
        expected |= subtopology.repartition_sources
        expected |= subtopology.changelogs
    for name in topology.required_topics:
        existing = topics.by_name(name)
        wanted = expected.get(name)
        if existing is None or wanted is None:
            continue
        if existing.partition_count != wanted.partition_count:
            raise TopicProblem(
                Status(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Existing topic {name} has different number of partitions: expected "
                    f"{wanted.partition_count}, found {existing.partition_count}",
                )
            )
    return [expected[name] for name in hash_order(expected) if topics.by_name(name) is None]


def _listed(topics: Sequence[str]) -> str:
    more = len(topics) - _LISTED_TOPICS
    listed = ", ".join(topics[:_LISTED_TOPICS])
    return f"{listed} and {more} additional topics" if more > 0 else listed
