"""DescribeTopicPartitions: partitions of topics in pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.describe_topic_partitions import DescribeTopicPartitionsRequest

BOOK = Book(DescribeTopicPartitionsRequest, "metadata", ConformanceLevel.ADMIN, "KIP-966")
_USUAL_LIMIT = 2000


def page(
    *names: str, limit: int = _USUAL_LIMIT, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    """A request for a page of partitions of topics, from the cursor on."""
    kind = DescribeTopicPartitionsRequest
    at = None if cursor is None else kind.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    topics = [kind.TopicRequest(name=name) for name in names]
    return kind(topics=topics, response_partition_limit=limit, cursor=at)


_CASES: dict[str, Callable[[Stage], DescribeTopicPartitionsRequest]] = {
    "a topic": lambda s: page(s.topic),
    "two topics": lambda s: page(s.topic, s.compacted),
    "a topic twice": lambda s: page(s.topic, s.topic),
    "a missing topic": lambda s: page(s.missing),
    "a topic and a missing one": lambda s: page(s.missing, s.topic),
    "a name with a space": lambda s: page(s.name("a b")),
    "a dot": lambda _: page("."),
    "the metadata log": lambda _: page("__cluster_metadata"),
    "a limit of 1": lambda s: page(s.topic, limit=1),
    "a limit of 1 and two topics": lambda s: page(s.topic, s.compacted, limit=1),
    "a limit of 2 and two topics": lambda s: page(s.topic, s.compacted, limit=2),
    "a limit of exactly all": lambda s: page(s.topic, s.compacted, limit=3),
    "a limit that a missing topic does not use": lambda s: page(s.missing, s.topic, limit=2),
    "a limit of 0": lambda s: page(s.topic, limit=0),
    "a limit below zero": lambda s: page(s.topic, limit=-1),
    "the largest limit": lambda s: page(s.topic, limit=2**31 - 1),
    "a cursor at the start": lambda s: page(s.topic, cursor=(s.topic, 0)),
    "a cursor at the last partition": lambda s: page(s.topic, cursor=(s.topic, 1)),
    "a cursor at the end": lambda s: page(s.topic, cursor=(s.topic, 2)),
    "a cursor past the end": lambda s: page(s.topic, cursor=(s.topic, 9)),
    "a cursor below zero": lambda s: page(s.topic, cursor=(s.topic, -1)),
    "a cursor in the second topic": lambda s: page(s.topic, s.compacted, cursor=(s.topic, 1)),
    "a cursor in the first topic": lambda s: page(s.topic, s.compacted, cursor=(s.compacted, 0)),
    "a cursor of a topic that is not asked for": lambda s: page(s.topic, cursor=(s.compacted, 0)),
    "a cursor of a missing topic": lambda s: page(s.missing, s.topic, cursor=(s.missing, 0)),
    "a cursor of no name": lambda s: page(s.topic, cursor=("", 0)),
    "a cursor and a limit": lambda s: page(s.topic, s.compacted, limit=1, cursor=(s.topic, 0)),
}

for _title, _make in _CASES.items():
    BOOK.ask(_title, _make)


@BOOK.play("all pages")
def _pages(stage: Stage) -> None:
    """Two topics of five and three partitions in pages of two, each from the cursor before."""
    names = [stage.create("a", partitions=5), stage.create("b", partitions=3)]
    cursor: Any = None
    for _ in range(8):
        answer = stage.ask(page(*names, limit=2, cursor=cursor))
        if answer.next_cursor is None:
            break
        cursor = answer.next_cursor.topic_name, answer.next_cursor.partition_index


@BOOK.play("topics in any order")
def _sorted(stage: Stage) -> None:
    """Topics are described by the order of their names, not by that of the request."""
    names = [stage.create(text) for text in ("b", "c", "a")]
    answer = stage.do(page(*names, limit=2))
    stage.note("topics", " ".join(each.name for each in answer.topics))
    stage.note("next", answer.next_cursor)


@BOOK.play("all topics from a cursor")
def _all(stage: Stage) -> None:
    """No names mean all topics; the cursor makes the shared topic the first."""
    answer = stage.do(page(limit=2, cursor=(stage.topic, 0)))
    stage.note("topics", [each.name for each in answer.topics])
    stage.note("partitions", [len(each.partitions) for each in answer.topics])


@BOOK.play("an internal topic")
def _internal(stage: Stage) -> None:
    """The topic of offsets is internal, and the shared one is not."""
    answer = stage.do(page("__consumer_offsets", stage.topic, limit=2000))
    stage.note("are internal", [each.name for each in answer.topics if each.is_internal])
