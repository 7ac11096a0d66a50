"""Records in transactions: which batches a transaction takes, by level, until EndTxn.

Cases of version 5 of EndTxn have a producer of level 2, cases of version 4 a producer of level 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.transactions.producer import ScriptedProducer
from wirekafka.conformance.cases.transactions.views import log, positions, producers
from wirekafka.conformance.stage import UNKNOWN_ID, Stage, batch
from wirekafka.protocol.end_txn import EndTxnRequest
from wirekafka.protocol.produce import ProduceRequest

BOOK = Book(EndTxnRequest, "transactions", ConformanceLevel.TRANSACTIONS, "KIP-890")

_BOTH = "4-5"
_ADDS_SINCE = 12


def _begun(stage: Stage, text: str = "x") -> ScriptedProducer:
    return ScriptedProducer(stage, text, level=2 if stage.version >= 5 else 1)


def _ask(stage: Stage, producer: ScriptedProducer, request: ProduceRequest) -> int:
    """Append with a compared answer, in the version of the producer's level."""
    answer = stage.ask(request, producer.produce_version)
    return int(answer.responses[0].partition_responses[0].error_code)


def _finish(stage: Stage, producer: ScriptedProducer, topic: str) -> None:
    """Commit, whatever was appended, and note what is in the log."""
    stage.note("the state", producer.state())
    stage.ask(producer.end_request())
    producer.settle()
    stage.note("the log", log(stage, topic))


for _version in (9, 10, 11, 12, 13):
    # Apache Kafka asks for several requests at once as the first of them wants it, so those that
    # are refused in words of their version are alone.
    _is_verified = _version < _ADDS_SINCE

    @BOOK.play(
        f"records by Produce {_version} of a partition that was not added",
        versions="4",
        is_alone=_is_verified,
    )
    def _not_added(stage: Stage, version: int = _version) -> None:
        """Before version 12 a client must add partitions, afterwards the leader does it."""
        topic = stage.create()
        producer = _begun(stage)
        stage.ask(producer.produce_request(topic), version)
        _finish(stage, producer, topic)

    @BOOK.play(
        f"records by Produce {_version} of a partition beside the added",
        versions="4",
        is_alone=_is_verified,
    )
    def _beside_added(stage: Stage, version: int = _version) -> None:
        topic = stage.create(partitions=2)
        producer = _begun(stage)
        producer.add(topic, 0)
        stage.ask(producer.produce_request(topic, partition=1), version)
        stage.note("the transaction", producer.described())
        producer.leave()

    @BOOK.play(f"records by Produce {_version} of an added partition", versions="4")
    def _added(stage: Stage, version: int = _version) -> None:
        topic = stage.create()
        producer = _begun(stage)
        producer.add(topic, 0)
        stage.ask(producer.produce_request(topic), version)
        _finish(stage, producer, topic)

    @BOOK.play(f"records by Produce {_version} after a commit", versions="4", is_alone=_is_verified)
    def _after(stage: Stage, version: int = _version) -> None:
        """The partition is no longer part of a transaction until it is added again."""
        topic = stage.create()
        producer = _begun(stage)
        producer.send(topic)
        producer.end()
        stage.ask(producer.produce_request(topic), version)
        producer.settle()
        stage.note("the transaction", producer.described())
        producer.leave()


_REQUESTS: dict[str, dict[str, Any]] = {
    "an older epoch": {"lag": 1},
    "a newer epoch": {"lag": -1},
    "another producer id": {"producer_id": 2**40},
    "a sequence too high": {"skip": 1},
    "a far higher sequence": {"skip": 1000},
    "no transactional id": {"transactional_id": None},
    "the id of no transaction": {"transactional_id": "no transaction of any run"},
    "a batch without the transactional bit": {"is_transactional": False},
    "neither an id nor the transactional bit": {
        "transactional_id": None,
        "is_transactional": False,
    },
}
for _what, _details in _REQUESTS.items():

    @BOOK.play(f"the first records with {_what}", versions=_BOTH)
    def _first(stage: Stage, details: dict[str, Any] = _details) -> None:
        topic = stage.create()
        producer = _begun(stage)
        producer.start()
        producer.add(topic, 0)
        _ask(stage, producer, producer.produce_request(topic, **details))
        _finish(stage, producer, topic)

    @BOOK.play(f"further records with {_what}", versions=_BOTH)
    def _further(stage: Stage, details: dict[str, Any] = _details) -> None:
        topic = stage.create()
        producer = _begun(stage)
        producer.start()
        producer.send(topic, count=2)
        _ask(stage, producer, producer.produce_request(topic, **details))
        _finish(stage, producer, topic)

    @BOOK.play(f"records after a transaction with {_what}", versions=_BOTH)
    def _next(stage: Stage, details: dict[str, Any] = _details) -> None:
        """In the second transaction of a producer that has sent the same before."""
        topic = stage.create()
        producer = _begun(stage)
        producer.send(topic, count=2)
        producer.end()
        producer.add(topic, 0)
        _ask(stage, producer, producer.produce_request(topic, **details))
        _finish(stage, producer, topic)


@BOOK.play("the same records twice", versions=_BOTH)
def _twice(stage: Stage) -> None:
    """A repeated batch has the offset of the first, and is appended once."""
    topic = stage.create()
    producer = _begun(stage)
    producer.add(topic, 0)
    for _ in range(2):
        _ask(stage, producer, producer.produce_request(topic, count=3))
    _finish(stage, producer, topic)


@BOOK.play("records of the transaction before", versions=_BOTH, is_alone=True)
def _repeated_after(stage: Stage) -> None:
    """A batch of the committed transaction comes again, before and in the next transaction."""
    topic = stage.create()
    producer = _begun(stage)
    repeated = producer.produce_request(topic)
    producer.send(topic)
    producer.end()
    _ask(stage, producer, repeated)
    producer.add(topic, 0)
    _ask(stage, producer, repeated)
    _finish(stage, producer, topic)


@BOOK.play("sequences from transaction to transaction", versions=_BOTH)
def _sequences(stage: Stage) -> None:
    """At level 1 they go on after a commit and an abort, at level 2 they begin anew."""
    topic = stage.create()
    producer = _begun(stage)
    for committed in (True, False, True):
        producer.add(topic, 0)
        _ask(stage, producer, producer.produce_request(topic, count=2))
        producer.sent(topic, count=2)
        producer.end(committed=committed)
    stage.note("the log", log(stage, topic))
    stage.note("its producers", producers(stage, topic))


for _what, _committed in {"a commit": True, "an abort": False}.items():

    @BOOK.play(f"a sequence of 0 after {_what}", versions=_BOTH)
    def _from_zero(stage: Stage, committed: bool = _committed) -> None:
        """A producer that keeps its epoch may not begin anew."""
        topic = stage.create()
        producer = _begun(stage)
        producer.send(topic, count=2)
        producer.end(committed=committed)
        producer.adopt(producer.producer_id, producer.epoch)
        producer.add(topic, 0)
        skip = 0 if producer.level == 2 else -2
        _ask(stage, producer, producer.produce_request(topic, skip=skip))
        _finish(stage, producer, topic)

    @BOOK.play(f"late records of the epoch before {_what}", versions="5")
    def _late(stage: Stage, committed: bool = _committed) -> None:
        """A request that was under way when the transaction ended does not hang in the next."""
        topic = stage.create(partitions=2)
        producer = _begun(stage)
        late = [producer.produce_request(topic, partition=each) for each in (0, 1)]
        producer.send(topic)
        producer.end(committed=committed)
        for request in late:
            _ask(stage, producer, request)
        for partition in (0, 1):
            stage.note("positions", positions(stage, topic, partition))


@BOOK.play("records after another producer has begun", versions=_BOTH)
def _fenced(stage: Stage) -> None:
    """The leader refuses the earlier producer, whether it knows the later one or not."""
    topic = stage.create(partitions=2)
    producer = _begun(stage)
    producer.send(topic)
    stage.do(producer.init_request(), 4)
    producer.settle()
    for partition in (0, 1):
        _ask(stage, producer, producer.produce_request(topic, partition=partition))
    stage.note("positions", positions(stage, topic))


@BOOK.play("records for two transactional ids of one producer", versions=_BOTH)
def _other_id(stage: Stage) -> None:
    """A producer names the transaction of another."""
    topic = stage.create()
    first, second = _begun(stage), _begun(stage, "y")
    second.add(topic, 0)
    _ask(stage, first, first.produce_request(topic, transactional_id=second.id))
    second.leave()
    stage.note("the log", log(stage, topic))


Changed = Callable[[Stage, ScriptedProducer, str], ProduceRequest]


def _mixed(stage: Stage, producer: ScriptedProducer, topic: str) -> ProduceRequest:
    """One partition with a batch of the transaction, another without."""
    request = producer.produce_request(topic)
    other = stage.produce_request(topic, batch(1), partition=1)
    request.topic_data[0].partition_data += other.topic_data[0].partition_data
    return request


def _two_batches(stage: Stage, producer: ScriptedProducer, topic: str) -> ProduceRequest:
    request = producer.produce_request(topic)
    (part,) = request.topic_data[0].partition_data
    part.records = bytes(part.records or b"") * 2
    return request


def _and_missing(stage: Stage, producer: ScriptedProducer, topic: str) -> ProduceRequest:
    request = producer.produce_request(topic)
    other = producer.produce_request(stage.missing)
    request.topic_data += other.topic_data
    return request


def _and_missing_partition(stage: Stage, producer: ScriptedProducer, topic: str) -> ProduceRequest:
    request = producer.produce_request(topic)
    other = producer.produce_request(topic, partition=7)
    request.topic_data[0].partition_data += other.topic_data[0].partition_data
    return request


def _without_acks(stage: Stage, producer: ScriptedProducer, topic: str) -> ProduceRequest:
    request = producer.produce_request(topic)
    request.acks = 1
    return request


def _missing_topic(stage: Stage, producer: ScriptedProducer, _: str) -> ProduceRequest:
    return producer.produce_request(stage.missing)


def _missing_partition(stage: Stage, producer: ScriptedProducer, topic: str) -> ProduceRequest:
    return producer.produce_request(topic, partition=7)


def _without_sequence(stage: Stage, producer: ScriptedProducer, topic: str) -> ProduceRequest:
    return producer.produce_request(topic, skip=-1)


def _two_partitions(stage: Stage, producer: ScriptedProducer, topic: str) -> ProduceRequest:
    request = producer.produce_request(topic)
    other = producer.produce_request(topic, partition=1, count=2)
    request.topic_data[0].partition_data += other.topic_data[0].partition_data
    return request


_CHANGED: dict[str, Changed] = {
    "a batch of the transaction beside another": _mixed,
    "two batches for a partition": _two_batches,
    "records for a missing topic, too": _and_missing,
    "records for a missing partition, too": _and_missing_partition,
    "records with acks 1": _without_acks,
    "records for a missing topic": _missing_topic,
    "records for a missing partition": _missing_partition,
    "records without a sequence": _without_sequence,
    "records for two partitions": _two_partitions,
}
for _what, _change in _CHANGED.items():

    @BOOK.play(_what, versions=_BOTH)
    def _changed(stage: Stage, change: Changed = _change) -> None:
        topic = stage.create(partitions=2)
        producer = _begun(stage)
        if producer.level == 1:
            producer.add(topic, 0, 1)
        _ask(stage, producer, change(stage, producer, topic))
        stage.note("the transaction", producer.described())
        _finish(stage, producer, topic)
        stage.note("the other log", log(stage, topic, 1))


@BOOK.play("records for an unknown topic id", versions="5")
def _unknown_id(stage: Stage) -> None:
    producer = _begun(stage)
    request = producer.produce_request(stage.missing)
    assert request.topic_data[0].topic_id == UNKNOWN_ID
    stage.ask(request, 13)
    stage.note("the transaction", producer.described())


@BOOK.play("records of the producer of no transaction", versions="5", is_alone=True)
def _idempotent(stage: Stage) -> None:
    """A producer without a transactional id sends a batch with the transactional bit."""
    topic = stage.create()
    records = batch(1, producer_id=2**41, producer_epoch=0, base_sequence=0, is_transactional=True)
    for id in (None, "", stage.name("x")):
        for version in (11, 12):
            stage.ask(stage.produce_request(topic, records, transactional_id=id), version)
    stage.note("the log", log(stage, topic))
