"""The topology of a streams group: the subtopologies that its members sent (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wirekafka.coordinator.java_order import grown_capacity, strings_in_order
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue

Subtopology = StreamsGroupTopologyValue.Subtopology


class Topology:
    """A topology, as its record stores it."""

    def __init__(self, value: StreamsGroupTopologyValue):
        by_id = {each.subtopology_id: each for each in value.subtopologies}
        if value.epoch < 0 or len(by_id) < len(value.subtopologies):
            raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
        self.value = value
        self.epoch = value.epoch
        self.subtopologies: Mapping[str, Subtopology] = {id: by_id[id] for id in hash_order(by_id)}
        """By id, in the order in which Kafka iterates over them."""
        self.required_topics = hash_order(
            topic for each in self.subtopologies.values() for topic in _topics_of(each)
        )
        """Source topics, repartition topics and changelogs, in Kafka's order."""
        self.topic_set = frozenset(self.required_topics)
        self.reader_of = {
            topic: each.subtopology_id
            for each in self.subtopologies.values()
            for topic in sources_of(each)
        }
        """The subtopology that reads a source or repartition topic."""

    def is_same(self, other: Topology) -> bool:
        """Whether both have the same epoch and subtopologies, in any order."""
        return self.epoch == other.epoch and self.subtopologies == other.subtopologies


def sources_of(subtopology: Subtopology) -> list[str]:
    """Return the topics that a subtopology reads, repartition topics last."""
    return [
        *subtopology.source_topics,
        *(topic.name for topic in subtopology.repartition_source_topics),
    ]


def hash_order(texts: Iterable[str]) -> list[str]:
    """Return distinct strings in the order of a Java map into which they were put."""
    distinct = dict.fromkeys(texts)
    return strings_in_order(distinct, grown_capacity(len(distinct)))


def _topics_of(subtopology: Subtopology) -> Iterable[str]:
    yield from sources_of(subtopology)
    for topic in subtopology.state_changelog_topics:
        yield topic.name
