"""The topics of a share group whose share partitions have a stored state, or are getting one.

The collections are in the iteration order of the Java collections that Kafka computes with, as
records are written in that order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from wirekafka.coordinator.java_order import (
    HashOrder,
    copied_capacity,
    grown_capacity,
    integers_in_order,
    sized_capacity,
    uuid_hash_code,
    uuids_in_order,
)
from wirekafka.coordinator.topics import CoordinatedTopics
from wirekafka.protocol.records.share_groups import ShareGroupStatePartitionMetadataValue

_UNKNOWN = "<UNKNOWN>"
"""The name that Kafka stores for a topic that does not exist any more."""

Partitions: TypeAlias = Mapping[bytes, Sequence[int]]
"""Partitions by topic id."""

_TopicPartitions = ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo
_Topic = ShareGroupStatePartitionMetadataValue.TopicInfo


class StoredTopic(NamedTuple):
    """A topic with some of its partitions."""

    name: str
    partitions: Sequence[int]


Topics: TypeAlias = Mapping[bytes, StoredTopic]
NO_STORED_TOPICS: Topics = {}


class StoredTopics(NamedTuple):
    """The topics by the progress of their state: by topic id, and a set of ids.

    Partitions may be both initialized and being initialized again. `deleting` are topics whose
    state was requested to be deleted.
    """

    initializing: Topics = NO_STORED_TOPICS
    initialized: Topics = NO_STORED_TOPICS
    deleting: Sequence[bytes] = ()

    @classmethod
    def read(cls, value: ShareGroupStatePartitionMetadataValue) -> StoredTopics:
        """Return the content of a record."""
        return cls(
            _read(value.initializing_topics),
            _read(value.initialized_topics),
            _ids_in_order(topic.topic_id for topic in value.deleting_topics),
        )

    def value(self, topics: CoordinatedTopics) -> ShareGroupStatePartitionMetadataValue:
        """Return the record's value; the names of deleted topics are unknown."""
        return ShareGroupStatePartitionMetadataValue(
            initializing_topics=_written(self.initializing),
            initialized_topics=_written(self.initialized),
            deleting_topics=[
                _Topic(topic_id=id, topic_name=name_of(id, topics)) for id in self.deleting
            ],
        )

    # Initialization

    def lacking(
        self, names: Iterable[str], topics: CoordinatedTopics, retries: bool
    ) -> dict[bytes, StoredTopic]:
        """Return the partitions of the named topics whose state is to be initialized now.

        Partitions that are being initialized are included only if the initialization is to be
        retried.
        """
        known = self.initialized if retries else combined(self.initialized, self.initializing)
        found: dict[bytes, StoredTopic] = {}
        order = HashOrder(uuid_hash_code)
        for name in names:
            topic = topics.by_name(name)
            if topic is None:
                continue
            partitions = known[topic.id].partitions if topic.id in known else ()
            if len(partitions) < topic.partition_count or not partitions:
                order.compute(topic.id)
                missing = [each for each in range(topic.partition_count) if each not in partitions]
                found[topic.id] = StoredTopic(
                    name, integers_in_order(missing, grown_capacity(topic.partition_count))
                )
        return {topic_id: found[topic_id] for topic_id in order.walk()}

    def with_initializing(self, added: Topics) -> StoredTopics:
        """Return the topics once the initialization of more partitions has begun."""
        initializing = combined(self.initializing, added)
        return self._replace(
            initializing=initializing, deleting=_changed_ids(self.deleting, gone=initializing)
        )

    def with_initialized(self, done: Partitions, topics: CoordinatedTopics) -> StoredTopics:
        """Return the topics once the state of these partitions is initialized."""
        added = {
            id: StoredTopic(name_of(id, topics), partitions) for id, partitions in done.items()
        }
        return StoredTopics(
            _copied_in_order(_without(self.initializing, done), len(self.initializing)),
            combined(self.initialized, in_order(added.items())),
            _ids_in_order(self.deleting),
        )

    def without_initializing(self, failed: Partitions) -> StoredTopics:
        """Return the topics once the initialization of these partitions has failed."""
        return self._replace(initializing=in_order(_without(self.initializing, failed)))

    # Deletion

    def with_all_deleting(self, topics: CoordinatedTopics) -> tuple[StoredTopics, Topics]:
        """Return the topics once the state of all is to be deleted, and all their partitions."""
        gone = combined(self.initialized, self.initializing)
        again: dict[bytes, StoredTopic] = {}
        for id in self.deleting:
            topic = topics.by_id(id)
            if topic is not None:
                again[id] = StoredTopic(topic.name, range(topic.partition_count))
        if again:
            gone = combined(gone, in_order(again.items()))
        return StoredTopics(deleting=tuple(gone)), gone

    def with_deleting(self, ids: Collection[bytes]) -> StoredTopics:
        """Return the topics once the state of initialized topics is to be deleted."""
        kept = ((id, topic) for id, topic in self.initialized.items() if id not in ids)
        return self._replace(
            initialized=_copied_in_order(kept, len(self.initialized)),
            deleting=_changed_ids(self.deleting, ids),
        )

    def without_deleting(self, ids: Collection[bytes]) -> StoredTopics:
        """Return the topics once the state of these is deleted."""
        return self._replace(deleting=_changed_ids(self.deleting, gone=ids))

    def without(self, ids: Collection[bytes]) -> StoredTopics | None:
        """Return the topics without deleted topics; None if there is no change."""
        if not any(id in self.initializing or id in self.initialized for id in ids) and not any(
            id in ids for id in self.deleting
        ):
            return None
        return StoredTopics(
            _copied_without(self.initializing, ids),
            _copied_without(self.initialized, ids),
            _changed_ids(self.deleting, gone=ids),
        )


def name_of(id: bytes, topics: CoordinatedTopics) -> str:
    """Return the name of a topic as records have it."""
    topic = topics.by_id(id)
    return _UNKNOWN if topic is None else topic.name


def combined(one: Topics, other: Topics) -> Topics:
    """Return the topics of both with the partitions of both; the other's names win."""
    ids = HashOrder(uuid_hash_code, copied_capacity(len(one)))
    for id in (*one, *other):
        ids.put(id)
    result = []
    for id in ids.walk():
        known, added = one.get(id), other.get(id)
        first: Sequence[int] = known.partitions if known is not None else ()
        second: Sequence[int] = added.partitions if added is not None else ()
        partitions = dict.fromkeys((*first, *second))
        capacity = copied_capacity(len(first)) if known is not None else grown_capacity(0)
        newest = added or known
        assert newest is not None, "the id is one of theirs"
        result.append(
            (
                id,
                StoredTopic(
                    newest.name,
                    integers_in_order(partitions, grown_capacity(len(partitions), capacity)),
                ),
            )
        )
    return in_order(result)


def by_topic(partitions: Iterable[tuple[bytes, int]]) -> dict[bytes, list[int]]:
    """Group (topic id, partition) pairs by topic.

    This is the order of Kafka's results of requests to the share coordinator: Kafka makes maps by
    topic and by partition, into which `computeIfAbsent` inserts each partition.
    """
    topics = HashOrder(uuid_hash_code)
    found: dict[bytes, HashOrder[int]] = {}
    for id, partition in partitions:
        topics.compute(id)
        found.setdefault(id, HashOrder(int)).compute(partition)
    return {id: found[id].walk() for id in topics.walk()}


def as_computed(ids: Iterable[bytes]) -> list[bytes]:
    """Return ids in the order of a Java map into which `computeIfAbsent` inserts them.

    An id may occur repeatedly, since a map may grow at any insertion.
    """
    order = HashOrder(uuid_hash_code)
    for id in ids:
        order.compute(id)
    return order.walk()


def in_order(topics: Iterable[tuple[bytes, StoredTopic]]) -> Topics:
    """Return topics in the order of a Java map into which they are put."""
    found = dict(topics)
    return {id: found[id] for id in uuids_in_order(found, grown_capacity(len(found)))}


def _without(topics: Topics, gone: Partitions) -> list[tuple[bytes, StoredTopic]]:
    kept = []
    for id, topic in topics.items():
        rest = [each for each in topic.partitions if each not in gone.get(id, ())]
        if rest or id not in gone:
            partitions = integers_in_order(rest, copied_capacity(len(topic.partitions)))
            kept.append((id, topic._replace(partitions=partitions)))
    return kept


def _copied_in_order(kept: Iterable[tuple[bytes, StoredTopic]], count: int) -> Topics:
    """Return the rest of a Java map into which `count` topics were put."""
    found = dict(kept)
    return {id: found[id] for id in uuids_in_order(found, grown_capacity(count))}


def _copied_without(topics: Topics, ids: Collection[bytes]) -> Topics:
    order = uuids_in_order(topics, sized_capacity(len(topics)))
    return {id: topics[id] for id in order if id not in ids}


def _changed_ids(
    ids: Collection[bytes], added: Iterable[bytes] = (), gone: Collection[bytes] = ()
) -> tuple[bytes, ...]:
    """Return the ids of a Java set in the order of a map made from its changed copy."""
    copy = HashOrder(uuid_hash_code, copied_capacity(len(ids)))
    for id in (*ids, *added):
        copy.put(id)
    return _ids_in_order(id for id in copy.walk() if id not in gone)


def _ids_in_order(ids: Iterable[bytes]) -> tuple[bytes, ...]:
    found = dict.fromkeys(ids)
    return tuple(uuids_in_order(found, grown_capacity(len(found))))


def _read(topics: Iterable[_TopicPartitions]) -> Topics:
    return in_order(
        (
            topic.topic_id,
            StoredTopic(
                topic.topic_name,
                integers_in_order(
                    dict.fromkeys(topic.partitions), copied_capacity(len(topic.partitions))
                ),
            ),
        )
        for topic in topics
    )


def _written(topics: Topics) -> list[_TopicPartitions]:
    return [
        _TopicPartitions(topic_id=id, topic_name=topic.name, partitions=list(topic.partitions))
        for id, topic in topics.items()
    ]
