"""Decides how many partitions the internal topics of a topology have (KIP-1071).

A repartition topic gets as many as the largest topic read by the subtopology that writes it, unless
the topology fixes the number; topics of a copartition group have the same number; a changelog has
as many as its subtopology has tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wirekafka.coordinator.groups.streams.status import Status, StatusCode, TopicProblem
from wirekafka.coordinator.groups.streams.topology import (
    Subtopology,
    Topology,
    hash_order,
    sources_of,
)
from wirekafka.coordinator.topics import CoordinatedTopics
from wirekafka.errors import Error, KafkaError


class PartitionCounts:
    """The number of partitions of existing topics, and of the internal topics decided so far.

    Construction decides all. Raises STREAMS_INVALID_TOPOLOGY, or `TopicProblem` for topics whose
    numbers of partitions do not match.
    """

    def __init__(self, topology: Topology, topics: CoordinatedTopics):
        self._topics = topics
        self._subtopologies = topology.subtopologies.values()
        self.decided: dict[str, int] = {}
        self.decided.update(self._repartition_counts())
        self._align_copartitions()
        self.decided.update(self._changelog_counts())

    def find(self, topic: str) -> int | None:
        """Return the number of partitions of a topic: as it exists, or as decided."""
        existing = self._topics.by_name(topic)
        return self.decided.get(topic) if existing is None else existing.partition_count

    def get(self, topic: str) -> int:
        """Return the number as `find` does; raises UNKNOWN_SERVER_ERROR if it is unknown."""
        count = self.find(topic)
        if count is None:
            raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
        return count

    # Repartition topics

    def _repartition_counts(self) -> dict[str, int]:
        counts = {
            topic.name: topic.partitions
            for subtopology in self._subtopologies
            for topic in subtopology.repartition_source_topics
            if topic.partitions
        }
        while self._decide_some(counts):
            pass
        for subtopology in self._subtopologies:
            if any(topic.name not in counts for topic in subtopology.repartition_source_topics):
                raise _invalid(
                    "Failed to compute number of partitions for all repartition topics, because a "
                    "repartition source topic is never used as a sink topic."
                )
        return counts

    def _decide_some(self, counts: dict[str, int]) -> bool:
        """Add the counts of sinks whose subtopology's sources are known; whether some are left."""
        has_decided = is_incomplete = False
        for subtopology in self._subtopologies:
            for sink in subtopology.repartition_sink_topics:
                if sink in counts:
                    continue
                count = self._largest_source(subtopology, counts)
                if count is None:
                    is_incomplete = True
                else:
                    counts[sink] = count
                    has_decided = True
        if is_incomplete and not has_decided:
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be "
                "loops in the topology that cannot be resolved."
            )
        return is_incomplete

    def _largest_source(self, subtopology: Subtopology, counts: dict[str, int]) -> int | None:
        known = [counts.get(topic.name) for topic in subtopology.repartition_source_topics]
        known += [self.find(topic) for topic in subtopology.source_topics]
        return max((count for count in known if count is not None), default=None)

    # Copartition groups

    def _align_copartitions(self) -> None:
        internal = [
            topic
            for subtopology in self._subtopologies
            for topic in subtopology.repartition_source_topics
        ]
        fixed = hash_order(topic.name for topic in internal if topic.partitions)
        flexible = {topic.name for topic in internal if not topic.partitions}
        for subtopology in self._subtopologies:
            for group in _copartition_groups(subtopology):
                if group:
                    self._align(group, fixed, flexible)

    def _align(self, group: Sequence[str], fixed: Sequence[str], flexible: set[str]) -> None:
        """Give all repartition topics of a group the number that it must have."""
        repartition = {
            topic: self.get(topic)
            for topic in hash_order(each for each in group if each in fixed or each in flexible)
        }
        others = {
            topic: self.get(topic)
            for topic in hash_order(each for each in group if each not in repartition)
        }
        if others:
            count = _same_count(others)
        elif fixed:
            if len({self.get(topic) for topic in fixed}) > 1:
                raise _mismatch(repartition)
            count = self.get(fixed[0])
        else:
            count = max(repartition.values())
        for topic, own_count in repartition.items():
            self.decided[topic] = count
            if topic in fixed and own_count != count:
                raise _incorrect(
                    f"Number of partitions [{own_count}] of repartition topic [{topic}] doesn't "
                    f"match number of partitions [{count}] of the source topic."
                )

    # Changelogs

    def _changelog_counts(self) -> dict[str, int]:
        counts = {}
        for subtopology in self._subtopologies:
            task_count = max(map(self.get, sources_of(subtopology)), default=None)
            if task_count is None:
                raise _invalid(
                    f"No source topics found for subtopology {subtopology.subtopology_id}"
                )
            for topic in subtopology.state_changelog_topics:
                counts[topic.name] = task_count
        return counts


def _copartition_groups(subtopology: Subtopology) -> Iterable[Sequence[str]]:
    for group in subtopology.copartition_groups:
        try:
            yield hash_order(
                [
                    *(subtopology.source_topics[index] for index in group.source_topics),
                    *(
                        subtopology.repartition_source_topics[index].name
                        for index in group.repartition_source_topics
                    ),
                ]
            )
        except IndexError:
            raise KafkaError(Error.UNKNOWN_SERVER_ERROR) from None


def _same_count(counts: dict[str, int]) -> int:
    if len(set(counts.values())) > 1:
        raise _mismatch(counts)
    return next(iter(counts.values()))


def _mismatch(counts: dict[str, int]) -> TopicProblem:
    listed = ", ".join(f"{topic}={counts[topic]}" for topic in sorted(counts))
    return _incorrect(f"Following topics do not have the same number of partitions: [{{{listed}}}]")


def _incorrect(detail: str) -> TopicProblem:
    return TopicProblem(Status(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail))


def _invalid(message: str) -> KafkaError:
    return KafkaError(Error.STREAMS_INVALID_TOPOLOGY, message)
