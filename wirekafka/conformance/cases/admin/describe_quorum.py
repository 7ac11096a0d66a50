"""DescribeQuorum: the controllers, and who follows them."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.describe_quorum import DescribeQuorumRequest

BOOK = Book(DescribeQuorumRequest, "administration", ConformanceLevel.ADMIN, "KIP-595")

_METADATA = "__cluster_metadata"


def _quorum(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    topic = DescribeQuorumRequest.TopicData
    return DescribeQuorumRequest(
        topics=[
            topic(
                topic_name=name,
                partitions=[topic.PartitionData(partition_index=index) for index in indexes],
            )
            for name, indexes in topics
        ]
    )


_ASKED: dict[str, Any] = {
    "another topic": lambda s: _quorum((s.topic, [0])),
    "a missing topic": lambda s: _quorum((s.missing, [0])),
    "another partition": lambda s: _quorum((_METADATA, [1])),
    "a negative partition": lambda s: _quorum((_METADATA, [-1])),
    "two partitions": lambda s: _quorum((_METADATA, [0, 1])),
    "two topics": lambda s: _quorum((_METADATA, [0]), (s.topic, [0])),
    "no topics": lambda s: _quorum(),
    "no partitions": lambda s: _quorum((_METADATA, [])),
}
for _what, _make in _ASKED.items():
    BOOK.ask(_what, _make)


def _described(stage: Stage) -> Any:
    answer = stage.do(_quorum((_METADATA, [0])))
    stage.note("error", answer.error_code)
    return answer


@BOOK.play("the quorum")
def _quorum_of_controllers(stage: Stage) -> None:
    """The leader is among the voters, has all that is committed, and no one is ahead of it."""
    (topic,) = _described(stage).topics
    (found,) = topic.partitions
    voters = {each.replica_id: each for each in found.current_voters}
    stage.note("name", topic.topic_name)
    stage.note("partition", found.partition_index)
    stage.note("led by a voter", found.leader_id in voters)
    stage.note("an epoch", found.leader_epoch > 0)
    end = voters[found.leader_id].log_end_offset
    stage.note("committed", 0 < found.high_watermark <= end)
    followers = [*found.current_voters, *found.observers]
    stage.note("nobody is ahead", all(each.log_end_offset <= end for each in followers))
    ids = {each.replica_id for each in followers}
    stage.note("every broker", stage.target.nodes.keys() <= ids)


@BOOK.play("the times of a quorum", versions="1+", source="KIP-836")
def _times(stage: Stage) -> None:
    """The leader caught up now; the times of others are given as well."""
    (found,) = _described(stage).topics[0].partitions
    leader = next(each for each in found.current_voters if each.replica_id == found.leader_id)
    stage.note("fetched", leader.last_fetch_timestamp > 0)
    stage.note("caught up", leader.last_caught_up_timestamp > 0)


@BOOK.play("the controllers' listeners", versions="2+", source="KIP-853")
def _listeners(stage: Stage) -> None:
    """Each voter is a node with a name, host and port."""
    answer = _described(stage)
    (found,) = answer.topics[0].partitions
    nodes = {each.node_id: each.listeners for each in answer.nodes}
    stage.note("voters", {each.replica_id for each in found.current_voters} <= nodes.keys())
    shown = [each for listeners in nodes.values() for each in listeners]
    stage.note("listeners", all(each.name and each.host and each.port for each in shown))
