"""DescribeTransactions: the state, the producer and the partitions of transactional ids."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.transactions.producer import ScriptedProducer, with_one_coordinator
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.describe_transactions import DescribeTransactionsRequest

BOOK = Book(DescribeTransactionsRequest, "transactions", ConformanceLevel.ADMIN, "KIP-664")


def _request(*ids: str) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(transactional_ids=[*ids])


BOOK.ask("an unknown id", lambda s: _request(s.name("x")))
BOOK.ask("an unknown id twice", lambda s: _request(s.name("x"), s.name("x")))
BOOK.ask("no ids", lambda _: _request())
BOOK.ask("an empty id", lambda _: _request(""))

for _level in (1, 2):

    @BOOK.play(f"a transaction of level {_level} in all states")
    def _states(stage: Stage, level: int = _level) -> None:
        """Empty, open, committed, open again, aborted, and with a new producer."""
        topic = stage.create()
        producer = ScriptedProducer(stage, level=level)
        stage.ask(_request(producer.id))
        for committed in (True, False):
            producer.send(topic)
            stage.ask(_request(producer.id))
            producer.end(committed=committed)
            stage.ask(_request(producer.id))
        producer.start()
        stage.ask(_request(producer.id))

    @BOOK.play(f"an open transaction of level {_level} with several topics")
    def _topics(stage: Stage, level: int = _level) -> None:
        topics = stage.create("a", partitions=3), stage.create("b")
        producer = ScriptedProducer(stage, level=level)
        producer.send(topics[0], partition=2)
        producer.send(topics[0], partition=0)
        producer.send(topics[1])
        stage.ask(_request(producer.id))
        producer.leave()

    @BOOK.play(f"an open transaction of level {_level} with offsets")
    def _offsets(stage: Stage, level: int = _level) -> None:
        """The internal topic of the group's offsets is listed as others are."""
        producer = ScriptedProducer(stage, level=level)
        producer.commit_offsets(stage.name("g"), {stage.topic: {0: 1}})
        (found,) = stage.do(_request(producer.id)).transaction_states
        topics = [{"topic": each.topic, "count": len(each.partitions)} for each in found.topics]
        stage.note("topics", topics)
        producer.leave()

    @BOOK.play(f"a fenced transaction of level {_level}")
    def _fenced(stage: Stage, level: int = _level) -> None:
        """After the abort for a new producer, and after that has begun."""
        topic = stage.create()
        producer = ScriptedProducer(stage, level=level)
        producer.send(topic)
        stage.do(producer.init_request(), 4)
        producer.settle()
        stage.ask(_request(producer.id))
        producer.start()
        stage.ask(_request(producer.id))


@BOOK.play("timeouts of producers")
def _timeouts(stage: Stage) -> None:
    for name, timeout_ms in (("x", 1), ("y", 60_000), ("z", 900_000)):
        producer = ScriptedProducer(stage, name, level=1, timeout_ms=timeout_ms)
        stage.ask(_request(producer.id))


def _two(stage: Stage) -> list[ScriptedProducer]:
    return [ScriptedProducer(stage, each, level=1) for each in with_one_coordinator(stage, 2)]


@BOOK.play("two ids")
def _two_ids(stage: Stage) -> None:
    stage.ask(_request(*(each.id for each in _two(stage))))


@BOOK.play("an id twice")
def _twice(stage: Stage) -> None:
    producer = ScriptedProducer(stage, level=1)
    stage.ask(_request(producer.id, producer.id))


@BOOK.play("an id beside an unknown id")
def _beside_unknown(stage: Stage) -> None:
    known, unknown = with_one_coordinator(stage, 2)
    producer = ScriptedProducer(stage, known, level=1)
    stage.ask(_request(producer.id, stage.name(unknown)))


@BOOK.play("an id beside an empty id")
def _beside_empty(stage: Stage) -> None:
    """Only an answer for the id that there is; the empty id may belong to another coordinator."""
    producer = ScriptedProducer(stage, level=1)
    found: list[Any] = stage.do(_request(producer.id, "")).transaction_states
    stage.note("the id", [each for each in found if each.transactional_id])
    stage.note("how many", len(found))
