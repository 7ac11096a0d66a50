"""OffsetForLeaderEpoch: where the records of a leader's epoch end."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.records.logs import emptied, settled, timed, trim, trimmed
from wirekafka.conformance.stage import Stage, batch
from wirekafka.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest

BOOK = Book(OffsetForLeaderEpochRequest, "offsets", ConformanceLevel.CORE, "KIP-320")

_Topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic


def _part(epoch: int, current: int = -1, partition: int = 0) -> _Topic.OffsetForLeaderPartition:
    return _Topic.OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current, leader_epoch=epoch
    )


def _end(
    name: str, epoch: int, current: int = -1, partition: int = 0, replica: int = -1
) -> OffsetForLeaderEpochRequest:
    return _ends([(name, [_part(epoch, current, partition)])], replica)


def _ends(
    asked: list[tuple[str, list[_Topic.OffsetForLeaderPartition]]], replica: int = -1
) -> OffsetForLeaderEpochRequest:
    topics = [_Topic(topic=name, partitions=parts) for name, parts in asked]
    return OffsetForLeaderEpochRequest(replica_id=replica, topics=topics)


_CASES: dict[str, Make] = {
    "epoch 0": lambda s: _end(timed(s), 0),
    "a later epoch": lambda s: _end(timed(s), 5),
    "no epoch": lambda s: _end(timed(s), -1),
    "an epoch below minus 1": lambda s: _end(timed(s), -2),
    "the largest epoch": lambda s: _end(timed(s), 2**31 - 1),
    "epoch 0 in the leader's epoch": lambda s: _end(timed(s), 0, 0),
    "a later epoch in the leader's epoch": lambda s: _end(timed(s), 5, 0),
    "in a later epoch than the leader's": lambda s: _end(timed(s), 0, 5),
    "in an epoch of the leader below minus 1": lambda s: _end(timed(s), 0, -2),
    "a missing topic": lambda s: _end(s.missing, 0),
    "a missing partition": lambda s: _end(timed(s), 0, partition=9),
    "a missing partition in a later epoch": lambda s: _end(timed(s), 0, 5, partition=9),
    "a negative partition": lambda s: _end(timed(s), 0, partition=-1),
    "an empty partition": lambda s: _end(timed(s), 0, partition=1),
    "a later epoch in an empty partition": lambda s: _end(timed(s), 1, partition=1),
    "deleted records": lambda s: _end(trimmed(s), 0),
    "an emptied log": lambda s: _end(emptied(s), 0),
    "transactions": lambda s: _end(settled(s), 0),
    "a compacted topic": lambda s: _end(s.compacted, 0),
    "the metadata log": lambda s: _end("__cluster_metadata", 0),
    "two partitions": lambda s: _ends([(timed(s), [_part(0), _part(0, partition=1)])]),
    "a missing partition beside another": lambda s: _ends(
        [(timed(s), [_part(0), _part(0, partition=7)])]
    ),
    "a missing topic beside another": lambda s: _ends(
        [(timed(s), [_part(0)]), (s.missing, [_part(0)])]
    ),
    "a partition twice": lambda s: _ends([(timed(s), [_part(0), _part(5)])]),
    "a topic twice": lambda s: _ends([(timed(s), [_part(0)]), (timed(s), [_part(0, partition=1)])]),
    "no topics": lambda s: _ends([]),
    "a topic without partitions": lambda s: _ends([(timed(s), [])]),
}
for _title, _make in _CASES.items():
    BOOK.ask(_title, _make)

BOOK.ask("for an unknown follower", lambda s: _end(timed(s), 0, replica=12345), versions="3+")
BOOK.ask("for a debugging client", lambda s: _end(timed(s), 0, replica=-2), versions="3+")


@BOOK.play("as records are appended and deleted", versions="2,4")
def _moves(stage: Stage) -> None:
    """The end of the leader's epoch is the end of the log."""
    name = stage.create()
    stage.ask(_end(name, 0))
    stage.produce(name, batch())
    stage.ask(_end(name, 0))
    trim(stage, name, 2)
    stage.ask(_end(name, 0))
    trim(stage, name, -1)
    stage.ask(_end(name, 0))
    stage.produce(name, batch())
    stage.ask(_end(name, 0))
