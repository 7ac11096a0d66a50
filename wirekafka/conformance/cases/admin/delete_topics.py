"""DeleteTopics: by name and by id."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.admin.create_topics import await_partitions
from wirekafka.conformance.stage import UNKNOWN_ID, Stage, batch
from wirekafka.protocol.delete_topics import DeleteTopicsRequest

BOOK = Book(DeleteTopicsRequest, "administration", ConformanceLevel.ADMIN, "DeleteTopicsRequest")

_NO_ID = bytes(16)


def delete(*names: str) -> DeleteTopicsRequest:
    """A DeleteTopics request by names, for all versions."""
    states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
    return DeleteTopicsRequest(topics=states, topic_names=list(names), timeout_ms=20_000)


def delete_by(*states: tuple[str | None, bytes]) -> DeleteTopicsRequest:
    """A DeleteTopics request by pairs of a name and an id."""
    state = DeleteTopicsRequest.DeleteTopicState
    topics = [state(name=name, topic_id=topic_id) for name, topic_id in states]
    return DeleteTopicsRequest(topics=topics, timeout_ms=20_000)


BOOK.ask("no topics", lambda _: delete())
BOOK.ask("a missing topic", lambda s: delete(s.missing))
BOOK.ask("a missing topic twice", lambda s: delete(s.missing, s.missing))
BOOK.ask("a bad name", lambda _: delete("a b"))
BOOK.ask("an empty name", lambda _: delete(""))
BOOK.ask("the log of metadata", lambda _: delete("__cluster_metadata"))
_BY_STATES: dict[str, Any] = {
    "an unknown id": lambda s: [(None, UNKNOWN_ID)],
    "an unknown id twice": lambda s: [(None, UNKNOWN_ID), (None, UNKNOWN_ID)],
    "neither a name nor an id": lambda s: [(None, _NO_ID)],
    "a name and an id": lambda s: [(s.missing, UNKNOWN_ID)],
    "a missing topic and an unknown id": lambda s: [(s.missing, _NO_ID), (None, UNKNOWN_ID)],
    "the id of the log of metadata": lambda s: [(None, bytes(15) + b"\1")],
}
for _what, _states in _BY_STATES.items():
    BOOK.ask(
        _what, lambda s, states=_states: delete_by(*states(s)), versions="6+", source="KIP-516"
    )


@BOOK.play("a topic by its name")
def _named(stage: Stage) -> None:
    """A deleted topic is gone, and cannot be deleted again."""
    name = stage.create()
    stage.ask(delete(name))
    await_partitions(stage, name, 0)
    stage.ask(delete(name))


@BOOK.play("a topic by its id", versions="6+", source="KIP-516")
def _by_id(stage: Stage) -> None:
    """The answer to an id has the name, too; afterwards the id is unknown."""
    name = stage.create()
    request = delete_by((None, stage.id_of(name)))
    stage.ask(request)
    await_partitions(stage, name, 0)
    stage.ask(request)


@BOOK.play("a topic twice in a request", versions="1,5,6")
def _twice(stage: Stage) -> None:
    """Kafka refuses both, and the topic stays."""
    name, later = stage.create("twice"), stage.create("later")
    stage.ask(delete(name, name))
    stage.delete(later)
    await_partitions(stage, later, 0)
    stage.ask(delete(name))


@BOOK.play("a topic by its name and by its id", versions="6+", source="KIP-516")
def _both(stage: Stage) -> None:
    name, later = stage.create("both"), stage.create("later")
    stage.ask(delete_by((name, _NO_ID), (None, stage.id_of(name))))
    stage.delete(later)
    await_partitions(stage, later, 0)
    stage.ask(delete(name))


@BOOK.play("a topic beside a missing topic", versions="1,4-6")
def _partly(stage: Stage) -> None:
    """Each topic has an answer of its own."""
    name = stage.create()
    stage.ask(delete(stage.missing, name, "a b"))
    await_partitions(stage, name, 0)


@BOOK.play("a topic by the id of its predecessor", versions="6+", source="KIP-516")
def _predecessor(stage: Stage) -> None:
    """An id is of one topic only, not of the next topic with its name."""
    name = stage.create("again")
    before = stage.id_of(name)
    stage.delete(name)
    await_partitions(stage, name, 0)
    stage.create("again")
    stage.ask(delete_by((None, before)))
    stage.ask(delete(name))


@BOOK.play("the records of a topic that is created again", versions="1,6")
def _emptied(stage: Stage) -> None:
    """A topic does not inherit the records of a deleted topic with its name."""
    name = stage.create("again")
    stage.produce(name, batch())
    stage.ask(delete(name))
    await_partitions(stage, name, 0)
    stage.create("again")
    stage.note("the first offset", stage.produce(name, batch()).base_offset)
