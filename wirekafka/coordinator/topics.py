"""The cluster's topics as group coordinators see them, and the hash that shows a change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from struct import Struct
from typing import NamedTuple, Protocol

import xxhash

from wirekafka.coordinator.java_order import java_text_order

_INT = Struct("<i")
_LONG = Struct("<q")
_SIGN = 1 << 63
_HASH_VERSION = b"\x00"


class CoordinatedTopic(NamedTuple):
    """A topic: its name, its id (16 bytes) and its number of partitions."""

    name: str
    id: bytes
    partition_count: int


class CoordinatedTopics(Protocol):
    """A live view of all topics."""

    @property
    def version(self) -> int:
        """The offset in the metadata log up to which the topics are known."""

    @property
    def creation_version(self) -> int:
        """The version in which topics were last created."""

    def by_name(self, name: str) -> CoordinatedTopic | None:
        """Return a topic, or None if it does not exist."""

    def by_id(self, id: bytes) -> CoordinatedTopic | None:
        """Return a topic, or None if it does not exist."""

    def names(self) -> Iterable[str]:
        """Return the names of all topics, internal topics included."""

    def racks(self, id: bytes) -> Sequence[Collection[str]]:
        """Return the known racks of the replicas, for each partition of a topic."""

    def hash_of(self, topic: CoordinatedTopic) -> int:
        """Return `topic_hash` of an existing topic."""


class _NoTopics:
    version = 0
    creation_version = 0

    def by_name(self, name: str) -> None:
        return None

    def by_id(self, id: bytes) -> None:
        return None

    def names(self) -> Iterable[str]:
        return ()

    def racks(self, id: bytes) -> Sequence[Collection[str]]:
        return ()

    def hash_of(self, topic: CoordinatedTopic) -> int:
        return topic_hash(topic, self.racks(topic.id))


NO_TOPICS: CoordinatedTopics = _NoTopics()
"""A cluster without topics."""


def topics_hash(names: Iterable[str], topics: CoordinatedTopics) -> int:
    """Return the signed hash of these topics as stored in group records (KIP-1101).

    It is 0 without topics. It changes whenever an assignment could: a topic was created or deleted,
    or its partitions or their racks changed.
    """
    found = [topic for topic in map(topics.by_name, names) if topic is not None]
    if not found:
        return 0
    found.sort(key=lambda topic: java_text_order(topic.name))
    return _signed(
        xxhash.xxh3_64_intdigest(b"".join(_LONG.pack(topics.hash_of(topic)) for topic in found))
    )


def topic_hash(topic: CoordinatedTopic, racks: Sequence[Collection[str]]) -> int:
    """Return the signed hash of one topic: XXH3 over its fields, as hash4j streams them."""
    stream = bytearray(_HASH_VERSION)
    stream += topic.id[7::-1] + topic.id[:7:-1]
    stream += _text(topic.name)
    stream += _INT.pack(topic.partition_count)
    texts: dict[tuple[str, ...], bytes] = {}
    for partition, racks_of_partition in zip(range(topic.partition_count), racks, strict=True):
        stream += _INT.pack(partition)
        if racks_of_partition:
            names = tuple(racks_of_partition)
            if names not in texts:
                texts[names] = _rack_texts(names)
            stream += texts[names]
    return _signed(xxhash.xxh3_64_intdigest(bytes(stream)))


def _rack_texts(racks: Collection[str]) -> bytes:
    texts = [_text(rack) for rack in sorted(racks, key=java_text_order)]
    return b"".join(text[-_INT.size :] + text for text in texts)


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _INT.pack(len(units) // 2)


def _signed(unsigned: int) -> int:
    return unsigned - 2 * _SIGN if unsigned & _SIGN else unsigned
