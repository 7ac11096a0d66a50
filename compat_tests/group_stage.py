"""Groups of every kind with the same members, offsets and topics, on one broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from compat_tests import consumer_members, streams_members
from compat_tests.classic_requests import beat, join, sync
from compat_tests.stage import Stage, batch
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.codec.message import Request
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.records.groups_and_transactions import ConsumerProtocolSubscription
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest

_BEAT_S = 4
_LEAVE = -1


class GroupStage:
    """Topics `tools-a` (10, 5 and 0 records) and `tools-b` (4), and groups that use them.

    `tools-simple` has offsets only, `tools-classic`, `tools-consumer`, `tools-share` and
    `tools-streams` have a member each, and their counterparts with `-empty` had one.
    """

    topics = ("tools-a", "tools-b")

    def __init__(self, bootstrap: str):
        self.bootstrap = bootstrap
        host, _, port = bootstrap.rpartition(":")
        address = host, int(port)
        self.stage = Stage(Wire(address), "tools", address=address)
        self.wire = Wire(address, client_id="member")
        self._beats: list[Callable[[], Any]] = []
        self._beaten_s = 0.0
        eventually(self.stage.has_coordinators, timeout_s=60)
        self.stage.create("tools-a", 3)
        self.stage.create("tools-b", 1)
        for name, count, partition in (("tools-a", 10, 0), ("tools-a", 5, 1), ("tools-b", 4, 0)):
            answer = self.stage.produce(name, batch(count), partition=partition)
            assert answer.responses[0].partition_responses[0].error_code == 0
        self._commit("tools-simple", "", _LEAVE)
        self._classic_member()
        for group in ("tools-consumer", "tools-consumer-empty"):
            self._consumer_member(group)
        for group in ("tools-share", "tools-share-empty"):
            self._share_member(group)
        for group in ("tools-streams", "tools-streams-empty"):
            self._streams_member(group)

    def beat(self) -> None:
        """Keep the members' sessions; called between steps."""
        if time.monotonic() > self._beaten_s + _BEAT_S:
            for each in self._beats:
                assert not each().error_code
            self._beaten_s = time.monotonic()

    def _ask(self, request: Request, version: int) -> Any:
        answer = self.wire.ask(request, version)
        assert not getattr(answer, "error_code", 0), answer
        return answer

    def _commit(self, group: str, member_id: str, epoch: int) -> None:
        topic = OffsetCommitRequest.Topic
        offsets = {"tools-a": {0: 3, 1: 5}, "tools-b": {0: 1}}
        self._ask(
            OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=epoch,
                member_id=member_id,
                topics=[
                    topic(
                        name=name,
                        partitions=[
                            topic.Partition(partition_index=index, committed_offset=offset)
                            for index, offset in each.items()
                        ],
                    )
                    for name, each in offsets.items()
                ],
            ),
            9,
        )

    def _classic_member(self) -> None:
        group = "tools-classic"
        subscription = b"\0\0" + bytes(
            ConsumerProtocolSubscription(topics=[*self.topics]).encode(0)
        )
        options: dict[str, Any] = {"metadata": subscription, "session_ms": 60_000}
        member = self.wire.ask(join(group, **options), 9).member_id
        joined = self._ask(join(group, member, **options), 9)
        assigned = bytes.fromhex("0000 00000001 0007") + b"tools-b"
        assigned += bytes.fromhex("00000001 00000000 ffffffff")
        self._ask(sync(group, joined.generation_id, member, (member, assigned)), 5)
        self._commit(group, member, joined.generation_id)
        self._beats.append(lambda: self.wire.ask(beat(group, joined.generation_id, member), 4))

    def _consumer_member(self, group: str) -> None:
        requests = consumer_members.Requests(group, self.stage.ids)
        member = consumer_members.Member("3sl0JrMeSHqyWDTmTVpFJA", topics=[*self.topics])
        member.take(self._ask(requests.join(member, 1), 1))
        member.take(self._ask(requests.beat(member, owned=member.given), 1))
        self._commit(group, member.member_id, member.epoch)
        if group.endswith("empty"):
            self._ask(requests.beat(member, epoch=_LEAVE), 1)
            return
        self._beats.append(lambda: self.wire.ask(requests.beat(member), 1))

    def _share_member(self, group: str) -> None:
        def heartbeat(epoch: int, topics: list[str] | None = None) -> Request:
            return ShareGroupHeartbeatRequest(
                group_id=group,
                member_id="Tf7VYcQzQyKDcnTzrHyTdg",
                member_epoch=epoch,
                subscribed_topic_names=topics,
            )

        epoch = self._ask(heartbeat(0, [*self.topics]), 1).member_epoch

        def settled() -> bool:
            nonlocal epoch
            answer = self._ask(heartbeat(epoch), 1)
            epoch = answer.member_epoch
            assigned = answer.assignment.topic_partitions if answer.assignment else ()
            return sum(len(each.partitions) for each in assigned) == 4

        # A share partition is assigned once its state is initialized.
        eventually(settled, timeout_s=30)
        if group.endswith("empty"):
            self._ask(heartbeat(_LEAVE), 1)
            return
        self._beats.append(lambda: self.wire.ask(heartbeat(epoch), 1))

    def _streams_member(self, group: str) -> None:
        requests = streams_members.Requests(group, self.stage.ids)
        member = streams_members.Member(
            "pfDacn5SL40UmxbEoH_rmg",
            "process",
            StreamsGroupHeartbeatRequest.Topology(
                epoch=0,
                subtopologies=[
                    StreamsGroupTopologyValue.Subtopology(
                        # Of one topic: the tool waits 30 s for partitions that others lack.
                        subtopology_id="0",
                        source_topics=["tools-a"],
                    )
                ],
            ),
            rack="rack",
            endpoint=("host", 8080),
            tags={"zone": "z"},
        )

        def settled() -> bool:
            member.take(self._ask(requests.join(member), 1))
            return bool(member.given[0])

        eventually(settled, timeout_s=30)
        member.take(self._ask(requests.beat(member, owned=member.given), 1))
        self._commit(group, member.member_id, member.epoch)
        if group.endswith("empty"):
            self._ask(requests.beat(member, epoch=_LEAVE), 1)
            return
        self._beats.append(lambda: self.wire.ask(requests.beat(member), 1))
