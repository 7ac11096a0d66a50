"""wirekafka and Apache Kafka take turns on the same streams groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compat_tests.streams_members import NOTHING, Member, Requests
from compat_tests.turns import Turn, Turns
from compat_tests.wire import comparable
from tests.eventually import eventually
from wirekafka.protocol.create_partitions import CreatePartitionsRequest
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue, TopicInfo
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest

_SETTINGS = (
    "offsets.topic.num.partitions=1",
    "group.streams.assignment.interval.ms=0",
    "group.streams.initial.rebalance.delay.ms=0",
    "group.streams.num.standby.replicas=1",
)
_LIVE, _EMPTY, _UNREADY = "live", "empty", "unready"
_SOURCES = {"orders": 3, "prices": 1}
_THROUGH, _CHANGELOG = "live-through-repartition", "live-counts-changelog"


def _topology(epoch: int) -> StreamsGroupHeartbeatRequest.Topology:
    """Two subtopologies joined by a repartition topic; the second one has state."""
    part, config = StreamsGroupTopologyValue.Subtopology, TopicInfo.TopicConfig
    compacted = [config(key="cleanup.policy", value="compact")]
    changelog = TopicInfo(name=_CHANGELOG, topic_configs=compacted)
    through = TopicInfo(name=_THROUGH, partitions=2)
    return StreamsGroupHeartbeatRequest.Topology(
        epoch=epoch,
        subtopologies=[
            part(
                subtopology_id="0", source_topics=["orders"], repartition_sink_topics=[through.name]
            ),
            part(
                subtopology_id="1",
                source_topics=["prices"],
                repartition_source_topics=[through],
                state_changelog_topics=[changelog],
            ),
        ],
    )


def _unready_topology() -> StreamsGroupHeartbeatRequest.Topology:
    part = StreamsGroupTopologyValue.Subtopology
    return StreamsGroupHeartbeatRequest.Topology(
        subtopologies=[part(subtopology_id="0", source_topics=["missing"])]
    )


def _tasks(orders: int) -> list[tuple[str, int]]:
    """The tasks of the topology: one for each partition of `orders` and of the repartition."""
    return [("0", index) for index in range(orders)] + [("1", 0), ("1", 1)]


class Application:
    """The members of one group, which outlive the brokers they speak to."""

    def __init__(self, group_id: str, topology: StreamsGroupHeartbeatRequest.Topology):
        self.topology = topology
        self.requests = Requests(group_id, {})
        self.members: dict[str, Member] = {}

    def member(self, name: str, **fields: Any) -> Member:
        """A new member, in a process of its own."""
        self.members[name] = Member(name, f"process of {name}", self.topology, **fields)
        return self.members[name]

    @property
    def present(self) -> list[Member]:
        return [member for member in self.members.values() if not member.is_away]

    def active_tasks(self) -> list[tuple[str, int]]:
        """The active tasks of the members that are present, each as often as it was assigned."""
        return sorted(
            (subtopology, partition)
            for member in self.present
            for subtopology, partitions in member.given[0].items()
            for partition in partitions
        )


class StreamsTurn(Turn):
    """The broker that is running."""

    def __init__(self, bootstrap: str):
        super().__init__(bootstrap)
        self.await_coordinator(StreamsGroupDescribeRequest(group_ids=["none"]), 1)

    def state(self) -> list[Any]:
        """All that clients can see of the groups, the sizes of internal topics aside.

        A coordinator knows those only once it has configured the topology, which it does at a
        heartbeat; they are compared as topics.
        """
        group_ids = [_LIVE, _EMPTY, _UNREADY]
        described = self.ask(StreamsGroupDescribeRequest(group_ids=group_ids), 1)
        for group in described.groups:
            for subtopology in group.topology.subtopologies if group.topology else ():
                for topic in (
                    *subtopology.state_changelog_topics,
                    *subtopology.repartition_source_topics,
                ):
                    topic.partitions = 0
        kind = OffsetFetchRequest.Group
        offsets = OffsetFetchRequest(groups=[kind(group_id=id, topics=None) for id in group_ids])
        listed = ListGroupsRequest(states_filter=[], types_filter=["streams"])
        topics = self.ask(MetadataRequest(topics=None), 12).topics
        return [
            comparable(each, {}) for each in (described, self.ask(offsets, 9), self.ask(listed, 5))
        ] + [{topic.name: (topic.topic_id, len(topic.partitions)) for topic in topics}]

    def grow_topic(self, name: str, count: int) -> None:
        kind = CreatePartitionsRequest.Topic
        request = CreatePartitionsRequest(
            topics=[kind(name=name, count=count, assignments=None)], timeout_ms=9000
        )
        assert not self.ask(request, 3).results[0].error_code

    def join(self, application: Application, name: str, **fields: Any) -> None:
        member = application.member(name, **fields)
        self._take(member, application.requests.join(member))

    def settle(self, application: Application) -> None:
        """Send the members' heartbeats until everyone present has the tasks of the group's epoch.

        Tasks of a static member that is away stay with it, so the group need not be stable.
        """
        group_id = application.requests.group_id

        def has_settled() -> bool:
            for member in application.present:
                member.owned = member.given
                self._take(member, application.requests.beat(member, owned=member.owned))
            [group] = self.ask(StreamsGroupDescribeRequest(group_ids=[group_id]), 1).groups
            return group.assignment_epoch == group.group_epoch and all(
                member.epoch == group.group_epoch and member.owned == member.given
                for member in application.present
            )

        eventually(has_settled, timeout_s=30)

    def leave(self, application: Application, name: str) -> None:
        member = application.members.pop(name)
        self._take(member, application.requests.beat(member, epoch=-1))

    def step_out(self, application: Application, name: str) -> None:
        """Let a static member leave for a while."""
        member = application.members[name]
        self._take(member, application.requests.beat(member, epoch=-2))
        member.is_away = True

    def return_as(self, application: Application, name: str, new_name: str) -> None:
        """Let a static member come back under another member id."""
        member = application.members[new_name] = application.members.pop(name)
        member.member_id, member.is_away, member.owned = new_name, False, NOTHING
        self._take(member, application.requests.join(member))

    def commit(self, application: Application, name: str, topic: str) -> None:
        member = application.members[name]
        request = application.requests.commit(member, member.epoch, topic, 0)
        [committed] = self.ask(request, 9).topics
        assert not committed.partitions[0].error_code, committed

    def _take(self, member: Member, request: StreamsGroupHeartbeatRequest) -> None:
        response = self.ask(request, 1)
        assert not response.error_code, response
        member.take(response)


@pytest.mark.timeout(200)
def test_engines_alternate_on_streams_groups(tmp_path: Path) -> None:
    turns = Turns(tmp_path / "data", tmp_path, _SETTINGS, StreamsTurn)
    live = Application(_LIVE, _topology(epoch=2))
    empty = Application(_EMPTY, _topology(epoch=0))
    unready = Application(_UNREADY, _unready_topology())
    with turns.ours() as ours:
        ours.create_topics(_SOURCES)
        ours.join(live, "first", endpoint=("host-1", 8080), tags={"zone": "z"}, rack="rack-1")
        ours.join(live, "second", instance_id="instance-2")
        ours.settle(live)
        assert live.active_tasks() == _tasks(orders=3)
        ours.commit(live, "first", "orders")
        ours.join(empty, "gone")
        ours.settle(empty)
        ours.commit(empty, "gone", "prices")
        ours.leave(empty, "gone")
        ours.join(unready, "waiting")
        before = ours.state()
    with turns.kafka() as kafka:
        assert kafka.state() == before
        kafka.settle(live)
        assert kafka.state() == before, "members only confirm what they have"
        kafka.step_out(live, "second")
        kafka.join(live, "third")
        kafka.settle(live)
        kafka.commit(live, "third", "orders")
        kafka.join(empty, "new")
        kafka.settle(empty)
        before = kafka.state()
    with turns.ours() as ours:
        assert ours.state() == before
        ours.settle(live)
        ours.settle(empty)
        assert ours.state() == before, "members only confirm what they have"
        ours.return_as(live, "second", "second again")
        ours.grow_topic("orders", 4)
        ours.settle(live)
        ours.leave(live, "first")
        ours.settle(live)
        assert live.active_tasks() == _tasks(orders=4)
        before = ours.state()
    with turns.kafka() as kafka:
        assert kafka.state() == before
        kafka.settle(live)
        assert kafka.state() == before, "members only confirm what they have"
