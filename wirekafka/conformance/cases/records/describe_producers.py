"""DescribeProducers: who has written to a partition (KIP-664)."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.records.logs import OwnTransaction, settled, trim
from wirekafka.conformance.stage import Stage, batch
from wirekafka.protocol.describe_producers import DescribeProducersRequest

BOOK = Book(DescribeProducersRequest, "offsets", ConformanceLevel.ADMIN, "KIP-664")

_Topic = DescribeProducersRequest.TopicRequest


def _ask(*asked: tuple[str, list[int]]) -> DescribeProducersRequest:
    topics = [_Topic(name=name, partition_indexes=indexes) for name, indexes in asked]
    return DescribeProducersRequest(topics=topics)


_CASES: dict[str, Make] = {
    "none": lambda s: _ask((s.topic, [0])),
    "none in two partitions": lambda s: _ask((s.topic, [0, 1])),
    "a missing topic": lambda s: _ask((s.missing, [0])),
    "a missing partition": lambda s: _ask((s.topic, [9])),
    "a negative partition": lambda s: _ask((s.topic, [-1])),
    "a missing partition beside another": lambda s: _ask((s.topic, [0, 9])),
    "a missing topic beside another": lambda s: _ask((s.topic, [0]), (s.missing, [0])),
    "a partition twice": lambda s: _ask((s.topic, [0, 0])),
    "a topic twice": lambda s: _ask((s.topic, [0]), (s.topic, [1])),
    "no topics": lambda s: _ask(),
    "a topic without partitions": lambda s: _ask((s.topic, [])),
    "an empty name": lambda s: _ask(("", [0])),
    "the metadata log": lambda s: _ask(("__cluster_metadata", [0])),
}
for _title, _make in _CASES.items():
    BOOK.ask(_title, _make)


def _note(stage: Stage, name: str, *partitions: int) -> None:
    """Compare the producers of partitions, in an order of their own and without their ids."""
    answer = stage.do(_ask((name, list(partitions))))
    for part in sorted(answer.topics[0].partitions, key=lambda each: each.partition_index):
        stage.note(
            f"partition {part.partition_index}",
            [
                f"epoch {each.producer_epoch}, sequence {each.last_sequence}, coordinator's "
                f"epoch {min(each.coordinator_epoch, 0)}, transaction from "
                f"{each.current_txn_start_offset}"
                for each in part.active_producers
            ],
        )


@BOOK.play("after transactions", level=ConformanceLevel.TRANSACTIONS)
def _settled(stage: Stage) -> None:
    """Both producers of transactions that are over, and nothing open."""
    _note(stage, settled(stage), 0)


def _written(stage: Stage, name: str, sequence: int, id: int = 4242, epoch: int = 0) -> None:
    records = batch(producer_id=id, producer_epoch=epoch, base_sequence=sequence)
    stage.produce(name, records)


@BOOK.play("an idempotent producer")
def _idempotent(stage: Stage) -> None:
    """Its epoch and the last of its sequences."""
    name = stage.create()
    _written(stage, name, 0)
    stage.ask(_ask((name, [0])))
    _written(stage, name, 3)
    stage.ask(_ask((name, [0])))


@BOOK.play("a producer with a later epoch")
def _bumped(stage: Stage) -> None:
    """Sequences start again with the epoch."""
    name = stage.create()
    _written(stage, name, 0)
    _written(stage, name, 3)
    _written(stage, name, 0, epoch=2)
    stage.ask(_ask((name, [0])))


@BOOK.play("two producers")
def _two(stage: Stage) -> None:
    """Each is listed in the partition that it has written to."""
    name = stage.create(partitions=2)
    _written(stage, name, 0)
    _written(stage, name, 5, id=4243)
    stage.produce(name, batch(producer_id=4244, producer_epoch=1, base_sequence=0), 1)
    _note(stage, name, 0, 1)


@BOOK.play("a sequence that wraps around")
def _wraps(stage: Stage) -> None:
    """The last sequence is counted from 0 again after 2^31 - 1."""
    name = stage.create()
    _written(stage, name, 2**31 - 2)
    stage.ask(_ask((name, [0])))


@BOOK.play("a producer whose records are deleted")
def _deleted(stage: Stage) -> None:
    """Deleting records leaves what is known of their producer."""
    name = stage.create()
    _written(stage, name, 0)
    trim(stage, name, -1)
    stage.ask(_ask((name, [0])))


@BOOK.play("a refused batch")
def _refused(stage: Stage) -> None:
    """A gap in the sequences leaves the producer as it was."""
    name = stage.create()
    _written(stage, name, 0)
    records = batch(producer_id=4242, producer_epoch=0, base_sequence=10)
    stage.do(stage.produce_request(name, records), 9)
    stage.ask(_ask((name, [0])))


@BOOK.play("a transaction from its start to its end", level=ConformanceLevel.TRANSACTIONS)
def _transaction(stage: Stage) -> None:
    """The first offset of an open transaction is shown, and is gone with the marker."""
    name = stage.create()
    stage.produce(name, batch())
    producer = OwnTransaction(stage, name)
    producer.begin()
    stage.ask(_ask((name, [0])))
    producer.write()
    producer.write()
    stage.ask(_ask((name, [0])))
    producer.end(committed=True)
    stage.ask(_ask((name, [0])))
    producer.write()
    stage.ask(_ask((name, [0])))
    producer.end(committed=False)
    stage.ask(_ask((name, [0])))
