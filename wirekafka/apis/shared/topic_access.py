"""Looks up the topics of a request that its client may know of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from wirekafka.apis.shared.call import Call
from wirekafka.errors import Error
from wirekafka.metadata.image.image import TopicImage
from wirekafka.security.acl import TOPIC, Operation


class NamedTopic(Protocol):
    """A part of a request that names a topic."""

    name: str


class Identified(Protocol):
    """A part of a request that gives a topic's id."""

    topic_id: bytes


def topics_by_name(
    topics: Sequence[NamedTopic], operation: Operation, call: Call
) -> list[TopicImage | Error]:
    """Each topic, or why the operation is impossible; whether a topic exists is not revealed."""
    known = call.broker.image.topics
    allowed = call.authorized(operation, TOPIC, [topic.name for topic in topics])
    return [
        known.get(topic.name, Error.UNKNOWN_TOPIC_OR_PARTITION)
        if topic.name in allowed
        else Error.TOPIC_AUTHORIZATION_FAILED
        for topic in topics
    ]


def topics_by_id(
    topics: Sequence[Identified], operation: Operation, call: Call
) -> list[TopicImage | Error]:
    """Each topic, or why the operation is impossible; ids, unlike names, are no secret."""
    known = call.broker.image.topics_by_id
    found = [known.get(topic.topic_id) for topic in topics]
    allowed = call.authorized(operation, TOPIC, [topic.name for topic in found if topic])
    return [
        Error.UNKNOWN_TOPIC_ID
        if topic is None
        else topic
        if topic.name in allowed
        else Error.TOPIC_AUTHORIZATION_FAILED
        for topic in found
    ]
