"""DescribeLogDirs: where replicas are on a broker."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.admin.alter_partition_reassignments import others_than_home
from wirekafka.conformance.stage import Stage, batch
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

BOOK = Book(DescribeLogDirsRequest, "administration", ConformanceLevel.ADMIN, "KIP-113")


def log_dirs(*topics: tuple[str, list[int]]) -> DescribeLogDirsRequest:
    """A request of topics with partitions."""
    part = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(
        topics=[part(topic=name, partitions=partitions) for name, partitions in topics]
    )


def directory_of(stage: Stage, name: str) -> str:
    """The directory of the first partition of a topic that the home broker leads."""
    answer = stage.do(log_dirs((name, [0])), 4)
    return next(str(each.log_dir) for each in answer.results if each.topics)


def _keep_own(stage: Stage, answer: Any) -> None:
    """Leave out directories without replicas of the shared topics, and replicas of others."""
    if not isinstance(answer, DescribeLogDirsResponse):
        return
    own = (stage.topic, stage.compacted)
    for each in answer.results:
        each.topics = [topic for topic in each.topics if topic.name in own]
    answer.results = [each for each in answer.results if each.topics or each.error_code]


_ASKED: dict[str, Any] = {
    "a topic": lambda s: log_dirs((s.topic, [0, 1])),
    "a partition": lambda s: log_dirs((s.topic, [1])),
    "two topics": lambda s: log_dirs((s.topic, [0]), (s.compacted, [0])),
    "one partition twice": lambda s: log_dirs((s.topic, [0, 0])),
    "one topic twice": lambda s: log_dirs((s.topic, [0]), (s.topic, [1])),
    "a missing topic": lambda s: log_dirs((s.missing, [0])),
    "a missing partition": lambda s: log_dirs((s.topic, [9])),
    "a partition and a missing partition": lambda s: log_dirs((s.topic, [0, 9])),
    "no partitions": lambda s: log_dirs((s.topic, [])),
    "no topics": lambda s: log_dirs(),
    "all topics": lambda s: DescribeLogDirsRequest(topics=None),
    "a bad name": lambda s: log_dirs(("a b", [0])),
}
for _what, _make in _ASKED.items():

    @BOOK.play(_what)
    def _asked(stage: Stage, make: Any = _make) -> None:
        _keep_own(stage, stage.ask(make(stage)))


@BOOK.play("the size of a partition")
def _size(stage: Stage) -> None:
    """A partition is as large as its batches, has no lag and is not about to move."""
    name, records = stage.create(), batch()
    stage.produce(name, records)
    stage.produce(name, records)
    answer = stage.do(log_dirs((name, [0])))
    (found,) = [
        each for result in answer.results for topic in result.topics for each in topic.partitions
    ]
    stage.note("as large as the batches", found.partition_size == 2 * len(records))
    stage.note("lag", found.offset_lag)
    stage.note("to be moved", found.is_future_key)


@BOOK.play("the size of a disk", versions="4+", source="KIP-827")
def _disk(stage: Stage) -> None:
    """A directory has a total and a usable size."""
    answer = stage.do(log_dirs((stage.topic, [0])))
    (found,) = [each for each in answer.results if each.topics]
    stage.note("sizes", 0 < found.usable_bytes <= found.total_bytes)


@BOOK.play("a topic of another broker", needs={Need.THREE_BROKERS})
def _elsewhere(stage: Stage) -> None:
    """A broker without replicas of a topic does not describe it."""
    other = others_than_home(stage)[0]
    _keep_own(stage, stage.ask(log_dirs((stage.topic, [0, 1])), at=other))
