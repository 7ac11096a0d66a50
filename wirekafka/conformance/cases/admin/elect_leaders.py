"""ElectLeaders: preferred and unclean elections."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.admin.alter_partition_reassignments import (
    await_replicas,
    others_than_home,
    reassign,
    topic_of,
)
from wirekafka.conformance.cases.admin.create_topics import partitions_of
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.elect_leaders import ElectLeadersRequest

BOOK = Book(ElectLeadersRequest, "administration", ConformanceLevel.ADMIN, "KIP-460")

_PREFERRED, _UNCLEAN = 0, 1


def _elect(*topics: tuple[str, list[int]], kind: int = _PREFERRED) -> ElectLeadersRequest:
    part = ElectLeadersRequest.TopicPartitions
    named = [part(topic=name, partitions=partitions) for name, partitions in topics]
    return ElectLeadersRequest(election_type=kind, topic_partitions=named, timeout_ms=20_000)


_ASKED: dict[str, Any] = {
    "an election that is not needed": lambda s: _elect((s.topic, [0, 1])),
    "an election of a missing topic": lambda s: _elect((s.missing, [0])),
    "an election of a missing partition": lambda s: _elect((s.topic, [9])),
    "an election of a negative partition": lambda s: _elect((s.topic, [-1])),
    "an election of a bad name": lambda s: _elect(("a b", [0])),
    "an election of the log of metadata": lambda s: _elect(("__cluster_metadata", [0])),
    "an election of a partition and a missing one": lambda s: _elect((s.topic, [0, 9])),
    "an election of a topic and a missing topic": lambda s: _elect(
        (s.topic, [0]), (s.missing, [0])
    ),
    "an election of one partition twice": lambda s: _elect((s.topic, [0, 0])),
    "an election of one topic twice": lambda s: _elect((s.topic, [0]), (s.topic, [1])),
    "an election of no partitions": lambda s: _elect((s.topic, [])),
    "an election of no topics": lambda s: _elect(),
}
for _what, _make in _ASKED.items():
    BOOK.ask(_what, _make)
BOOK.ask(
    "an unclean election that is not needed",
    lambda s: _elect((s.topic, [0]), kind=_UNCLEAN),
    versions="1+",
)
BOOK.ask(
    "an unclean election of a missing topic",
    lambda s: _elect((s.missing, [0]), kind=_UNCLEAN),
    versions="1+",
)
BOOK.ask("an unknown election", lambda s: _elect((s.topic, [0]), kind=9), versions="1+")
BOOK.ask("a negative election", lambda s: _elect((s.topic, [0]), kind=-1), versions="1+")


@BOOK.play("the election of a preferred leader", needs={Need.THREE_BROKERS})
def _preferred(stage: Stage) -> None:
    """After another broker became the first of the replicas, it is elected."""
    name, ids = stage.create(), [others_than_home(stage)[0], stage.target.home]
    stage.do(reassign(topic_of(name, (0, ids))), 0)
    await_replicas(stage, name, ids)
    stage.note("led by home", partitions_of(stage, name)[0].leader_id == stage.target.home)
    stage.ask(_elect((name, [0])))
    stage.until(lambda: partitions_of(stage, name)[0].leader_id == ids[0], "the preferred leader")
    stage.ask(_elect((name, [0])))
