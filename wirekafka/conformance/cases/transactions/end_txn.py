"""EndTxn: what a commit or an abort leaves in logs, and what readers see before and after."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.transactions.producer import ScriptedProducer
from wirekafka.conformance.cases.transactions.views import log, positions, producers
from wirekafka.conformance.stage import Stage, batch
from wirekafka.protocol.end_txn import EndTxnRequest

BOOK = Book(EndTxnRequest, "transactions", ConformanceLevel.TRANSACTIONS, "KIP-98")

_BUMPS = "KIP-890"
_ENDS = {"a commit": True, "an abort": False}


def _request(
    id: str, *, committed: bool = True, producer_id: int = 77, epoch: int = 0
) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=id, producer_id=producer_id, producer_epoch=epoch, committed=committed
    )


def _level(stage: Stage) -> int:
    """The level of transactions whose clients send this version of EndTxn."""
    return 2 if stage.version >= 5 else 1


def _ask_end(stage: Stage, producer: ScriptedProducer, **what: Any) -> None:
    """End a transaction with a compared answer, and wait for its markers."""
    answer = stage.ask(producer.end_request(**what))
    if stage.version >= 5 and answer.error_code == 0:
        producer.adopt(answer.producer_id, answer.producer_epoch)
    producer.settle()


def _note_all(stage: Stage, topic: str, partition: int = 0) -> None:
    stage.note("the log", log(stage, topic, partition))
    stage.note("its positions", positions(stage, topic, partition))
    stage.note("its producers", producers(stage, topic, partition))


for _what, _is_committed in _ENDS.items():
    BOOK.ask(
        f"{_what} of an unknown transactional id",
        lambda s, committed=_is_committed: _request(s.name("x"), committed=committed),
    )
    BOOK.ask(
        f"{_what} of an empty transactional id",
        lambda _, committed=_is_committed: _request("", committed=committed),
    )
    BOOK.ask(
        f"{_what} without a producer id",
        lambda s, committed=_is_committed: _request(
            s.name("x"), committed=committed, producer_id=-1, epoch=-1
        ),
    )

    @BOOK.play(f"{_what} of nothing", versions="0-5")
    def _nothing(stage: Stage, committed: bool = _is_committed) -> None:
        """A transaction that was never begun; twice."""
        producer = ScriptedProducer(stage, level=_level(stage))
        _ask_end(stage, producer, committed=committed)
        stage.note("the transaction", producer.described())
        _ask_end(stage, producer, committed=committed)

    @BOOK.play(f"{_what} of records", versions="0-5")
    def _records(stage: Stage, committed: bool = _is_committed) -> None:
        """Markers end the transaction in the log; from version 5 on it has the next epoch."""
        topic = stage.create()
        producer = ScriptedProducer(stage, level=_level(stage))
        producer.send(topic, count=3)
        stage.note("positions before", positions(stage, topic))
        stage.note("producers before", producers(stage, topic))
        _ask_end(stage, producer, committed=committed)
        stage.note("the transaction", producer.described())
        _note_all(stage, topic)

    @BOOK.play(f"{_what} of several partitions", versions="4-5")
    def _partitions(stage: Stage, committed: bool = _is_committed) -> None:
        """Each partition gets one marker, the partitions beside them none."""
        topics = stage.create("a", partitions=3), stage.create("b")
        producer = ScriptedProducer(stage, level=_level(stage))
        producer.send(topics[0], partition=0)
        producer.send(topics[0], partition=2, count=2)
        producer.send(topics[1])
        producer.send(topics[0], partition=0)
        _ask_end(stage, producer, committed=committed)
        for topic, partition in ((topics[0], 0), (topics[0], 1), (topics[0], 2), (topics[1], 0)):
            stage.note("a log", log(stage, topic, partition))

    @BOOK.play(f"{_what} of offsets", versions="0,4-5")
    def _offsets(stage: Stage, committed: bool = _is_committed) -> None:
        producer = ScriptedProducer(stage, level=_level(stage))
        producer.commit_offsets(stage.name("g"), {stage.topic: {0: 1}})
        _ask_end(stage, producer, committed=committed)
        stage.note("the transaction", producer.described())

    @BOOK.play(f"{_what} of a partition without records", versions="0,4")
    def _no_records(stage: Stage, committed: bool = _is_committed) -> None:
        """The marker is written even so."""
        topic = stage.create()
        producer = ScriptedProducer(stage, level=1)
        producer.add(topic, 0)
        _ask_end(stage, producer, committed=committed)
        _note_all(stage, topic)

    for _second, _is_second_committed in _ENDS.items():

        @BOOK.play(f"{_second} after {_what} with the epoch before", versions="0-5")
        def _repeated(
            stage: Stage,
            committed: bool = _is_committed,
            is_second_committed: bool = _is_second_committed,
        ) -> None:
            """A repeated end is accepted when it is the same, and refused when it is the other."""
            topic = stage.create()
            producer = ScriptedProducer(stage, level=_level(stage))
            producer.send(topic)
            epoch = producer.epoch
            _ask_end(stage, producer, committed=committed)
            lag = producer.epoch - epoch
            for _ in range(2):
                stage.ask(producer.end_request(committed=is_second_committed, lag=lag))
                producer.settle()
            stage.note("the transaction", producer.described())
            stage.note("the log", log(stage, topic))

        @BOOK.play(f"{_second} after {_what} with the new epoch", versions="5", source=_BUMPS)
        def _with_new_epoch(
            stage: Stage,
            committed: bool = _is_committed,
            is_second_committed: bool = _is_second_committed,
        ) -> None:
            topic = stage.create()
            producer = ScriptedProducer(stage)
            producer.send(topic)
            _ask_end(stage, producer, committed=committed)
            _ask_end(stage, producer, committed=is_second_committed)
            stage.note("the transaction", producer.described())

    @BOOK.play(f"{_what} after another producer has begun", versions="0-5")
    def _fenced(stage: Stage, committed: bool = _is_committed) -> None:
        topic = stage.create()
        producer = ScriptedProducer(stage, level=_level(stage))
        producer.send(topic)
        stage.do(producer.init_request(), 4)
        producer.settle()
        stage.ask(producer.end_request(committed=committed))
        stage.note("the log", log(stage, topic))


_IDENTITIES: dict[str, dict[str, int]] = {
    "an older epoch": {"lag": 1},
    "a much older epoch": {"lag": 2},
    "a newer epoch": {"lag": -1},
    "another producer id": {"producer_id": 2**40},
    "no producer id": {"producer_id": -1},
}
for _what, _identity in _IDENTITIES.items():

    @BOOK.play(f"a commit by {_what}", versions="0-5")
    def _end_as(stage: Stage, identity: dict[str, Any] = _identity) -> None:
        """INVALID_PRODUCER_EPOCH or PRODUCER_FENCED, by version; the transaction stays open."""
        topic = stage.create()
        producer = ScriptedProducer(stage, level=_level(stage))
        producer.start()
        producer.start()
        producer.send(topic)
        stage.ask(producer.end_request(**identity))
        stage.note("the transaction", producer.described())
        stage.note("positions", positions(stage, topic))
        producer.leave()

    @BOOK.play(f"a commit of nothing by {_what}", versions="0-5")
    def _end_nothing_as(stage: Stage, identity: dict[str, Any] = _identity) -> None:
        producer = ScriptedProducer(stage, level=_level(stage))
        producer.start()
        producer.start()
        stage.ask(producer.end_request(**identity))
        stage.note("the state", producer.state())

    @BOOK.play(f"a commit after a commit by {_what}", versions="1,4-5")
    def _end_ended_as(stage: Stage, identity: dict[str, Any] = _identity) -> None:
        topic = stage.create()
        producer = ScriptedProducer(stage, level=_level(stage))
        producer.start()
        producer.start()
        producer.send(topic)
        _ask_end(stage, producer)
        stage.ask(producer.end_request(**identity))
        stage.note("the state", producer.state())


# Several transactions


@BOOK.play("a commit, an abort and a commit", versions="0,4-5")
def _in_turn(stage: Stage) -> None:
    """Readers of committed records are shown which transaction to leave out."""
    topic = stage.create()
    producer = ScriptedProducer(stage, level=_level(stage))
    for count, committed in ((2, True), (3, False), (1, True)):
        producer.send(topic, count=count)
        _ask_end(stage, producer, committed=committed)
    _note_all(stage, topic)


@BOOK.play("several aborts", versions="4-5")
def _aborts(stage: Stage) -> None:
    topic = stage.create()
    producer = ScriptedProducer(stage, level=_level(stage))
    for count in (1, 2, 3):
        producer.send(topic, count=count)
        _ask_end(stage, producer, committed=False)
    _note_all(stage, topic)


for _what, _is_committed in _ENDS.items():

    @BOOK.play(f"{_what} beside an open transaction", versions="4-5")
    def _beside(stage: Stage, committed: bool = _is_committed) -> None:
        """The first open transaction holds back the stable offset until its own end."""
        topic = stage.create()
        first, second = (ScriptedProducer(stage, name, level=_level(stage)) for name in ("x", "y"))
        first.send(topic)
        second.send(topic, count=2)
        first.send(topic)
        _ask_end(stage, second, committed=committed)
        stage.note("the log with an open transaction", log(stage, topic))
        stage.note("positions with an open transaction", positions(stage, topic))
        stage.note("producers with an open transaction", producers(stage, topic))
        _ask_end(stage, first, committed=not committed)
        _note_all(stage, topic)

    @BOOK.play(f"{_what} of the first of two open transactions", versions="4-5")
    def _first_of_two(stage: Stage, committed: bool = _is_committed) -> None:
        """The stable offset goes on to the first record of the transaction that is still open."""
        topic = stage.create()
        first, second = (ScriptedProducer(stage, name, level=_level(stage)) for name in ("x", "y"))
        first.send(topic, count=2)
        second.send(topic, count=3)
        _ask_end(stage, first, committed=committed)
        stage.note("positions", positions(stage, topic))
        second.send(topic)
        second.leave()

    @BOOK.play(f"{_what} among records without transactions", versions="4-5")
    def _among(stage: Stage, committed: bool = _is_committed) -> None:
        """Records without a transaction wait for the open one before them, too."""
        topic = stage.create()
        producer = ScriptedProducer(stage, level=_level(stage))
        stage.produce(topic, batch(2))
        producer.send(topic)
        stage.produce(topic, batch(1))
        stage.note("positions before", positions(stage, topic))
        _ask_end(stage, producer, committed=committed)
        stage.produce(topic, batch(1))
        _note_all(stage, topic)

    @BOOK.play(f"{_what} after a topic was deleted", versions="4-5")
    def _deleted(stage: Stage, committed: bool = _is_committed) -> None:
        """The other topic of the transaction gets its marker."""
        gone, topic = stage.create("gone"), stage.create()
        producer = ScriptedProducer(stage, level=_level(stage))
        producer.send(gone)
        producer.send(topic)
        stage.delete(gone)
        _ask_end(stage, producer, committed=committed)
        stage.note("the state", producer.state())
        stage.note("the log", log(stage, topic))


# Transactions that take too long

for _level_of_producer in (1, 2):

    @BOOK.play(
        f"after the timeout of a transaction of level {_level_of_producer}",
        versions="4" if _level_of_producer == 1 else "5",
    )
    def _timed_out(stage: Stage, level: int = _level_of_producer) -> None:
        """The coordinator aborts it and fences its producer, which can begin anew."""
        topic = stage.create()
        producer = ScriptedProducer(stage, level=level, timeout_ms=100)
        producer.send(topic)
        stage.until(lambda: producer.state() == "CompleteAbort", "an abort after the timeout")
        stage.ask(producer.end_request())
        stage.ask(producer.produce_request(topic), producer.produce_version)
        stage.note("the transaction", producer.described())
        _note_all(stage, topic)
        producer.start()
        producer.send(topic)
        producer.end()
        stage.note("the log", log(stage, topic))
