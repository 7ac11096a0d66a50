"""Members of consumer groups for comparisons: their state, and the requests they send."""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass, field
from typing import Any

from wirekafka.codec.message import Request
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest

Owned = dict[bytes, list[int]]
REBALANCE_TIMEOUT_MS = 300_000


@dataclass
class Member:
    """A member's state; `given` is its last assignment, `owned` what it reports as its own."""

    member_id: str
    instance_id: str | None = None
    topics: list[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    rack: str | None = None
    epoch: int = 0
    given: Owned = field(default_factory=dict)
    owned: Owned = field(default_factory=dict)
    is_away: bool = False
    """Whether it has left temporarily, as only a static member can."""

    def take(self, answer: Any) -> None:
        """Take the member epoch and the assignment from a heartbeat response."""
        if answer.error_code or answer.member_epoch < 0:
            return
        self.member_id = answer.member_id
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.given = {
                topic.topic_id: list(topic.partitions)
                for topic in answer.assignment.topic_partitions
            }


class OffsetRequests:
    """The requests about offsets of one group's members."""

    def __init__(self, group_id: str, topic_ids: dict[str, bytes]):
        self.group_id = group_id
        self.topic_ids = topic_ids

    def commit(self, member: Any, epoch: int, topic: str, partition: int) -> Request:
        kind = OffsetCommitRequest.Topic
        return OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=[
                kind(
                    name=topic,
                    topic_id=self.topic_ids.get(topic, bytes(16)),
                    partitions=[kind.Partition(partition_index=partition, committed_offset=7)],
                )
            ],
        )

    def fetch(self, member: Any, epoch: int, topic: str) -> Request:
        kind = OffsetFetchRequest.Group
        return OffsetFetchRequest(
            groups=[
                kind(
                    group_id=self.group_id,
                    member_id=member.member_id,
                    member_epoch=epoch,
                    topics=[
                        kind.Topics(
                            name=topic,
                            topic_id=self.topic_ids.get(topic, bytes(16)),
                            partition_indexes=[0, 1],
                        )
                    ],
                )
            ]
        )


class Requests(OffsetRequests):
    """The requests of one group's members."""

    def join(self, member: Member, version: int) -> Request:
        return self.beat(
            member,
            epoch=0,
            owned={},
            instance_id=member.instance_id,
            rack_id=member.rack,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=member.topics,
            subscribed_topic_regex=member.regex if version else None,
            server_assignor=member.assignor,
        )

    def beat(
        self, member: Member, epoch: int | None = None, owned: Owned | None = None, **fields: Any
    ) -> Request:
        topics = (
            None
            if owned is None
            else [
                ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic, partitions=partitions)
                for topic, partitions in owned.items()
            ]
        )
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member.member_id,
            member_epoch=member.epoch if epoch is None else epoch,
            topic_partitions=topics,
            **({"instance_id": member.instance_id} | fields),
        )

    def describe(self) -> Request:
        return ConsumerGroupDescribeRequest(group_ids=[self.group_id])

    def describe_as_classic(self) -> Request:
        return DescribeGroupsRequest(groups=[self.group_id])

    def list(self) -> Request:
        return ListGroupsRequest(states_filter=[], types_filter=["consumer"])


def kafka_id(source: random.Random) -> str:
    """A UUID as Kafka's clients write it."""
    return base64.urlsafe_b64encode(source.randbytes(16)).decode().rstrip("=")
