"""WriteTxnMarkers: markers that coordinators write, and operators for hanging transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.transactions.producer import ScriptedProducer
from wirekafka.conformance.cases.transactions.views import log, positions, producers
from wirekafka.conformance.stage import Stage, batch
from wirekafka.protocol.write_txn_markers import WriteTxnMarkersRequest

BOOK = Book(WriteTxnMarkersRequest, "transactions", ConformanceLevel.ADMIN, "KIP-664")

_Marker = WriteTxnMarkersRequest.WritableTxnMarker
_COORDINATOR_EPOCH = 1000
"""Newer than the epoch of any coordinator of a run."""


def _marker(
    topics: Mapping[str, Iterable[int]],
    *,
    producer_id: int = 77,
    epoch: int = 0,
    committed: bool = False,
    coordinator_epoch: int = _COORDINATOR_EPOCH,
    transaction_version: int = 0,
) -> _Marker:
    return _Marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=committed,
        topics=[
            _Marker.WritableTxnMarkerTopic(name=name, partition_indexes=[*parts])
            for name, parts in topics.items()
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )


def _request(*markers: _Marker) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=[*markers])


BOOK.ask("no markers", lambda _: _request())
BOOK.ask("a missing topic", lambda s: _request(_marker({s.missing: [0]})))
BOOK.ask("a missing partition", lambda s: _request(_marker({s.topic: [9]})))
BOOK.ask("a negative partition", lambda s: _request(_marker({s.topic: [-1]})))
BOOK.ask("no topics", lambda _: _request(_marker({})))
BOOK.ask("no partitions", lambda s: _request(_marker({s.topic: []})))
BOOK.ask(
    "missing topics of two producers",
    lambda s: _request(_marker({s.missing: [0]}), _marker({s.missing: [0, 1]}, producer_id=78)),
)


def _note_all(stage: Stage, topic: str, partition: int = 0) -> None:
    stage.note("the log", log(stage, topic, partition))
    stage.note("its positions", positions(stage, topic, partition))
    stage.note("its producers", producers(stage, topic, partition))


for _what, _committed in {"a commit": True, "an abort": False}.items():

    @BOOK.play(f"{_what} of an unknown producer")
    def _unknown(stage: Stage, committed: bool = _committed) -> None:
        topic = stage.create()
        stage.ask(_request(_marker({topic: [0]}, committed=committed)))
        _note_all(stage, topic)

    @BOOK.play(f"{_what} of a producer without transactions")
    def _idempotent(stage: Stage, committed: bool = _committed) -> None:
        topic = stage.create()
        records = batch(1, producer_id=77, producer_epoch=3, base_sequence=0)
        stage.produce(topic, records)
        stage.ask(_request(_marker({topic: [0]}, epoch=3, committed=committed)))
        _note_all(stage, topic)

    for _level in (1, 2):

        @BOOK.play(f"{_what} by an operator of an open transaction of level {_level}")
        def _open(stage: Stage, committed: bool = _committed, level: int = _level) -> None:
            """The stable offset goes on, while the coordinator still has it open."""
            topic = stage.create()
            producer = ScriptedProducer(stage, level=level)
            producer.send(topic, count=2)
            marker = _marker(
                {topic: [0]},
                producer_id=producer.producer_id,
                epoch=producer.epoch,
                committed=committed,
            )
            stage.ask(_request(marker))
            _note_all(stage, topic)
            stage.note("the state", producer.state())


_MARKERS: dict[str, dict[str, int]] = {
    "an older epoch": {"epoch": 1},
    "a newer epoch": {"epoch": 3},
    "another producer": {"producer_id": 2**40},
    "the version of level 2": {"transaction_version": 2},
    "the version of level 2 and a newer epoch": {"transaction_version": 2, "epoch": 3},
    "the version of level 2 and an older epoch": {"transaction_version": 2, "epoch": 1},
    "the version of level 1": {"transaction_version": 1},
    "an unknown version": {"transaction_version": 9},
    "no coordinator epoch": {"coordinator_epoch": -1},
}
for _what, _details in _MARKERS.items():

    @BOOK.play(f"an abort of an open transaction with {_what}")
    def _abort(stage: Stage, details: dict[str, int] = _details) -> None:
        """The producer has epoch 2; whether its transaction is over then."""
        topic = stage.create()
        producer = ScriptedProducer(stage, level=1)
        producer.start()
        producer.start()
        producer.send(topic)
        used: dict[str, Any] = {
            "producer_id": producer.producer_id,
            "epoch": producer.epoch,
            **details,
        }
        stage.ask(_request(_marker({topic: [0]}, **used)))
        stage.note("the log", log(stage, topic))
        stage.note("its positions", positions(stage, topic))


@BOOK.play("coordinator epochs of one producer")
def _coordinator_epochs(stage: Stage) -> None:
    """A coordinator that has been replaced writes no more markers."""
    topic = stage.create()
    for epoch in (5, 5, 6, 5, 6):
        stage.ask(_request(_marker({topic: [0]}, coordinator_epoch=epoch)))
    stage.note("the log", log(stage, topic))


@BOOK.play("coordinator epochs of two producers")
def _of_two_producers(stage: Stage) -> None:
    topic = stage.create()
    for producer_id, epoch in ((77, 6), (78, 5), (77, 5)):
        marker = _marker({topic: [0]}, producer_id=producer_id, coordinator_epoch=epoch)
        stage.ask(_request(marker))


@BOOK.play("epochs of one producer")
def _epochs(stage: Stage) -> None:
    topic = stage.create()
    for epoch in (3, 3, 2, 4):
        stage.ask(_request(_marker({topic: [0]}, epoch=epoch)))
    stage.note("the log", log(stage, topic))


@BOOK.play("several partitions and topics")
def _several(stage: Stage) -> None:
    topics = stage.create("a", partitions=3), stage.create("b")
    stage.ask(_request(_marker({topics[0]: [0, 2], topics[1]: [0]})))
    for topic, partition in ((topics[0], 0), (topics[0], 1), (topics[0], 2), (topics[1], 0)):
        stage.note("a log", log(stage, topic, partition))


@BOOK.play("a partition and a missing partition")
def _and_missing(stage: Stage) -> None:
    topic = stage.create()
    stage.ask(_request(_marker({topic: [0, 7], stage.missing: [0]})))
    stage.note("the log", log(stage, topic))


@BOOK.play("a topic without partitions beside another")
def _without_partitions(stage: Stage) -> None:
    topic = stage.create()
    stage.ask(_request(_marker({topic: [0], stage.topic: []})))


@BOOK.play("two markers of one producer")
def _one_producer(stage: Stage) -> None:
    topic = stage.create(partitions=2)
    stage.ask(_request(_marker({topic: [0]}), _marker({topic: [1]}, committed=True)))
    stage.note("the log", log(stage, topic))
    stage.note("the other log", log(stage, topic, 1))


@BOOK.play("a marker twice in a request")
def _marker_twice(stage: Stage) -> None:
    topic = stage.create()
    stage.ask(_request(_marker({topic: [0]}), _marker({topic: [0]})))
    stage.note("the log", log(stage, topic))


@BOOK.play("markers of two producers")
def _two_producers(stage: Stage) -> None:
    topic = stage.create()
    first, second = (ScriptedProducer(stage, each, level=1) for each in ("x", "y"))
    for each in (first, second):
        each.send(topic)
    markers = [
        _marker({topic: [0]}, producer_id=each.producer_id, epoch=each.epoch, committed=committed)
        for each, committed in ((first, True), (second, False))
    ]
    stage.ask(_request(*markers))
    stage.note("its positions", positions(stage, topic))


@BOOK.play("records after an abort by an operator")
def _goes_on(stage: Stage) -> None:
    """The producer knows nothing of it: its next records, and the end of its transaction."""
    topic = stage.create()
    producer = ScriptedProducer(stage, level=1)
    producer.send(topic)
    marker = _marker(
        {topic: [0]}, producer_id=producer.producer_id, epoch=producer.epoch, coordinator_epoch=0
    )
    stage.ask(_request(marker))
    stage.ask(producer.produce_request(topic), 11)
    _note_all(stage, topic)
    stage.ask(producer.end_request(), 4)
    producer.settle()
    _note_all(stage, topic)
