"""The partitions that the processes of an application read, for interactive queries (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wirekafka.coordinator.groups.streams.commands import EndpointPartitions
from wirekafka.coordinator.groups.streams.configure import ConfiguredSubtopology, ConfiguredTopology
from wirekafka.coordinator.groups.streams.group import StreamsGroup
from wirekafka.coordinator.groups.streams.member import StreamsMember
from wirekafka.coordinator.groups.streams.tasks import flatten, grouped
from wirekafka.coordinator.groups.streams.topology import hash_order
from wirekafka.coordinator.java_order import copied_capacity, grown_capacity, strings_in_order
from wirekafka.coordinator.topics import CoordinatedTopics
from wirekafka.errors import Error, KafkaError


class EndpointsUnknown(KafkaError):
    """The error of Kafka while source topics are missing: endpoints then have no partitions."""


def endpoints_of(
    group: StreamsGroup,
    updated: StreamsMember,
    replaced: StreamsMember | None,
    configured: ConfiguredTopology,
    topics: CoordinatedTopics,
) -> list[EndpointPartitions]:
    """Return an entry for each member that has an endpoint, the updated one last.

    Raises `EndpointsUnknown`.
    """
    passed_over = {updated.member_id, replaced.member_id if replaced is not None else None}
    members = [group.members[id] for id in group.member_ids() if id not in passed_over]
    return [
        _entry(member, configured.subtopologies, topics)
        for member in (*members, updated)
        if member.endpoint is not None
    ]


def _entry(
    member: StreamsMember,
    subtopologies: Mapping[str, ConfiguredSubtopology] | None,
    topics: CoordinatedTopics,
) -> EndpointPartitions:
    if subtopologies is None:
        raise EndpointsUnknown(Error.UNKNOWN_SERVER_ERROR)
    assert member.endpoint is not None
    copies = grouped(flatten(member.assigned.standby) | flatten(member.assigned.warmup))
    return EndpointPartitions(
        member.endpoint,
        list(_partitions(member.assigned.active, subtopologies, topics)),
        list(_partitions(copies, subtopologies, topics)),
    )


def _partitions(
    tasks: Mapping[str, Iterable[int]],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    topics: CoordinatedTopics,
) -> Iterable[tuple[str, list[int]]]:
    for id in hash_order(tasks):
        if id not in subtopologies:
            raise EndpointsUnknown(Error.UNKNOWN_SERVER_ERROR)
        for name in _source_topics(subtopologies[id]):
            topic = topics.by_name(name)
            if topic is None:
                raise EndpointsUnknown(Error.UNKNOWN_SERVER_ERROR)
            partitions = sorted(each for each in tasks[id] if each < topic.partition_count)
            if partitions:
                yield name, partitions


def _source_topics(subtopology: ConfiguredSubtopology) -> list[str]:
    """Return all source topics, in the order of a Java set copied from the plain source topics."""
    sources = hash_order(subtopology.source_topics)
    names = list(dict.fromkeys([*sources, *subtopology.repartition_sources]))
    return strings_in_order(names, grown_capacity(len(names), copied_capacity(len(sources))))
