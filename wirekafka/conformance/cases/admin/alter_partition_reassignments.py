"""AlterPartitionReassignments: replicas move from broker to broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.admin.create_topics import partitions_of
from wirekafka.conformance.stage import Stage, batch
from wirekafka.protocol.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wirekafka.protocol.list_partition_reassignments import ListPartitionReassignmentsRequest

BOOK = Book(AlterPartitionReassignmentsRequest, "administration", ConformanceLevel.ADMIN, "KIP-455")

_NO_BROKER = 9999
_Topic = AlterPartitionReassignmentsRequest.ReassignableTopic


def topic_of(name: str, *partitions: tuple[int, Sequence[int] | None]) -> Any:
    """A topic of a request: partitions with their replicas, None for a cancellation."""
    parts = [
        _Topic.ReassignablePartition(
            partition_index=index, replicas=None if replicas is None else list(replicas)
        )
        for index, replicas in partitions
    ]
    return _Topic(name=name, partitions=parts)


def reassign(*topics: Any, **options: Any) -> AlterPartitionReassignmentsRequest:
    """A request of topics."""
    return AlterPartitionReassignmentsRequest(timeout_ms=20_000, topics=list(topics), **options)


def others_than_home(stage: Stage) -> list[int]:
    """The brokers of a cluster but the home broker, which leads the topics of cases."""
    return [id for id in sorted(stage.target.nodes) if id != stage.target.home]


def await_replicas(stage: Stage, name: str, replicas: Sequence[int]) -> None:
    """Wait until no partition is being reassigned and the first has these replicas in sync."""
    part = ListPartitionReassignmentsRequest.Topics
    listing = ListPartitionReassignmentsRequest(topics=[part(name=name, partition_indexes=[0])])

    def are_there() -> bool:
        (found,) = partitions_of(stage, name)
        is_done = found.replica_nodes == list(replicas)
        return is_done and set(found.isr_nodes) == set(replicas) and found.leader_id >= 0

    stage.until(lambda: are_there() and not stage.do(listing, 0).topics, f"replicas of {name}")


_ASKED: dict[str, Any] = {
    "the same replicas": lambda n, id: [topic_of(n, (0, [id]))],
    "a cancellation without a reassignment": lambda n, id: [topic_of(n, (0, None))],
    "a partition that does not exist": lambda n, id: [topic_of(n, (9, [id]))],
    "a negative partition": lambda n, id: [topic_of(n, (-1, [id]))],
    "no replicas": lambda n, id: [topic_of(n, (0, []))],
    "one replica twice": lambda n, id: [topic_of(n, (0, [id, id]))],
    "a missing broker": lambda n, id: [topic_of(n, (0, [_NO_BROKER]))],
    "a missing broker beside a broker": lambda n, id: [topic_of(n, (0, [id, _NO_BROKER]))],
    "a negative broker": lambda n, id: [topic_of(n, (0, [-1]))],
    "no partitions": lambda n, id: [topic_of(n)],
    "no topics": lambda n, id: [],
    "one partition twice": lambda n, id: [topic_of(n, (0, [id]), (0, [id]))],
    "one topic twice": lambda n, id: [topic_of(n, (0, [id])), topic_of(n, (0, None))],
    "a good and a missing partition": lambda n, id: [topic_of(n, (0, [id]), (9, [id]))],
    "a cancellation of a missing partition": lambda n, id: [topic_of(n, (9, None))],
}
for _what, _topics in _ASKED.items():

    @BOOK.play(_what)
    def _asked(stage: Stage, make: Any = _topics) -> None:
        stage.ask(reassign(*make(stage.create(), stage.target.home)))


BOOK.ask("a missing topic", lambda s: reassign(topic_of(s.missing, (0, [s.target.home]))))
BOOK.ask("a cancellation of a missing topic", lambda s: reassign(topic_of(s.missing, (0, None))))
BOOK.ask("an empty name", lambda s: reassign(topic_of("", (0, [s.target.home]))))
BOOK.ask(
    "the log of metadata", lambda s: reassign(topic_of("__cluster_metadata", (0, [s.target.home])))
)


@BOOK.play("more replicas where their number must not change", versions="1+", source="KIP-860")
def _same_number(stage: Stage) -> None:
    replicas = [stage.target.home, _NO_BROKER]
    topic = topic_of(stage.create(), (0, replicas))
    stage.ask(reassign(topic, allow_replication_factor_change=False))


@BOOK.play("the same replicas where their number must not change", versions="1+", source="KIP-860")
def _same_replicas(stage: Stage) -> None:
    topic = topic_of(stage.create(), (0, [stage.target.home]))
    stage.ask(reassign(topic, allow_replication_factor_change=False))


@BOOK.play("a partition to another broker", needs={Need.THREE_BROKERS})
def _moved(stage: Stage) -> None:
    """The other broker leads, and has the records."""
    name, other = stage.create(), others_than_home(stage)[0]
    stage.produce(name, batch())
    stage.ask(reassign(topic_of(name, (0, [other]))))
    await_replicas(stage, name, [other])
    answer = stage.do(stage.produce_request(name, batch()), 9, at=other)
    stage.note("the next offset", answer.responses[0].partition_responses[0].base_offset)


@BOOK.play("more replicas, and fewer again", needs={Need.THREE_BROKERS})
def _grown(stage: Stage) -> None:
    """Three replicas catch up; two of them are then removed."""
    name, ids = stage.create(), [stage.target.home, *others_than_home(stage)[:2]]
    stage.produce(name, batch())
    stage.ask(reassign(topic_of(name, (0, ids))))
    await_replicas(stage, name, ids)
    (found,) = partitions_of(stage, name)
    stage.note("led by home", found.leader_id == stage.target.home)
    stage.ask(reassign(topic_of(name, (0, ids[:1]))))
    await_replicas(stage, name, ids[:1])


@BOOK.play("another order of replicas", needs={Need.THREE_BROKERS})
def _reordered(stage: Stage) -> None:
    """A new order moves no replica, and the leader stays."""
    name, ids = stage.create(), [stage.target.home, others_than_home(stage)[0]]
    stage.do(reassign(topic_of(name, (0, ids))))
    await_replicas(stage, name, ids)
    stage.ask(reassign(topic_of(name, (0, ids[::-1]))))
    await_replicas(stage, name, ids[::-1])
    (found,) = partitions_of(stage, name)
    stage.note("led by home", found.leader_id == stage.target.home)


@BOOK.play("fewer replicas where their number must not change", versions="1+", source="KIP-860")
def _fewer(stage: Stage) -> None:
    topic = topic_of(stage.create(), (0, []))
    stage.ask(reassign(topic, allow_replication_factor_change=False))
