"""CreateTopics: names, numbers of partitions and replicas, assignments, several topics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Make, Need
from wirekafka.conformance.cases.admin.configured import OF_TOPIC
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from wirekafka.protocol.metadata import MetadataRequest

BOOK = Book(CreateTopicsRequest, "administration", ConformanceLevel.ADMIN, "CreateTopicsRequest")

_NO_BROKER = 9999
_New = CreateTopicsRequest.CreatableTopic


def new(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    assigned: Iterable[tuple[int, Sequence[int]]] = (),
    configs: Iterable[tuple[str, str | None]] = (),
) -> Any:
    """A topic of a CreateTopics request."""
    return _New(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            _New.CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
            for index, ids in assigned
        ],
        configs=[_New.CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )


def create(
    *topics: Any, validate_only: bool = True, timeout_ms: int = 20_000
) -> CreateTopicsRequest:
    """A CreateTopics request, which creates nothing by default."""
    return CreateTopicsRequest(
        topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only
    )


def ask(stage: Stage, request: CreateTopicsRequest) -> None:
    """Ask, and compare only the configurations that a topic was created with.

    All others are the installation's.
    """
    answer = stage.ask(request)
    if not isinstance(answer, CreateTopicsResponse):
        return
    for topic in answer.topics:
        if topic.configs:
            topic.configs = [each for each in topic.configs if each.config_source == OF_TOPIC]
        stage.ids[topic.name] = topic.topic_id


def partitions_of(stage: Stage, name: str) -> Any:
    """The partitions of a topic that the home broker knows; empty if it does not know the topic."""
    request = MetadataRequest(
        topics=[MetadataRequest.Topic(name=name)], allow_auto_topic_creation=False
    )
    (found,) = stage.do(request, 9).topics
    return [] if found.error_code else found.partitions


def await_partitions(stage: Stage, name: str, count: int) -> None:
    """Wait until the home broker knows a topic with so many partitions; none if it is deleted."""
    stage.until(lambda: len(partitions_of(stage, name)) == count, f"{count} partitions of {name}")


def _case(title: str, make: Make, *, versions: str = "2+", needs: Iterable[Need] = ()) -> None:
    @BOOK.play(title, versions=versions, needs=needs)
    def _play(stage: Stage) -> None:
        request: Any = make(stage)
        ask(stage, request)


def _named(stage: Stage, length: int) -> str:
    name = stage.name("x").ljust(length, "x")
    stage.call(name, f"a name of {length} characters")
    return name


_NAMES: dict[str, Any] = {
    "an empty name": lambda s: "",
    "a dot as name": lambda s: ".",
    "two dots as name": lambda s: "..",
    "three dots in a name": lambda s: s.name("..."),
    "spaces in a name": lambda s: s.name("no spaces"),
    "a slash in a name": lambda s: s.name("a/b"),
    "a colon in a name": lambda s: s.name("a:b"),
    "a line end in a name": lambda s: s.name("a\nb"),
    "a letter with an accent in a name": lambda s: s.name("ünïcode"),
    "capitals and digits in a name": lambda s: s.name("Aa0_.-"),
    "a name of 249 characters": lambda s: _named(s, 249),
    "a name of 250 characters": lambda s: _named(s, 250),
    "the name of the log of metadata": lambda s: "__cluster_metadata",
    "a name with two underscores in front": lambda s: f"__{s.name()}",
    "a topic that exists": lambda s: s.topic,
}
for _what, _name in _NAMES.items():
    _case(_what, lambda s, name=_name: create(new(name(s))))

_COUNTS: dict[str, tuple[int, int]] = {
    "three partitions": (3, 1),
    "no partitions": (0, 1),
    "-2 partitions": (-2, 1),
    "10,000 partitions": (10_000, 1),
    "10,001 partitions": (10_001, 1),
    "2,000,000,000 partitions": (2_000_000_000, 1),
    "no replicas": (1, 0),
    "-2 replicas": (1, -2),
    "99 replicas": (1, 99),
    "32,767 replicas": (1, 32_767),
    "neither partitions nor replicas": (0, 0),
}
for _what, _counts in _COUNTS.items():
    _case(_what, lambda s, counts=_counts: create(new(s.name("new"), *counts)))

_ASSIGNED: dict[str, Any] = {
    "assigned to a broker": lambda id: [(0, [id]), (1, [id])],
    "assigned in another order": lambda id: [(1, [id]), (0, [id])],
    "assigned with a gap": lambda id: [(0, [id]), (2, [id])],
    "assigned without the first partition": lambda id: [(1, [id])],
    "assigned to nobody": lambda id: [(0, [])],
    "assigned to a missing broker": lambda id: [(0, [_NO_BROKER])],
    "assigned to a broker and a missing broker": lambda id: [(0, [id, _NO_BROKER])],
    "assigned to a negative broker": lambda id: [(0, [-1])],
    "assigned twice to one broker": lambda id: [(0, [id, id])],
    "one partition assigned twice": lambda id: [(0, [id]), (0, [id])],
    "a negative partition assigned": lambda id: [(-1, [id])],
    "assigned to different numbers of brokers": lambda id: [(0, [id]), (1, [id, _NO_BROKER])],
}


def _assigned(stage: Stage, make: Any, *counts: int) -> CreateTopicsRequest:
    assigned = make(stage.target.home)
    return create(new(stage.name("new"), *(counts or (-1, -1)), assigned=assigned))


for _what, _assignment in _ASSIGNED.items():
    _case(_what, lambda s, make=_assignment: _assigned(s, make))

_at_home: Any = lambda id: [(0, [id])]  # noqa: E731
_case("assigned and counted", lambda s: _assigned(s, _at_home, 1, 1))
_case("assigned and partitions counted", lambda s: _assigned(s, _at_home, 1, -1))
_case("assigned and replicas counted", lambda s: _assigned(s, _at_home, -1, 1))
_case("no topics", lambda s: create())
_case("one topic twice", lambda s: create(new(s.name("new")), new(s.name("new"))))
_case(
    "one topic twice beside another",
    lambda s: create(new(s.name("new")), new(s.name("new"), 2), new(s.name("other"))),
)
_case(
    "a good topic, an existing topic and a bad name",
    lambda s: create(new(s.name("new")), new(s.topic), new("a b")),
)


@BOOK.play("a topic", versions="2+", source="KIP-525")
def _made(stage: Stage) -> None:
    """The topic is created, and cannot be created again."""
    name = stage.name("new")
    request = create(new(name, 2, assigned=()), validate_only=False)
    ask(stage, request)
    await_partitions(stage, name, 2)
    stage.note("partitions", [each.partition_index for each in partitions_of(stage, name)])
    ask(stage, request)


@BOOK.play("a validated topic", versions="2,7")
def _validated(stage: Stage) -> None:
    """A topic that is only validated does not exist afterwards."""
    name, later = stage.name("validated"), stage.name("later")
    ask(stage, create(new(name)))
    ask(stage, create(new(later), validate_only=False))
    await_partitions(stage, later, 1)
    stage.note("partitions", len(partitions_of(stage, name)))


@BOOK.play("one good topic of three", versions="2,5,7")
def _partly(stage: Stage) -> None:
    """The good topic is created although the others are refused."""
    good = stage.name("good")
    topics = [new(good), new(stage.name("bad name")), new(stage.name("none"), 0)]
    ask(stage, create(*topics, validate_only=False))
    await_partitions(stage, good, 1)


@BOOK.play("the default numbers", versions="4+", source="KIP-464")
def _defaults(stage: Stage) -> None:
    """The numbers of partitions and replicas are the installation's, and above 0."""
    answer = stage.ask(create(new(stage.name("new"), -1, -1)))
    if isinstance(answer, CreateTopicsResponse):
        for topic in answer.topics:
            if topic.num_partitions > 0 and topic.replication_factor > 0:
                topic.num_partitions = topic.replication_factor = 1
            topic.configs = []


@BOOK.play("the default numbers in version 3", versions="2-3", source="KIP-464")
def _old_defaults(stage: Stage) -> None:
    ask(stage, create(new(stage.name("new"), -1, -1)))


@BOOK.play("a name that collides with another", versions="2,7")
def _colliding(stage: Stage) -> None:
    """Names that differ only in a dot for an underscore make the same name of metrics."""
    first = stage.create("a_b.c")
    for text in ("a.b.c", "a_b_c", "a.b_c", "a-b.c"):
        ask(stage, create(new(stage.name(text))))
    ask(stage, create(new(first)))


@BOOK.play("two names of one request that collide", versions="2,7")
def _collide(stage: Stage) -> None:
    ask(stage, create(new(stage.name("a_b")), new(stage.name("a.b"))))


@BOOK.play("the id of a topic", versions="7", source="KIP-516")
def _id(stage: Stage) -> None:
    """The id in the answer is the id in Metadata, and differs from the next topic's."""
    name = stage.name("new")
    answer = stage.do(create(new(name), validate_only=False))
    await_partitions(stage, name, 1)
    asked = MetadataRequest(topics=[MetadataRequest.Topic(name=name)])
    (found,) = stage.do(asked, 12).topics
    stage.note("has an id", any(answer.topics[0].topic_id))
    stage.note("same id", answer.topics[0].topic_id == found.topic_id)
    other = stage.do(create(new(stage.name("other")), validate_only=False))
    stage.note("another id", other.topics[0].topic_id != found.topic_id)
    validated = stage.do(create(new(stage.name("validated"))))
    stage.note("an id of a validated topic", any(validated.topics[0].topic_id))


@BOOK.play("a topic that was deleted and is created again", versions="2,7", source="KIP-516")
def _again(stage: Stage) -> None:
    """Under the name of a deleted topic there is room for another topic, with another id."""
    name = stage.create("again")
    before = stage.id_of(name)
    stage.delete(name)
    await_partitions(stage, name, 0)
    ask(stage, create(new(name, 2), validate_only=False))
    await_partitions(stage, name, 2)
    (found,) = stage.do(MetadataRequest(topics=[MetadataRequest.Topic(name=name)]), 12).topics
    stage.note("another id", found.topic_id != before)


@BOOK.play("three replicas", versions="2,5,7", needs={Need.THREE_BROKERS})
def _replicated(stage: Stage) -> None:
    """Each partition has three replicas on three brokers, all in sync."""
    name = stage.name("new")
    ask(stage, create(new(name, 3, 3), validate_only=False))

    def in_sync() -> bool:
        found = partitions_of(stage, name)
        return len(found) == 3 and all(len(each.isr_nodes) == 3 for each in found)

    stage.until(in_sync, "replicas in sync")
    found = partitions_of(stage, name)
    stage.note("replicas", [len(set(each.replica_nodes)) for each in found])
    stage.note("leaders", len({each.leader_id for each in found}))


@BOOK.play("leaders as assigned", versions="2,5,7", needs={Need.THREE_BROKERS})
def _led(stage: Stage) -> None:
    """The first replica of an assignment leads; the order of replicas is kept."""
    name, ids = stage.name("new"), sorted(stage.target.nodes)
    assigned = [(index, ids[index:] + ids[:index]) for index in range(3)]
    ask(stage, create(new(name, -1, -1, assigned=assigned), validate_only=False))
    await_partitions(stage, name, 3)
    found = {each.partition_index: each for each in partitions_of(stage, name)}
    stage.note("as assigned", [found[index].replica_nodes == each for index, each in assigned])
    stage.note("led", [found[index].leader_id == each[0] for index, each in assigned])
