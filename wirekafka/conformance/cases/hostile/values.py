"""Requests of every API with one value that no honest client would send, and what follows.

After each, the broker must serve the next request.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from wirekafka.codec.frame import encode_frame
from wirekafka.codec.message import Request
from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.hostile.left_out import is_left_out
from wirekafka.conformance.cases.hostile.requests import REQUESTS, TOPIC, TOPIC_ID, versions_of
from wirekafka.conformance.hostile import LONG_NAME, MISSING, Variant, frame, variants
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.metadata import MetadataRequest

_MOST_NULLS = 1
"""How many fields of an API are null that must not be: one decoder reads all of them."""
_JOINING = frozenset({"ConsumerGroupHeartbeat", "ShareGroupHeartbeat"})
"""APIs whose request may make a member, which is to leave."""
_LEAVES = -1


def two_numbers(bits: int) -> tuple[int, ...]:
    """A negative number and the largest."""
    return -1, 2 ** (bits - 1) - 1


def _books() -> Iterator[Book]:
    for request in REQUESTS:
        kind = type(request)
        book = Book(
            kind,
            "hostile input",
            ConformanceLevel.COMPLETE,
            f"{kind.__name__}.json",
            folder="hostile",
        )
        for each in _chosen(request):
            _add(book, each)
        yield book


def _chosen(request: Request) -> Iterator[Variant]:
    """The variants of a request that are sent."""
    kind = type(request)
    version = kind.versions.last
    nulls = 0
    for each in variants(request, version, two_numbers):
        if is_left_out(kind.__name__.removesuffix("Request"), each.label):
            continue
        is_refused = each.label.endswith(" null") and not _may_be_null(each.request)
        nulls += is_refused
        if not is_refused or nulls <= _MOST_NULLS:
            yield each


def _may_be_null(request: Request) -> bool:
    """Whether the codec writes a request in which a field is null."""
    try:
        request.encode(type(request).versions.last)
    except (TypeError, AttributeError, ValueError):
        return False
    return True


def _add(book: Book, variant: Variant) -> None:
    def play(stage: Stage) -> None:
        request = _of_run(variant.request, stage)
        answer = stage.ask(request, frame=encode_frame([frame(request, stage.version)]))
        if book.api in _JOINING and getattr(answer, "error_code", 1) == 0:
            stage.do(_leaving(request, answer))
        described = stage.do(_shared(stage), 9)
        assert described.topics[0].error_code == 0, "the shared topic is no longer described"

    book.play(_title(variant.label), versions=versions_of(book.request))(play)


def _title(label: str) -> str:
    """The label of a variant in words."""
    field, _, value = label.partition(" = ")
    number = value.replace("-", "minus ")
    words = {"": label, "''": f"{field} of no letters", "'t/\\n'": f"{field} with a line's end"}
    return words.get(value, f"{field} of {number}")


def _of_run(value: Any, stage: Stage) -> Any:
    """A request in which names of the run take the place of the names that stand for them."""
    long_name = stage.name("long" * 75)
    stage.call(long_name, "a long name")
    known: dict[Any, Any] = {
        TOPIC: stage.topic,
        TOPIC_ID: stage.id_of(stage.topic),
        MISSING: stage.name("missing"),
        "nobody": stage.name("nobody"),
        "t/\n": stage.name("/\n"),
        LONG_NAME: long_name,
    }
    return _with_names(value, known)


def _with_names(value: Any, known: dict[Any, Any]) -> Any:
    if isinstance(value, list):
        return [_with_names(each, known) for each in value]
    if hasattr(value, "fields"):
        changed = copy.copy(value)
        for field in value.fields:
            if getattr(value, field.name) is not field.default:
                setattr(changed, field.name, _with_names(getattr(value, field.name), known))
        return changed
    return known.get(value, value) if isinstance(value, str | bytes) else value


def _leaving(request: Any, answer: Any) -> Request:
    leaving: Request = type(request)(
        group_id=request.group_id, member_id=answer.member_id, member_epoch=_LEAVES
    )
    return leaving


def _shared(stage: Stage) -> Request:
    topic = MetadataRequest.Topic(name=stage.topic)
    return MetadataRequest(topics=[topic], allow_auto_topic_creation=False)


BOOKS = tuple(_books())
