"""CreatePartitions: more partitions of a topic, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.admin.create_topics import await_partitions, partitions_of
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.create_partitions import CreatePartitionsRequest

BOOK = Book(CreatePartitionsRequest, "administration", ConformanceLevel.ADMIN, "KIP-195")

_NO_BROKER = 9999


def grow(name: str, count: int, assigned: Sequence[Sequence[int]] | None = None) -> Any:
    """A topic of a CreatePartitions request."""
    topic = CreatePartitionsRequest.Topic
    lists = (
        None if assigned is None else [topic.Assignment(broker_ids=list(ids)) for ids in assigned]
    )
    return topic(name=name, count=count, assignments=lists)


def request(*topics: Any, validate_only: bool = True) -> CreatePartitionsRequest:
    """A CreatePartitions request, which creates nothing by default."""
    return CreatePartitionsRequest(
        topics=list(topics), timeout_ms=20_000, validate_only=validate_only
    )


_ASKED: dict[str, Any] = {
    "more": lambda s, id: [grow(s.topic, 4)],
    "as many as there are": lambda s, id: [grow(s.topic, 2)],
    "fewer": lambda s, id: [grow(s.topic, 1)],
    "no partitions": lambda s, id: [grow(s.topic, 0)],
    "-1 partitions": lambda s, id: [grow(s.topic, -1)],
    "10,002 partitions": lambda s, id: [grow(s.topic, 10_002)],
    "10,003 partitions": lambda s, id: [grow(s.topic, 10_003)],
    "more of a missing topic": lambda s, id: [grow(s.missing, 4)],
    "more of a bad name": lambda s, id: [grow("a b", 4)],
    "more of an empty name": lambda s, id: [grow("", 4)],
    "more of the log of metadata": lambda s, id: [grow("__cluster_metadata", 4)],
    "one topic twice": lambda s, id: [grow(s.topic, 3), grow(s.topic, 4)],
    "one topic twice beside another": lambda s, id: [
        grow(s.topic, 3),
        grow(s.topic, 3),
        grow(s.compacted, 2),
    ],
    "a good topic beside a missing topic": lambda s, id: [grow(s.topic, 3), grow(s.missing, 3)],
    "no topics": lambda s, id: [],
    "assigned": lambda s, id: [grow(s.topic, 4, [[id], [id]])],
    "too few assigned": lambda s, id: [grow(s.topic, 4, [[id]])],
    "too many assigned": lambda s, id: [grow(s.topic, 3, [[id], [id]])],
    "no partition assigned": lambda s, id: [grow(s.topic, 3, [])],
    "assigned to a missing broker": lambda s, id: [grow(s.topic, 3, [[_NO_BROKER]])],
    "assigned to a negative broker": lambda s, id: [grow(s.topic, 3, [[-1]])],
    "assigned to nobody": lambda s, id: [grow(s.topic, 3, [[]])],
    "assigned twice to one broker": lambda s, id: [grow(s.topic, 3, [[id, id]])],
    "assigned to a missing broker beside a broker": lambda s, id: [
        grow(s.topic, 4, [[id], [_NO_BROKER]])
    ],
    "fewer and assigned": lambda s, id: [grow(s.topic, 1, [[id]])],
    "as many as there are and assigned": lambda s, id: [grow(s.topic, 2, [])],
}
for _what, _topics in _ASKED.items():
    BOOK.ask(_what, lambda s, make=_topics: request(*make(s, s.target.home)))


@BOOK.play("partitions that are added")
def _added(stage: Stage) -> None:
    """The topic has as many partitions as were asked for, and cannot lose any."""
    name = stage.create()
    stage.ask(request(grow(name, 3), validate_only=False))
    await_partitions(stage, name, 3)
    stage.note("partitions", [each.partition_index for each in partitions_of(stage, name)])
    stage.ask(request(grow(name, 2), validate_only=False))


@BOOK.play("partitions that are validated")
def _validated(stage: Stage) -> None:
    """Validation changes nothing: the next request begins with the same number."""
    name = stage.create()
    stage.ask(request(grow(name, 3)))
    stage.ask(request(grow(name, 2), validate_only=False))
    await_partitions(stage, name, 2)
    stage.note("partitions", len(partitions_of(stage, name)))


@BOOK.play("partitions added where others are refused", versions="0,3")
def _partly(stage: Stage) -> None:
    first, second = stage.create("first"), stage.create("second")
    topics = [grow(first, 2), grow(second, 1), grow(stage.missing, 2)]
    stage.ask(request(*topics, validate_only=False))
    await_partitions(stage, first, 2)
    stage.note("of the second", len(partitions_of(stage, second)))


@BOOK.play("partitions added as assigned", versions="0,3", needs={Need.THREE_BROKERS})
def _placed(stage: Stage) -> None:
    """The new partitions are led by the brokers that they are assigned to."""
    name, home = stage.create(), stage.target.home
    others = [id for id in sorted(stage.target.nodes) if id != home][:2]
    assigned = [[each] for each in others]
    stage.ask(request(grow(name, 3, assigned), validate_only=False))
    await_partitions(stage, name, 3)
    found = {each.partition_index: each.replica_nodes for each in partitions_of(stage, name)}
    stage.note("as assigned", [found[index] for index in range(3)] == [[home], *assigned])


@BOOK.play("another number of replicas assigned", versions="0,3", needs={Need.THREE_BROKERS})
def _uneven(stage: Stage) -> None:
    """New partitions with more replicas than the first have are refused."""
    name = stage.create()
    ids = sorted(stage.target.nodes)
    stage.ask(request(grow(name, 2, [ids[:2]])))
