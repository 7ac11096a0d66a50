"""AddOffsetsToTxn: groups whose offsets a transaction commits."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.transactions.producer import ScriptedProducer
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.add_offsets_to_txn import AddOffsetsToTxnRequest

BOOK = Book(AddOffsetsToTxnRequest, "transactions", ConformanceLevel.TRANSACTIONS, "KIP-98")


def _request(id: str, group: str, producer_id: int = 77, epoch: int = 0) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=id, producer_id=producer_id, producer_epoch=epoch, group_id=group
    )


BOOK.ask("an unknown transactional id", lambda s: _request(s.name("x"), s.name("g")))
BOOK.ask("an empty transactional id", lambda s: _request("", s.name("g")))
BOOK.ask("an unknown transactional id and no group", lambda s: _request(s.name("x"), ""))
BOOK.ask(
    "no producer id of an unknown transactional id",
    lambda s: _request(s.name("x"), s.name("g"), -1, -1),
)


def _noted(stage: Stage, producer: ScriptedProducer) -> None:
    """Note the transaction; which partitions its groups have depends on their names."""
    found = producer.described()
    topics = [{"topic": each.topic, "count": len(each.partitions)} for each in found.topics]
    stage.note("the transaction", {"state": found.transaction_state, "topics": topics})


@BOOK.play("a group", versions="0-4")
def _group(stage: Stage) -> None:
    """The partition of the group in the internal topic is part of the transaction."""
    producer = ScriptedProducer(stage, level=1)
    stage.ask(producer.add_offsets_request(stage.name("g")))
    _noted(stage, producer)
    producer.leave()


@BOOK.play("a group twice", versions="0,4")
def _twice(stage: Stage) -> None:
    producer = ScriptedProducer(stage, level=1)
    for _ in range(2):
        stage.ask(producer.add_offsets_request(stage.name("g")))
    _noted(stage, producer)
    producer.leave()


@BOOK.play("no group", versions="0-4")
def _no_group(stage: Stage) -> None:
    producer = ScriptedProducer(stage, level=1)
    stage.ask(producer.add_offsets_request(""))
    _noted(stage, producer)
    producer.leave()


@BOOK.play("a group beside partitions", versions="0,4")
def _beside(stage: Stage) -> None:
    topic = stage.create()
    producer = ScriptedProducer(stage, level=1)
    producer.add(topic, 0)
    stage.ask(producer.add_offsets_request(stage.name("g")))
    _noted(stage, producer)
    producer.leave()


_IDENTITIES: dict[str, dict[str, int]] = {
    "an older epoch": {"lag": 1},
    "a newer epoch": {"lag": -1},
    "another producer id": {"producer_id": 2**40},
    "no producer id": {"producer_id": -1},
}
for _what, _identity in _IDENTITIES.items():

    @BOOK.play(f"{_what} before a transaction", versions="0-4")
    def _add_as(stage: Stage, identity: dict[str, Any] = _identity) -> None:
        """INVALID_PRODUCER_EPOCH or PRODUCER_FENCED, by version."""
        producer = ScriptedProducer(stage, level=1)
        producer.start()
        stage.ask(producer.add_offsets_request(stage.name("g"), **identity))
        stage.note("the state", producer.state())

    @BOOK.play(f"{_what} in a transaction", versions="0-4")
    def _add_in(stage: Stage, identity: dict[str, Any] = _identity) -> None:
        producer = ScriptedProducer(stage, level=1)
        producer.start()
        stage.ask(producer.add_offsets_request(stage.name("g")))
        stage.ask(producer.add_offsets_request(stage.name("other"), **identity))
        _noted(stage, producer)
        producer.leave()


for _is_committed in (True, False):
    _end = "a commit" if _is_committed else "an abort"

    @BOOK.play(f"after {_end} with the same epoch", versions="0,4")
    def _after_end(stage: Stage, committed: bool = _is_committed) -> None:
        producer = ScriptedProducer(stage, level=1)
        stage.ask(producer.add_offsets_request(stage.name("g")))
        producer.end(committed=committed)
        stage.ask(producer.add_offsets_request(stage.name("g")))
        _noted(stage, producer)
        producer.leave()

    @BOOK.play(f"after {_end} with the epoch before", versions="0,2,4", source="KIP-890")
    def _after_bump(stage: Stage, committed: bool = _is_committed) -> None:
        producer = ScriptedProducer(stage)
        stage.ask(producer.add_offsets_request(stage.name("g")))
        producer.end(committed=committed)
        stage.ask(producer.add_offsets_request(stage.name("g"), lag=1))
        stage.ask(producer.add_offsets_request(stage.name("g")))
        producer.leave()


@BOOK.play("after another producer has begun", versions="0-4")
def _fenced(stage: Stage) -> None:
    producer = ScriptedProducer(stage, level=1)
    stage.ask(producer.add_offsets_request(stage.name("g")))
    stage.do(producer.init_request(), 4)
    producer.settle()
    stage.ask(producer.add_offsets_request(stage.name("g")))
