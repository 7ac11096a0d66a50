"""Fails part of a request: splits it by partition and joins the two responses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from wirekafka.codec.message import Request, Response
from wirekafka.errors import Error
from wirekafka.testing.hooks.subjects import (
    TOPIC_LISTS,
    NameOf,
    partition_index,
    partition_list,
    topic_name,
)

Chosen = Callable[[str, int | None], bool]
"""Whether a partition of a topic (None: the whole topic) belongs to the part that fails."""

_FETCH = 1
_METADATA = 3
_SESSION_ERRORS = frozenset(
    {
        Error.FETCH_SESSION_ID_NOT_FOUND,
        Error.INVALID_FETCH_SESSION_EPOCH,
        Error.FETCH_SESSION_TOPIC_ID_ERROR,
        Error.UNSUPPORTED_VERSION,
    }
)


def can_be_split(request: Request) -> bool:
    """Whether the request's own list of topics can be split in two."""
    return any(
        field.name in TOPIC_LISTS and getattr(request, field.name) for field in request.fields
    )


def split(request: Request, chosen: Chosen, name_of: NameOf) -> tuple[Request, Request | None]:
    """Split a request into the chosen part and the rest, which is None if empty."""
    part, rest = copy.copy(request), copy.copy(request)
    is_left = False
    for field in request.fields:
        if field.name not in TOPIC_LISTS:
            continue
        entries = getattr(request, field.name)
        if entries is None:
            continue
        chosen_entries, others = [], []
        for entry in entries:
            one, other = _split_topic(entry, topic_name(entry, name_of), chosen)
            chosen_entries += one
            others += other
        setattr(part, field.name, chosen_entries)
        setattr(rest, field.name, others)
        is_left = is_left or bool(others)
    return part, rest if is_left else None


def joined(failed: Response, served: Response | None, name_of: NameOf) -> Response:
    """Merge two responses: the topics of both, all other fields from `served`."""
    if served is None:
        return failed
    for field in served.fields:
        if field.name in TOPIC_LISTS:
            setattr(
                served,
                field.name,
                _joined_topics(
                    getattr(served, field.name) or [], getattr(failed, field.name) or [], name_of
                ),
            )
    return served


def failed_fetch(request: Any, error: Error, response: type[Response]) -> Response:
    """A Fetch response with an error for every partition and none at the top level."""
    kind: Any = response
    topic_kind = kind.FetchableTopicResponse
    failed: Response = kind(
        responses=[
            topic_kind(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    topic_kind.PartitionData(
                        partition_index=each.partition, error_code=error, high_watermark=-1
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    return failed


def is_session_error(error: Error) -> bool:
    """Whether a Fetch response reports this error at its top level."""
    return error in _SESSION_ERRORS


def fail_topics(response: Any, error: Error, chosen: Chosen) -> None:
    """Replace the chosen topics of a Metadata response by an error."""
    for topic in response.topics:
        if topic.name is not None and chosen(topic.name, None):
            topic.error_code = error
            topic.partitions = []


def is_fetch(request: Request) -> bool:
    """Whether it is a Fetch, which need not name its partitions within a fetch session."""
    return type(request).key == _FETCH


def is_metadata(request: Request) -> bool:
    """Whether it is a Metadata request, which can ask for all topics without naming them."""
    return type(request).key == _METADATA


def _split_topic(entry: Any, name: str | None, chosen: Chosen) -> tuple[list[Any], list[Any]]:
    if name is None:
        return [], [entry]
    listed = partition_list(entry)
    if listed is None:
        return ([entry], []) if chosen(name, None) else ([], [entry])
    mine: list[Any] = []
    others: list[Any] = []
    for partition in getattr(entry, listed) or ():
        (mine if chosen(name, partition_index(partition)) else others).append(partition)
    if not others:
        return ([entry], []) if mine else ([], [entry])
    if not mine:
        return [], [entry]
    one, other = copy.copy(entry), copy.copy(entry)
    setattr(one, listed, mine)
    setattr(other, listed, others)
    return [one], [other]


def _joined_topics(served: list[Any], failed: list[Any], name_of: NameOf) -> list[Any]:
    topics = list(served)
    by_name = {topic_name(topic, name_of): topic for topic in topics}
    for topic in failed:
        same = by_name.get(topic_name(topic, name_of))
        listed = partition_list(topic)
        if same is None or listed is None:
            topics.append(topic)
        else:
            setattr(same, listed, [*getattr(same, listed), *getattr(topic, listed)])
    return topics
