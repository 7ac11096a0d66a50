"""Failing a part of a request: it is parted by topic and partition, and its answers are joined."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from wirekafka.codec.message import Request, Response
from wirekafka.errors import Error
from wirekafka.testing.subjects import (
    TOPIC_LISTS,
    NameOf,
    partition_index,
    partition_list,
    topic_name,
)

Chosen = Callable[[str, int | None], bool]
"""Whether a partition of a topic (None: the whole topic) is meant."""

_FETCH = 1
_METADATA = 3
_SESSION_ERRORS = frozenset({
    Error.FETCH_SESSION_ID_NOT_FOUND, Error.INVALID_FETCH_SESSION_EPOCH,
    Error.FETCH_SESSION_TOPIC_ID_ERROR, Error.UNSUPPORTED_VERSION})


def can_be_parted(request: Request) -> bool:
    """Whether the request's own list of topics can be split in two."""
    return any(field.name in TOPIC_LISTS and getattr(request, field.name)
               for field in request.fields)


def parted(request: Request, chosen: Chosen, name_of: NameOf) -> tuple[Request, Request | None]:
    """The chosen part and the rest, None where nothing is left."""
    ours, rest = copy.copy(request), copy.copy(request)
    is_left = False
    for field in request.fields:
        if field.name not in TOPIC_LISTS:
            continue
        entries = getattr(request, field.name)
        if entries is None:
            continue
        mine, others = [], []
        for entry in entries:
            one, other = _parted_topic(entry, topic_name(entry, name_of), chosen)
            mine += one
            others += other
        setattr(ours, field.name, mine)
        setattr(rest, field.name, others)
        is_left = is_left or bool(others)
    return ours, rest if is_left else None


def joined(failed: Response, served: Response | None, name_of: NameOf) -> Response:
    """One response of two: the topics of both, all else as it was served."""
    if served is None:
        return failed
    for field in served.fields:
        if field.name in TOPIC_LISTS:
            setattr(served, field.name, _joined_topics(
                getattr(served, field.name) or [], getattr(failed, field.name) or [], name_of))
    return served


def failed_fetch(request: Any, error: Error, response: type[Response]) -> Response:
    """A fetch of which every partition failed, and nothing else: at the top there is no error."""
    kind: Any = response
    topic_kind = kind.FetchableTopicResponse
    answer: Response = kind(responses=[
        topic_kind(topic=topic.topic, topic_id=topic.topic_id, partitions=[
            topic_kind.PartitionData(
                partition_index=asked.partition, error_code=error, high_watermark=-1)
            for asked in topic.partitions])
        for topic in request.topics])
    return answer


def is_session_error(error: Error) -> bool:
    """Whether a Fetch tells it of itself, and not of each partition."""
    return error in _SESSION_ERRORS


def fail_topics(response: Any, error: Error, chosen: Chosen) -> None:
    """Put an error in the place of the topics that were chosen, in an answer of Metadata."""
    for topic in response.topics:
        if topic.name is not None and chosen(topic.name, None):
            topic.error_code = error
            topic.partitions = []


def is_fetch(request: Request) -> bool:
    """Whether it is a Fetch, whose sessions name partitions only when they change."""
    return type(request).key == _FETCH


def is_metadata(request: Request) -> bool:
    """Whether it is a Metadata request, which may mean topics that it does not name."""
    return type(request).key == _METADATA


def _parted_topic(entry: Any, name: str | None, chosen: Chosen) -> tuple[list[Any], list[Any]]:
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
