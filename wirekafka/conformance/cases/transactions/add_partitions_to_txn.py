"""AddPartitionsToTxn: partitions that transactions get, and what leaders ask of coordinators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.transactions.producer import (
    UNKNOWN_PRODUCER,
    ScriptedProducer,
    add_request,
    neighbours,
)
from wirekafka.conformance.cases.transactions.views import log, positions
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest

BOOK = Book(AddPartitionsToTxnRequest, "transactions", ConformanceLevel.TRANSACTIONS, "KIP-98")

_CLIENTS, _BROKERS = "0-3", "4-5"
_VERIFICATION = "KIP-890"

BOOK.ask(
    "an unknown transactional id",
    lambda s: add_request(s.name("x"), UNKNOWN_PRODUCER, 0, {s.topic: [0]}),
)
BOOK.ask(
    "an empty transactional id", lambda s: add_request("", UNKNOWN_PRODUCER, 0, {s.topic: [0]})
)
BOOK.ask(
    "an unknown transactional id and a missing topic",
    lambda s: add_request(s.name("x"), UNKNOWN_PRODUCER, 0, {s.missing: [0]}),
)
BOOK.ask(
    "an unknown transactional id without partitions",
    lambda s: add_request(s.name("x"), UNKNOWN_PRODUCER, 0, {}),
)
BOOK.ask(
    "no producer id of an unknown transactional id",
    lambda s: add_request(s.name("x"), -1, -1, {s.topic: [0]}),
)
BOOK.ask(
    "a verification for an unknown transactional id",
    lambda s: add_request(s.name("x"), UNKNOWN_PRODUCER, 0, {s.topic: [0]}, verify_only=True),
    versions=_BROKERS,
    source=_VERIFICATION,
)

AskedPartitions = Mapping[str, Iterable[int]]

_ADDED: dict[str, Callable[[Stage, str], AskedPartitions]] = {
    "a partition": lambda _, topic: {topic: [0]},
    "two partitions": lambda _, topic: {topic: [0, 1]},
    "a partition twice in a request": lambda _, topic: {topic: [0, 0]},
    "no partitions of a topic": lambda _, topic: {topic: []},
    "no topics": lambda *_: {},
    "a partition and a missing topic": lambda s, topic: {topic: [0], s.missing: [0]},
    "a partition and a missing partition": lambda _, topic: {topic: [0, 7]},
    "a negative partition": lambda _, topic: {topic: [-1]},
    "a topic without a name": lambda *_: {"": [0]},
    "a topic whose name is illegal": lambda *_: {"no/topic": [0]},
    "a missing topic": lambda s, _: {s.missing: [0, 1]},
    "two topics": lambda s, topic: {topic: [0], s.create("other"): [0]},
}
for _what, _topics in _ADDED.items():

    @BOOK.play(_what, versions="0,3,4-5")
    def _add(stage: Stage, topics: Callable[[Stage, str], AskedPartitions] = _topics) -> None:
        producer = ScriptedProducer(stage, level=1)
        stage.ask(producer.add_request(topics(stage, stage.create(partitions=2))))
        stage.note("the transaction", producer.described())
        producer.leave()


_IDENTITIES: dict[str, dict[str, int]] = {
    "an older epoch": {"lag": 1},
    "a much older epoch": {"lag": 2},
    "a newer epoch": {"lag": -1},
    "another producer id": {"producer_id": 2**40},
    "no producer id": {"producer_id": -1},
    "an older epoch of another producer id": {"producer_id": 2**40, "lag": 1},
}
for _what, _identity in _IDENTITIES.items():

    @BOOK.play(f"{_what} before a transaction", versions="0-5")
    def _add_as(stage: Stage, identity: dict[str, Any] = _identity) -> None:
        """INVALID_PRODUCER_EPOCH or PRODUCER_FENCED, by version."""
        producer = ScriptedProducer(stage, level=1)
        producer.start()
        producer.start()
        stage.ask(producer.add_request({stage.topic: [0]}, **identity))
        stage.note("the state", producer.state())

    @BOOK.play(f"{_what} in a transaction", versions="1,3-4")
    def _add_in(stage: Stage, identity: dict[str, Any] = _identity) -> None:
        """The transaction stays open as it is."""
        topic = stage.create(partitions=2)
        producer = ScriptedProducer(stage, level=1)
        producer.start()
        producer.start()
        producer.add(topic, 0)
        stage.ask(producer.add_request({topic: [1]}, **identity))
        stage.note("the transaction", producer.described())
        producer.leave()

    @BOOK.play(f"a verification by {_what}", versions=_BROKERS, source=_VERIFICATION)
    def _verify_as(stage: Stage, identity: dict[str, Any] = _identity) -> None:
        topic = stage.create()
        producer = ScriptedProducer(stage, level=1)
        producer.start()
        producer.start()
        producer.add(topic, 0)
        stage.ask(producer.add_request({topic: [0]}, verify_only=True, **identity))
        producer.leave()


@BOOK.play("again in a transaction", versions="0,3,4-5")
def _again(stage: Stage) -> None:
    """A partition that the transaction has is added again, alone and beside another."""
    topic = stage.create(partitions=2)
    producer = ScriptedProducer(stage, level=1)
    for partitions in ([0], [0], [0, 1]):
        stage.ask(producer.add_request({topic: partitions}))
    stage.note("the transaction", producer.described())
    producer.leave()


for _is_committed in (True, False):
    _end = "a commit" if _is_committed else "an abort"

    @BOOK.play(f"after {_end} with the same epoch", versions="0,3,4-5")
    def _after_end(stage: Stage, committed: bool = _is_committed) -> None:
        """A producer of level 1 keeps its epoch from one transaction to the next."""
        topic = stage.create(partitions=2)
        producer = ScriptedProducer(stage, level=1)
        producer.send(topic)
        producer.end(committed=committed)
        stage.ask(producer.add_request({topic: [1]}))
        stage.note("the transaction", producer.described())
        producer.leave()

    @BOOK.play(f"after {_end} with the epoch before", versions="0,3,4-5", source=_VERIFICATION)
    def _after_bump(stage: Stage, committed: bool = _is_committed) -> None:
        """A producer of level 2 has a new epoch after its transaction; the old one is over."""
        topic = stage.create()
        producer = ScriptedProducer(stage)
        producer.send(topic)
        producer.end(committed=committed)
        stage.ask(producer.add_request({topic: [0]}, lag=1))
        stage.ask(producer.add_request({topic: [0]}))
        stage.note("the transaction", producer.described())
        producer.leave()


@BOOK.play("after another producer has begun", versions="0,2-5")
def _fenced(stage: Stage) -> None:
    """The earlier of two producers of one transactional id is fenced, the later goes on."""
    topic = stage.create()
    producer = ScriptedProducer(stage, level=1)
    producer.start()
    stage.ask(producer.add_request({topic: [0]}, lag=1))
    stage.ask(producer.add_request({topic: [0]}))
    producer.leave()


@BOOK.play("without records until the end", versions="0,3")
def _without_records(stage: Stage) -> None:
    """The stable offset is not held back, and the partition gets a marker all the same."""
    topic = stage.create()
    producer = ScriptedProducer(stage, level=1)
    stage.ask(producer.add_request({topic: [0]}))
    stage.note("positions before", positions(stage, topic))
    producer.end()
    stage.note("the log", log(stage, topic))
    stage.note("positions after", positions(stage, topic))


@BOOK.play("topics of the cluster", versions="0,3")
def _internal(stage: Stage) -> None:
    """Partitions of internal topics are added as others are."""
    producer = ScriptedProducer(stage, level=1)
    for name in ("__cluster_metadata", "__transaction_state"):
        stage.ask(producer.add_request({name: [0]}))
    producer.leave()


# What leaders ask (KIP-890)


@BOOK.play("a verification without a transaction", versions=_BROKERS, source=_VERIFICATION)
def _verify_none(stage: Stage) -> None:
    producer = ScriptedProducer(stage, level=1)
    stage.ask(producer.add_request({stage.topic: [0]}, verify_only=True))
    stage.note("the transaction", producer.described())


_VERIFIED: dict[str, Callable[[Stage, str], AskedPartitions]] = {
    "an added partition": lambda _, topic: {topic: [0]},
    "a partition that was not added": lambda _, topic: {topic: [1]},
    "an added partition beside another": lambda _, topic: {topic: [0, 1]},
    "a missing topic": lambda s, _: {s.missing: [0]},
    "an added partition beside a missing one": lambda _, topic: {topic: [0, 7]},
    "no topics": lambda *_: {},
}
for _what, _topics in _VERIFIED.items():

    @BOOK.play(f"a verification of {_what}", versions=_BROKERS, source=_VERIFICATION)
    def _verify(stage: Stage, topics: Callable[[Stage, str], AskedPartitions] = _topics) -> None:
        """Nothing is added by a verification."""
        topic = stage.create(partitions=2)
        producer = ScriptedProducer(stage, level=1)
        producer.add(topic, 0)
        stage.ask(producer.add_request(topics(stage, topic), verify_only=True))
        stage.note("the transaction", producer.described())
        producer.leave()


for _is_committed in (True, False):
    _end = "a commit" if _is_committed else "an abort"

    @BOOK.play(f"a verification after {_end}", versions=_BROKERS, source=_VERIFICATION)
    def _verify_after(stage: Stage, committed: bool = _is_committed) -> None:
        topic = stage.create()
        producer = ScriptedProducer(stage, level=1)
        producer.send(topic)
        producer.end(committed=committed)
        stage.ask(producer.add_request({topic: [0]}, verify_only=True))


def _several(requests: Iterable[AddPartitionsToTxnRequest]) -> AddPartitionsToTxnRequest:
    """One request for the transactions of several; routed as the first is."""
    listed = list(requests)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=listed[0].v3_and_below_transactional_id,
        transactions=[each for request in listed for each in request.transactions],
    )


@BOOK.play("two transactions in a request", versions=_BROKERS, source=_VERIFICATION)
def _two_transactions(stage: Stage) -> None:
    topic = stage.create(partitions=2)
    first, second = neighbours(stage, 2)
    requests = [first.add_request({topic: [0, 1]}), second.add_request({topic: [1]})]
    stage.ask(_several(requests))
    for each in (first, second):
        stage.note("a transaction", each.described())
        each.leave()


@BOOK.play("a good and a fenced transaction in a request", versions=_BROKERS, source=_VERIFICATION)
def _good_and_fenced(stage: Stage) -> None:
    """What is wrong with one transaction does not keep another from its partitions."""
    topic = stage.create(partitions=2)
    first, second = neighbours(stage, 2)
    second.start()
    requests = [first.add_request({topic: [0]}), second.add_request({topic: [1]}, lag=1)]
    stage.ask(_several(requests))
    for each in (first, second):
        stage.note("a transaction", each.described())
        each.leave()


@BOOK.play("a verification beside an addition", versions=_BROKERS, source=_VERIFICATION)
def _verify_and_add(stage: Stage) -> None:
    topic = stage.create(partitions=2)
    first, second = neighbours(stage, 2)
    requests = [first.add_request({topic: [0]}, verify_only=True), second.add_request({topic: [1]})]
    stage.ask(_several(requests))
    for each in (first, second):
        stage.note("a transaction", each.described())
        each.leave()


@BOOK.play("a good and a missing topic of two transactions", versions=_BROKERS)
def _good_and_missing(stage: Stage) -> None:
    topic = stage.create()
    first, second = neighbours(stage, 2)
    requests = [first.add_request({topic: [0]}), second.add_request({stage.missing: [0]})]
    stage.ask(_several(requests))
    for each in (first, second):
        stage.note("a state", each.state())
        each.leave()
