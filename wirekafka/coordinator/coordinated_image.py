"""The topics of a metadata image as group coordinators see them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from wirekafka.coordinator.topics import CoordinatedTopic, topic_hash
from wirekafka.metadata.image.image import MetadataImage, TopicImage
from wirekafka.protocol.records import metadata as r
from wirekafka.runtime.observation import Committed

_new: Any = tuple.__new__  # Half the price of a NamedTuple's own constructor.


def _ignore(topics: frozenset[str]) -> None:
    """Ignore a change while `on_change` is not set."""


class CoordinatedImage:
    """A live view of the topics of a metadata image (see `CoordinatedTopics`)."""

    def __init__(self, image: MetadataImage):
        self._image = image
        self.version = 0
        """The offset in the metadata log up to which the image is applied."""
        self.creation_version = 0
        """The version in which topics were last created."""
        self.on_change: Callable[[frozenset[str]], None] = _ignore
        """Called with the names of topics that were created, deleted, extended or reassigned."""
        self._hashes: dict[bytes, int] = {}
        self._hashed_generation = 0

    def changed(self, committed: Committed, removed: Iterable[TopicImage]) -> None:
        """Process a batch that was applied to the image; `removed` are deleted topics."""
        names = {topic.name for topic in removed}
        self.version = committed.end_offset - 1
        for record in committed.records:
            if isinstance(record, r.TopicRecord):
                self.creation_version = self.version
                names.add(record.name)
            elif isinstance(record, r.PartitionRecord) or (
                isinstance(record, r.PartitionChangeRecord) and record.replicas is not None
            ):
                topic = self._image.topics_by_id.get(record.topic_id)
                if topic is not None:
                    names.add(topic.name)
        if names:
            self.on_change(frozenset(names))

    def by_name(self, name: str) -> CoordinatedTopic | None:
        """Return a topic, or None if it does not exist."""
        return _coordinated(self._image.topics.get(name))

    def by_id(self, id: bytes) -> CoordinatedTopic | None:
        """Return a topic, or None if it does not exist."""
        return _coordinated(self._image.topics_by_id.get(id))

    def names(self) -> Iterable[str]:
        """Return the names of all topics, internal topics included."""
        return self._image.topics

    def racks(self, id: bytes) -> Sequence[Collection[str]]:
        """Return the known racks of the replicas, for each partition of a topic."""
        rack_of = {
            broker.id: broker.registration.rack
            for broker in self._image.brokers.values()
            if broker.registration.rack is not None
        }
        partitions = self._image.topics_by_id[id].partitions
        if not rack_of:
            return [()] * len(partitions)
        return [
            [rack_of[replica] for replica in partitions[index].replicas if replica in rack_of]
            for index in sorted(partitions)
        ]

    def hash_of(self, topic: CoordinatedTopic) -> int:
        """Return the hash of an existing topic, cached until the image changes."""
        if self._hashed_generation != self._image.generation:
            self._hashes.clear()
            self._hashed_generation = self._image.generation
        found = self._hashes.get(topic.id)
        if found is None:
            found = self._hashes[topic.id] = topic_hash(topic, self.racks(topic.id))
        return found


def _coordinated(topic: TopicImage | None) -> CoordinatedTopic | None:
    if topic is None:
        return None
    found: CoordinatedTopic = _new(CoordinatedTopic, (topic.name, topic.id, len(topic.partitions)))
    return found
