"""A streams group in the crash tests: its members' heartbeats, and what a restart must find."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, Protocol

from tests.crash.observed import Observed
from wirekafka.coordinator.groups.streams.group import StreamsGroup
from wirekafka.coordinator.groups.streams.member import StreamsMember
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue, TopicInfo
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds

SETTINGS = {
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.max.session.timeout.ms": "2000000",
    "group.streams.session.timeout.ms": "1000000",
    "group.streams.num.standby.replicas": "1",
}
GROUP = "streamers"
CHANGELOG = "streamers-counts-changelog"
_SOURCE, _TASKS = "orders", 2
_VERSION = 1


class Node(Protocol):
    """A broker that responds at once."""

    broker: Any

    def ask(self, request: Any, version: int) -> Any: ...


class StreamsApplication:
    """Members of one group, each in a process of its own; they join, take over tasks and leave."""

    def __init__(self, observed: Observed, random: Random):
        self._observed = observed
        self._random = random
        self._joined = 0

    def step(self, node: Node) -> None:
        """Add or remove a member; the others confirm their assigned tasks."""
        members = self._observed.streams_members
        joins = len(members) < 2 or self._random.random() < 0.5
        member_id = f"process-{self._joined}" if joins else self._random.choice(sorted(members))
        self._joined += joins
        self._observed.streams.request(members | {member_id} if joins else members - {member_id})
        if joins:
            _send(node, _join(member_id))
        else:
            _send(node, StreamsGroupHeartbeatRequest(**_fields(member_id, -1)))
        self._observed.streams.confirm()
        for other in _group(node).members.copy().values():
            _send(node, _confirmation(other))


def examine(node: Node, observed: Observed) -> None:
    """The members are those that were confirmed; their next heartbeats share out all tasks."""
    group = _group(node)
    assert observed.streams.may_be(frozenset(group.members)), group.members
    assert group.topology is not None
    assert CHANGELOG in node.broker.image.topics
    if not group.members:
        return
    for _ in range(3):
        for member in group.members.copy().values():
            _send(node, _confirmation(member))
    assert group.state.value == "Stable", group.state
    members = group.members.values()
    active = [each for member in members for each in _partitions(member.assigned.active)]
    assert sorted(active) == list(range(_TASKS)), active
    standby = [each for member in members for each in _partitions(member.assigned.standby)]
    assert sorted(standby) == (list(range(_TASKS)) if len(members) > 1 else []), standby


def _group(node: Node) -> StreamsGroup:
    group = node.broker.groups.shard_for(GROUP).machine.groups[GROUP]
    assert isinstance(group, StreamsGroup)
    return group


def _join(member_id: str) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(
        **_fields(member_id, 0),
        rebalance_timeout_ms=1_000_000,
        process_id=member_id,
        client_tags=[],
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        topology=StreamsGroupHeartbeatRequest.Topology(
            subtopologies=[
                StreamsGroupTopologyValue.Subtopology(
                    subtopology_id="0",
                    source_topics=[_SOURCE],
                    state_changelog_topics=[TopicInfo(name=CHANGELOG)],
                )
            ]
        ),
    )


def _confirmation(member: StreamsMember) -> StreamsGroupHeartbeatRequest:
    """Report that the member runs the tasks assigned to it and nothing else."""
    assigned = member.assigned
    active, standby, warmup = (
        [TaskIds(subtopology_id=id, partitions=sorted(tasks)) for id, tasks in role.items()]
        for role in (assigned.active, assigned.standby, assigned.warmup)
    )
    return StreamsGroupHeartbeatRequest(
        **_fields(member.member_id, member.epoch),
        active_tasks=active,
        standby_tasks=standby,
        warmup_tasks=warmup,
    )


def _fields(member_id: str, epoch: int) -> dict[str, Any]:
    return {"group_id": GROUP, "member_id": member_id, "member_epoch": epoch}


def _send(node: Node, request: StreamsGroupHeartbeatRequest) -> None:
    response = node.ask(request, _VERSION)
    assert response.error_code == 0, response


def _partitions(tasks: dict[str, Iterable[int]]) -> list[int]:
    return [partition for partitions in tasks.values() for partition in partitions]
