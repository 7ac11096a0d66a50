"""Metadata: topics by name and by id, topics that are created, and what versions show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.stage import UNKNOWN_ID, Stage
from wirekafka.errors import Error, error_name
from wirekafka.protocol.create_partitions import CreatePartitionsRequest
from wirekafka.protocol.metadata import MetadataRequest

BOOK = Book(MetadataRequest, "metadata", ConformanceLevel.CORE, "MetadataRequest.json")
_NO_ID = bytes(16)
_MANY = 300
_TOPIC = MetadataRequest.Topic
_LONGEST_NAME = 249
_BY_ID = "12+"


def by_name(*names: str | None, creates: bool = False, **options: Any) -> MetadataRequest:
    """A request for topics by their names."""
    topics = [_TOPIC(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=creates, **options)


def by_id(*ids: bytes, name: str | None = None) -> MetadataRequest:
    """A request for topics by their ids."""
    topics = [_TOPIC(topic_id=each, name=name) for each in ids]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def called(stage: Stage, name: str, shown: str) -> str:
    """The name of a topic, which answers show by another."""
    stage.call(name, shown)
    return name


def long_name(stage: Stage, size: int) -> str:
    """A name of so many letters."""
    return called(stage, stage.name().ljust(size, "x"), f"{size} letters")


BOOK.ask("a topic", lambda s: by_name(s.topic))
BOOK.ask("a compacted topic", lambda s: by_name(s.compacted))
# Before version 4 a missing topic would be created.
_SINCE_4: dict[str, Callable[[Stage], MetadataRequest]] = {
    "a missing topic": lambda s: by_name(s.missing),
    "a topic and a missing one": lambda s: by_name(s.topic, s.missing, s.compacted),
    "a topic twice": lambda s: by_name(s.topic, s.topic),
    "a missing topic twice": lambda s: by_name(s.missing, s.missing),
    "a name in capital letters": lambda s: by_name(called(s, s.topic.upper(), "capitals")),
    "a name with a dot for a dash": lambda s: by_name(called(s, s.topic.replace("-", "."), "dots")),
    "the empty name": lambda _: by_name(""),
    "a dot": lambda _: by_name("."),
    "two dots": lambda _: by_name(".."),
    "three dots": lambda _: by_name("..."),
    "a name with spaces": lambda s: by_name(s.name("a b")),
    "a name with a slash": lambda s: by_name(s.name("a/b")),
    "a name with a line's end": lambda s: by_name(s.name("a\n")),
    "a name with other letters": lambda s: by_name(s.name("ünïcode")),
    "a name with a zero byte": lambda s: by_name(s.name("a\0")),
    "the longest name": lambda s: by_name(long_name(s, _LONGEST_NAME)),
    "a name too long": lambda s: by_name(long_name(s, _LONGEST_NAME + 1)),
    "a bad name that may be created": lambda s: by_name(s.name("a b"), creates=True),
    "a bad name beside a topic": lambda s: by_name(s.name("a b"), s.topic),
    "the metadata log": lambda _: by_name("__cluster_metadata"),
}

for _title, _make in _SINCE_4.items():
    BOOK.ask(_title, _make, versions="4+")
BOOK.ask("no topics", lambda _: by_name(), versions="1+")
BOOK.ask(
    "operations on a topic",
    lambda s: by_name(s.topic, include_topic_authorized_operations=True),
    versions="8+",
    source="KIP-430",
)
BOOK.ask(
    "operations on a missing topic",
    lambda s: by_name(s.missing, include_topic_authorized_operations=True),
    versions="8+",
    source="KIP-430",
)
BOOK.ask(
    "operations on the cluster",
    lambda s: by_name(s.topic, include_cluster_authorized_operations=True),
    versions="8-10",
    source="KIP-430",
)
_WITH_IDS: dict[str, Callable[[Stage], MetadataRequest]] = {
    "a topic by its id": lambda s: by_id(s.id_of(s.topic)),
    "an unknown id": lambda _: by_id(UNKNOWN_ID),
    "two topics by their ids": lambda s: by_id(s.id_of(s.topic), s.id_of(s.compacted)),
    "an id and an unknown one": lambda s: by_id(s.id_of(s.topic), UNKNOWN_ID),
    "an id twice": lambda s: by_id(s.id_of(s.topic), s.id_of(s.topic)),
    "an id with another topic's name": lambda s: by_id(s.id_of(s.topic), name=s.compacted),
    "an unknown id with a name": lambda s: by_id(UNKNOWN_ID, name=s.topic),
    "the id of the metadata log": lambda _: by_id(bytes(15) + b"\1"),
    "ids and names": lambda s: MetadataRequest(
        topics=[_TOPIC(topic_id=s.id_of(s.topic), name=None), _TOPIC(name=s.compacted)],
        allow_auto_topic_creation=False,
    ),
}

for _title, _make in _WITH_IDS.items():
    BOOK.ask(_title, _make, versions=_BY_ID, source="KIP-516")
BOOK.ask("ids too early", lambda s: by_id(s.id_of(s.topic)), versions="10-11", source="KIP-516")
BOOK.ask(
    "an id with a name too early",
    lambda s: by_id(s.id_of(s.topic), name=s.topic),
    versions="10-11",
    source="KIP-516",
)


def _of_case(stage: Stage, answer: Any) -> list[str]:
    return sorted(e.name for e in answer.topics if e.name in (stage.topic, stage.compacted))


@BOOK.play("all topics")
def _all(stage: Stage) -> None:
    """Null means all; in version 0, which has no null, an empty list does."""
    request = by_name()
    if stage.version:
        request.topics = None
    answer = stage.do(request)
    stage.note("shared topics", _of_case(stage, answer))
    stage.note("errors", sorted({each.error_code for each in answer.topics if not each.partitions}))
    internal = {each.name for each in answer.topics if each.is_internal}
    stage.note("are internal", sorted(internal & {"__consumer_offsets", stage.topic}))


for _name in ("__consumer_offsets", "__transaction_state"):

    @BOOK.play(f"the internal topic {_name}", versions="0,1,4+")
    def _internal(stage: Stage, name: str = _name) -> None:
        """The internal flag since version 1; these topics exist once a coordinator is found."""
        (found,) = stage.do(by_name(name)).topics
        stage.note("error", error_name(found.error_code))
        stage.note("is internal", found.is_internal)


@BOOK.play("many missing topics", versions="4,12+")
def _many(stage: Stage) -> None:
    """Each of many names has an answer of its own."""
    answer = stage.do(by_name(*(stage.name(str(number)) for number in range(_MANY))))
    stage.note("topics", len({each.name for each in answer.topics}))
    stage.note("errors", sorted({error_name(each.error_code) for each in answer.topics}))


@BOOK.play("a topic that is created", versions="0-1,3-4,8-10,12+", source="KIP-204")
def _created(stage: Stage) -> None:
    """A missing topic is created where this is allowed: missing at first, and then there."""
    name = stage.name("auto")
    first = stage.do(by_name(name, creates=True))
    errors = [error_name(each.error_code) for each in first.topics if each.name == name]
    stage.note("is not there at first", errors != [Error.NONE.name])
    found = stage.until(lambda: _existing(stage, name), "the topic")
    stage.note("then", (error_name(found.error_code), bool(found.partitions)))


def _existing(stage: Stage, name: str) -> Any:
    (found,) = stage.do(by_name(name), 12).topics
    return None if found.error_code else found


@BOOK.play("a topic that is not to be created", versions="4,9,12+", source="KIP-204")
def _not_created(stage: Stage) -> None:
    """Neither the first request nor a later one finds a topic; then one may create it."""
    name = stage.name("auto")
    stage.ask(by_name(name))
    stage.ask(by_name(name))
    stage.do(by_name(name, creates=True))
    stage.until(lambda: _existing(stage, name), "the topic")


@BOOK.play("an unknown id with a name that may be created", versions=_BY_ID, source="KIP-516")
def _by_unknown_id(stage: Stage) -> None:
    """A request by id creates nothing."""
    name = stage.name("auto")
    stage.ask(MetadataRequest(topics=[_TOPIC(topic_id=UNKNOWN_ID, name=name)]))
    stage.ask(by_name(name))


@BOOK.play("a topic that was deleted", versions="4,9,12+", source="KIP-516")
def _deleted(stage: Stage) -> None:
    """Its name and its id are unknown; a topic of the same name has another id."""
    name = stage.create()
    old_id = stage.id_of(name)
    stage.delete(name)
    stage.until(lambda: not _existing(stage, name), "the end of the topic")
    stage.ask(by_name(name))
    if stage.version >= 12:
        stage.ask(by_id(old_id))
        stage.create()
        stage.note("another id", stage.id_of(name) != old_id)
        stage.ask(by_id(stage.id_of(name)))


@BOOK.play("a topic with more partitions", versions="4,9,12+", source="KIP-195")
def _grown(stage: Stage) -> None:
    """New partitions are listed, and have the epoch 0."""
    name = stage.create(partitions=2)
    topic = CreatePartitionsRequest.Topic(name=name, count=4, assignments=None)
    stage.do(CreatePartitionsRequest(topics=[topic], timeout_ms=20_000, validate_only=False), 2)
    stage.until(lambda: _is_led(stage, name, 4), "leaders of the partitions")
    (found,) = stage.do(by_name(name)).topics
    stage.note("partitions", sorted(each.partition_index for each in found.partitions))
    stage.note("errors", sorted({error_name(each.error_code) for each in found.partitions}))
    stage.note("epochs", sorted({each.leader_epoch for each in found.partitions}))
    stage.note("offline", [each for part in found.partitions for each in part.offline_replicas])


def _is_led(stage: Stage, name: str, count: int) -> bool:
    (found,) = stage.do(by_name(name), 9).topics
    led = [each for each in found.partitions if not each.error_code and each.leader_id >= 0]
    return len(led) == count


@BOOK.play("the cluster", versions="0-2,4,9,12+")
def _cluster(stage: Stage) -> None:
    """Since version 1 a controller, since version 2 the cluster's id; every broker names these."""
    seen, lists = [], []
    for node in stage.target.nodes:
        answer = stage.do(by_name(stage.topic), at=node)
        brokers = sorted(each.node_id for each in answer.brokers)
        lists.append(brokers == sorted(stage.target.nodes))
        is_broker = answer.controller_id in brokers
        seen.append((answer.cluster_id, is_broker))
    stage.note("all list all brokers", all(lists))
    stage.note("cluster", list(dict.fromkeys(seen)))


@BOOK.play("a partition's replicas", versions="0,4,7,9,12+")
def _replicas(stage: Stage) -> None:
    """The leader is a replica, in sync, and known as a broker; no replica is offline."""
    answer = stage.do(by_name(stage.topic))
    brokers = {each.node_id for each in answer.brokers}
    for each in sorted(answer.topics[0].partitions, key=lambda part: part.partition_index):
        stage.note("leader is a broker", each.leader_id in brokers)
        stage.note("leader is in sync", each.leader_id in each.isr_nodes)
        stage.note("in sync are replicas", set(each.isr_nodes) <= set(each.replica_nodes))
        stage.note("offline", each.offline_replicas)
