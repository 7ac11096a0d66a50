"""Finds the topics, groups and transactional ids that a request names, by its field names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from wirekafka.codec.message import Part, Request

NameOf = Callable[[bytes], str | None]
"""Returns the name of the topic with an id, or None."""

TOPIC_LISTS = frozenset(
    {
        "topics",
        "topic_data",
        "responses",
        "topic_names",
        "v3_and_below_topics",
        "results_by_topic_v3_and_below",
        "topic_results",
        "forgotten_topics_data",
    }
)
PARTITION_LISTS = frozenset(
    {
        "partitions",
        "partition_indexes",
        "partition_data",
        "partition_responses",
        "results_by_partition",
    }
)
_TOPIC_NAMES = ("name", "topic", "topic_name")
_PARTITION_NAMES = ("partition", "partition_index", "index")
_NESTED = frozenset({"groups", "transactions", "markers"})
_NO_ID = bytes(16)
_GROUP, _TRANSACTION = 0, 1


class Subjects(NamedTuple):
    """The topics, partitions, groups and transactional ids that a request names.

    The index of a partition is None where the request names a whole topic.
    """

    partitions: frozenset[tuple[str, int | None]]
    groups: frozenset[str]
    transactional_ids: frozenset[str]

    def has_topic(self, topic: str | None, partition: int | None) -> bool:
        """Whether the request names the topic and partition; None matches any."""
        return any(
            (topic is None or name == topic) and (partition in (None, index))
            for name, index in self.partitions
        )


def subjects_of(request: Request, name_of: NameOf) -> Subjects:
    """The topics, groups and transactional ids that a request names."""
    groups, transactional_ids = _keys(request)
    return Subjects(
        frozenset(_partitions(request, name_of)), frozenset(groups), frozenset(transactional_ids)
    )


def topic_name(entry: Any, name_of: NameOf) -> str | None:
    """The topic name of an entry of a topic list."""
    if isinstance(entry, str):
        return entry
    for attribute in _TOPIC_NAMES:
        name = getattr(entry, attribute, None)
        if name:
            return str(name)
    topic_id = getattr(entry, "topic_id", _NO_ID)
    return name_of(topic_id) if topic_id != _NO_ID else None


def partition_index(entry: Any) -> int | None:
    """The partition index of an entry of a partition list."""
    if isinstance(entry, int):
        return entry
    for attribute in _PARTITION_NAMES:
        if hasattr(entry, attribute):
            return int(getattr(entry, attribute))
    return None


def partition_list(entry: Any) -> str | None:
    """The name of the field that lists a topic's partitions."""
    if isinstance(entry, Part):
        for field in entry.fields:
            if field.name in PARTITION_LISTS:
                return field.name
    return None


def fields_of(kind: Any) -> set[str]:
    """The names of all fields in a message class, nested fields included."""
    names = set()
    for field in kind.fields:
        names.add(field.name)
        if isinstance(field.kind, type):
            names |= fields_of(field.kind)
    return names


def names_topics(kind: Any) -> bool:
    """Whether a request class can name topics."""
    return bool(fields_of(kind) & TOPIC_LISTS)


def names_partitions(kind: Any) -> bool:
    """Whether a request class can name partitions."""
    return names_topics(kind) and bool(fields_of(kind) & PARTITION_LISTS)


def names_groups(kind: Any) -> bool:
    """Whether a request class can name groups."""
    return bool(fields_of(kind) & {"group_id", "groups", "groups_names", "coordinator_keys"})


def names_transactions(kind: Any) -> bool:
    """Whether a request class can name transactional ids."""
    return bool(fields_of(kind) & {"transactional_id", "transactional_ids", "coordinator_keys"})


def _partitions(message: Any, name_of: NameOf) -> Iterator[tuple[str, int | None]]:
    for field in message.fields:
        if field.name in TOPIC_LISTS:
            for entry in getattr(message, field.name) or ():
                name = topic_name(entry, name_of)
                if name is not None:
                    yield from _of_topic(name, entry)
        elif field.name in _NESTED:
            for part in getattr(message, field.name) or ():
                if isinstance(part, Part):
                    yield from _partitions(part, name_of)


def _of_topic(name: str, entry: Any) -> Iterator[tuple[str, int | None]]:
    listed = partition_list(entry)
    if listed is None:
        yield name, None
        return
    for partition in getattr(entry, listed) or ():
        yield name, partition_index(partition)


def _keys(request: Any) -> tuple[list[str], list[str]]:
    """Group ids and transactional ids."""
    if hasattr(request, "coordinator_keys"):
        keys = [key for key in (request.key, *request.coordinator_keys) if key]
        return (
            (keys, [])
            if request.key_type == _GROUP
            else (([], keys) if request.key_type == _TRANSACTION else ([], []))
        )
    groups = [request.group_id] if getattr(request, "group_id", None) else []
    for name in ("groups", "groups_names"):
        for entry in getattr(request, name, None) or ():
            groups.append(entry if isinstance(entry, str) else entry.group_id)
    transactions = [
        getattr(request, "transactional_id", None),
        getattr(request, "v3_and_below_transactional_id", None),
        *(getattr(request, "transactional_ids", None) or ()),
    ]
    for entry in getattr(request, "transactions", None) or ():
        transactions.append(getattr(entry, "transactional_id", None))
    return groups, [each for each in transactions if each]
