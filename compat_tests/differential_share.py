"""Random histories ("lives") of share groups, played step by step on two brokers at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compat_tests.consumer_members import kafka_id
from compat_tests.lives import Action, Life, Pair
from wirekafka.codec.message import Request
from wirekafka.protocol.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.offset_delete import OffsetDeleteRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest

_TOO_LONG = "m" * 37


@dataclass
class ShareMember:
    """A member's state."""

    member_id: str
    epoch: int = 0


class ShareLife(Life):
    """The random history of one share group; the same for the same seed."""

    def __init__(self, seed: int, group_id: str, topics: Mapping[str, int], pair: Pair):
        super().__init__(seed, group_id, topics, pair)
        self.most = self.random.choice((1, 2, 3, 6))

    def actions(self) -> list[Action]:
        present = self.present()
        actions: list[Action] = [
            (6 if len(self.members) < self.most else 1, self.join),
            (1, self.send_invalid_request),
            (1, self.ask_as_another_kind),
            (2, self.look),
            (1 if present else 3, self.alter_offsets),
            (1 if present else 3, self.delete_offsets),
            (1, self.delete_group),
        ]
        if present:
            actions += [
                (6, self.beat_quietly),
                (2, self.subscribe),
                (2, self.beat_out_of_turn),
                (2, self.leave),
                (1, self.rejoin),
            ]
        return actions

    def beat_all(self) -> None:
        for member in self.present():
            self._beat(member, member.epoch)

    # Heartbeats

    def join(self) -> None:
        member = ShareMember(kafka_id(self.random))
        rack_id = self.random.choice((None, None, "rack-1"))
        if self._beat(member, 0, rack_id=rack_id, subscribed_topic_names=self._some_topics()):
            self.members.append(member)

    def rejoin(self) -> None:
        self._beat(self.somebody(), 0, subscribed_topic_names=self._some_topics())

    def beat_quietly(self) -> None:
        member = self.somebody()
        self._beat(member, member.epoch)

    def beat_out_of_turn(self) -> None:
        member = self.somebody()
        epoch = member.epoch + self.random.choice((-1, -2, 1, 5))
        if epoch > 0:
            self._beat(member, epoch)

    def subscribe(self) -> None:
        member = self.somebody()
        topics = self.random.choice((self._some_topics(), self._some_topics(), []))
        rack_id = self.random.choice((None, None, "rack-2"))
        self._beat(member, member.epoch, rack_id=rack_id, subscribed_topic_names=topics)

    def leave(self) -> None:
        member = self.somebody()
        if self._beat(member, -1):
            self.members.remove(member)

    def send_invalid_request(self) -> None:
        somebody = self.random.choice(self.present() or [ShareMember(kafka_id(self.random), 3)])
        stranger = ShareMember(kafka_id(self.random))
        member, epoch, fields = self.random.choice(
            (
                (stranger, 2, {}),
                (stranger, -1, {}),
                (stranger, -2, {}),
                (stranger, 0, {}),
                (stranger, 0, {"subscribed_topic_names": []}),
                (ShareMember(""), 0, {"subscribed_topic_names": ["x"]}),
                (ShareMember(" "), 1, {}),
                (ShareMember(_TOO_LONG), 0, {"subscribed_topic_names": ["x"]}),
                (somebody, somebody.epoch, {"rack_id": ""}),
                (somebody, 1, {"group_id": " "}),
            )
        )
        self.pair.ask(self._heartbeat(member, epoch, **fields), 1)

    # The group and its offsets

    def look(self) -> None:
        """Describe the group and its offsets, in several ways."""
        self.pair.ask(ShareGroupDescribeRequest(group_ids=[self.group_id, ""]), 1)
        kind = DescribeShareGroupOffsetsRequest.Group
        topics = self.random.choice(
            (
                None,
                None,
                [],
                [
                    # Kafka responds only after many retries about partitions that do not exist.
                    kind.Topic(
                        topic_name=name,
                        partitions=[0, 2, 1] if self.partitions.get(name, 0) > 1 else [0],
                    )
                    for name in [*self._some_topics(), "nothing"]
                ],
            )
        )
        self.pair.ask(
            DescribeShareGroupOffsetsRequest(groups=[kind(group_id=self.group_id, topics=topics)]),
            self.random.choice((0, 1)),
        )

    def alter_offsets(self) -> None:
        kind = AlterShareGroupOffsetsRequest.Topic
        topics = [
            kind(
                topic_name=name,
                partitions=[
                    kind.Partition(
                        partition_index=index, start_offset=self.random.choice((0, 7, 100))
                    )
                    for index in self.random.sample(range(4), self.random.choice((1, 2)))
                ],
            )
            for name in [*self._some_topics(), *self.random.choice(([], [], ["nothing"]))]
        ]
        self.pair.ask(AlterShareGroupOffsetsRequest(group_id=self.group_id, topics=topics), 0)

    def delete_offsets(self) -> None:
        kind = DeleteShareGroupOffsetsRequest.Topic
        names = [*self._some_topics(), *self.random.choice(([], ["nothing"]))]
        self.pair.ask(
            DeleteShareGroupOffsetsRequest(
                group_id=self.group_id, topics=[kind(topic_name=name) for name in names]
            ),
            0,
        )

    def delete_group(self) -> None:
        if not self.silent:
            self.pair.ask(DeleteGroupsRequest(groups_names=[self.group_id]), 2)

    def ask_as_another_kind(self) -> None:
        """Send requests that only consumer groups and classic groups support."""
        topic = self.topics[0]
        commit, fetch = OffsetCommitRequest.Topic, OffsetFetchRequest.Group
        delete = OffsetDeleteRequest.Topic
        requests: tuple[tuple[Request, int], ...] = (
            (ConsumerGroupDescribeRequest(group_ids=[self.group_id]), 1),
            (DescribeGroupsRequest(groups=[self.group_id]), self.random.choice((5, 6))),
            (
                ConsumerGroupHeartbeatRequest(
                    group_id=self.group_id, member_id="consumer", member_epoch=1
                ),
                1,
            ),
            (HeartbeatRequest(group_id=self.group_id, generation_id=1, member_id="m"), 4),
            (
                OffsetFetchRequest(
                    groups=[
                        fetch(
                            group_id=self.group_id,
                            topics=[fetch.Topics(name=topic, partition_indexes=[0])],
                        )
                    ]
                ),
                9,
            ),
        )
        if self.members:
            requests += (
                (
                    OffsetCommitRequest(
                        group_id=self.group_id,
                        generation_id_or_member_epoch=1,
                        member_id="m",
                        topics=[
                            commit(name=topic, partitions=[commit.Partition(partition_index=0)])
                        ],
                    ),
                    self.random.choice((8, 9)),
                ),
                (
                    OffsetDeleteRequest(
                        group_id=self.group_id,
                        topics=[delete(name=topic, partitions=[delete.Partition()])],
                    ),
                    0,
                ),
            )
        self.pair.ask(*self.random.choice(requests))

    # Helpers

    def _some_topics(self) -> list[str]:
        count = self.random.choice((1, 1, 2, len(self.topics), len(self.topics)))
        return self.random.sample(self.topics, min(count, len(self.topics)))

    def _heartbeat(self, member: ShareMember, epoch: int, **fields: Any) -> Request:
        return ShareGroupHeartbeatRequest(
            **({"group_id": self.group_id} | fields), member_id=member.member_id, member_epoch=epoch
        )

    def _beat(self, member: ShareMember, epoch: int, **fields: Any) -> bool:
        response = self.pair.ask(self._heartbeat(member, epoch, **fields), 1)
        if not response.error_code and response.member_epoch >= 0:
            member.epoch = response.member_epoch
        return not response.error_code
