"""wirekafka and Apache Kafka take turns on the same share groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compat_tests.turns import Turn, Turns
from tests import share_state_topic
from tests.eventually import eventually
from wirekafka.protocol.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from wirekafka.protocol.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest

_SETTINGS = (
    "offsets.topic.num.partitions=1",
    *share_state_topic.lines().splitlines(),
    "group.share.assignment.interval.ms=0",
)
_PARTITIONS = 3
_LIVE, _EMPTY = "live group", "empty group"


class ShareTurn(Turn):
    """The broker that is running, with the members of one group."""

    def __init__(self, bootstrap: str):
        super().__init__(bootstrap)
        self.await_coordinator(ShareGroupDescribeRequest(group_ids=["none"]), 1)

    def state(self) -> list[Any]:
        """All that clients can see of both groups."""
        kind = DescribeShareGroupOffsetsRequest.Group
        groups = [kind(group_id=group_id, topics=None) for group_id in (_LIVE, _EMPTY)]
        return [
            self.ask(ShareGroupDescribeRequest(group_ids=[_LIVE, _EMPTY]), 1),
            self.ask(DescribeShareGroupOffsetsRequest(groups=groups), 1),
        ]

    def alter(self, **offsets: int) -> None:
        """Set the start offset of the first partition of topics in the empty group."""
        kind = AlterShareGroupOffsetsRequest.Topic
        topics = [
            kind(topic_name=name, partitions=[kind.Partition(start_offset=offset)])
            for name, offset in offsets.items()
        ]
        request = AlterShareGroupOffsetsRequest(group_id=_EMPTY, topics=topics)
        response = self.ask(request, 0)
        assert not any(each.error_code for topic in response.responses for each in topic.partitions)

    def join(self, member_id: str, *topics: str) -> None:
        """Join the live group; wait until all partitions of the topics are assigned."""
        epoch = self._beat(member_id, 0, list(topics)).member_epoch

        def is_assigned() -> bool:
            nonlocal epoch
            epoch = self._beat(member_id, epoch, None).member_epoch
            [group] = self.ask(ShareGroupDescribeRequest(group_ids=[_LIVE]), 1).groups
            assigned = {
                (topic.topic_name, index)
                for member in group.members
                for topic in member.assignment.topic_partitions
                for index in topic.partitions
            }
            return assigned >= {(name, index) for name in topics for index in range(_PARTITIONS)}

        eventually(is_assigned, timeout_s=20)

    def leave(self, member_id: str) -> None:
        assert self._beat(member_id, -1, None).error_code == 0

    def _beat(self, member_id: str, epoch: int, topics: list[str] | None) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id=_LIVE, member_id=member_id, member_epoch=epoch, subscribed_topic_names=topics
        )
        return self.ask(request, 1)


@pytest.mark.timeout(200)
def test_engines_alternate_on_share_groups(tmp_path: Path) -> None:
    turns = Turns(tmp_path / "data", tmp_path, _SETTINGS, ShareTurn)
    with turns.ours() as ours:
        ours.create_topics({"a": _PARTITIONS, "b": _PARTITIONS})
        ours.join("first", "a")
        ours.join("second", "a", "b")
        ours.alter(a=7)
        before = ours.state()
    with turns.kafka() as kafka:
        assert kafka.state() == before
        kafka.leave("first")
        kafka.create_topics({"c": _PARTITIONS})
        kafka.join("third", "c", "b")
        kafka.alter(b=3)
        before = kafka.state()
    with turns.ours() as ours:
        assert ours.state() == before
        ours.leave("second")
        ours.join("third", "c", "a")
        before = ours.state()
    with turns.ours() as ours:
        assert ours.state() == before
