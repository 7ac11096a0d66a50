"""ListPartitionReassignments: what is being moved."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

BOOK = Book(ListPartitionReassignmentsRequest, "administration", ConformanceLevel.ADMIN, "KIP-455")


def _listing(*topics: tuple[str, list[int]]) -> ListPartitionReassignmentsRequest:
    part = ListPartitionReassignmentsRequest.Topics
    named = [part(name=name, partition_indexes=indexes) for name, indexes in topics]
    return ListPartitionReassignmentsRequest(timeout_ms=20_000, topics=named)


_ASKED: dict[str, Any] = {
    "a partition that is not moved": lambda s: _listing((s.topic, [0])),
    "two partitions that are not moved": lambda s: _listing((s.topic, [0, 1])),
    "a missing partition": lambda s: _listing((s.topic, [9])),
    "a missing topic": lambda s: _listing((s.missing, [0])),
    "a bad name": lambda s: _listing(("a b", [0])),
    "no partitions of a topic": lambda s: _listing((s.topic, [])),
    "no topics": lambda s: _listing(),
    "one topic twice": lambda s: _listing((s.topic, [0]), (s.topic, [0])),
    "a negative partition": lambda s: _listing((s.topic, [-1])),
}
for _what, _make in _ASKED.items():
    BOOK.ask(_what, _make)


@BOOK.play("all topics")
def _all(stage: Stage) -> None:
    """None of the shared topics is being moved."""
    answer = stage.ask(ListPartitionReassignmentsRequest(timeout_ms=20_000, topics=None))
    if isinstance(answer, ListPartitionReassignmentsResponse):
        own = (stage.topic, stage.compacted)
        answer.topics = [each for each in answer.topics if each.name in own]
