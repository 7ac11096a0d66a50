"""The groups of a broker under test: listed, described, and members removed from them.

Each type of group is a row of `TYPES`: the requests that describe a group and that remove a member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from wirekafka.codec.message import MalformedMessage
from wirekafka.coordinator.groups.consumer.protocol import parse_assignment
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.leave_group import LeaveGroupRequest
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.records.subscription import CONSUMER_PROTOCOL
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from wirekafka.testing.engine import Engine

Partitions = Mapping[str, tuple[int, ...]]
"""Partitions by topic, in ascending order; tasks by subtopology in a streams group."""
_LEAVING = -1
"""The member epoch of a member that leaves."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group; `host` as Kafka reports it, such as "/127.0.0.1".

    `epoch` is None for a member of a classic group, whose epoch is not reported. `target` has the
    partitions that the member is to own, `assignment` the partitions that it owns; in classic
    groups and share groups they are the same. In a streams group both are active tasks; `standby`
    and `warmup` are the member's other tasks.
    """

    id: str
    client_id: str
    host: str
    instance_id: str | None
    epoch: int | None = None
    assignment: Partitions = field(default_factory=dict, hash=False)
    target: Partitions = field(default_factory=dict, hash=False)
    standby: Partitions = field(default_factory=dict, hash=False)
    warmup: Partitions = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Group:
    """A group; `type` and `state` as Kafka names them: "classic", "share"; "Stable", "Empty".

    `protocol` is the assignor. `epoch` and `assignment_epoch`, for which the targets were computed,
    are None for a classic group. `topology` has the source topics of each subtopology of a streams
    group.
    """

    id: str
    state: str
    protocol: str
    members: tuple[Member, ...]
    type: str = "classic"
    epoch: int | None = None
    assignment_epoch: int | None = None
    topology: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


class GroupAccess(NamedTuple):
    """How groups of one type are described, by their ids, and how a member is removed."""

    describe: Callable[[Engine, list[str]], list[Group]]
    remove: Callable[[Engine, str, Member], None]


def groups(engine: Engine) -> list[Group]:
    """All groups, sorted by id. Raises KafkaError."""
    found: list[Group] = []
    for member in engine.members():
        listed: Any = member.ask(ListGroupsRequest(), 5)
        by_type: dict[str, list[str]] = {}
        for each in listed.groups:
            by_type.setdefault(each.group_type, []).append(each.group_id)
        for name, ids in by_type.items():
            found += TYPES[name].describe(member, ids)
    return sorted(found, key=lambda group: group.id)


def remove_members(engine: Engine, group_id: str, chosen: Callable[[Member], bool]) -> None:
    """Remove members from a group as when their sessions time out.

    Raises LookupError if none is chosen, KafkaError if a request fails.
    """
    known = groups(engine)
    group = next((each for each in known if each.id == group_id), None)
    members = [member for member in group.members if chosen(member)] if group is not None else []
    if group is None or not members:
        raise LookupError(f"group {group_id!r} has no such member; there are: {known}")
    coordinator = engine.coordinator("group", group_id)
    for member in members:
        TYPES[group.type].remove(coordinator, group_id, member)


def _classic(engine: Engine, group_ids: list[str]) -> list[Group]:
    described: Any = engine.ask(DescribeGroupsRequest(groups=group_ids), 5)
    return [
        Group(
            each.group_id,
            each.group_state,
            each.protocol_data,
            tuple(_classic_member(member, each.protocol_type) for member in each.members),
        )
        for each in described.groups
    ]


def _classic_member(member: Any, protocol_type: str) -> Member:
    assigned: Partitions = {}
    if protocol_type == CONSUMER_PROTOCOL:
        # Some clients have their own format there.
        with suppress(MalformedMessage):
            decoded = parse_assignment(bytes(member.member_assignment))
            assigned = _partitions(
                (each.topic, each.partitions) for each in decoded.assigned_partitions
            )
    return Member(
        member.member_id,
        member.client_id,
        member.client_host,
        member.group_instance_id,
        assignment=assigned,
        target=assigned,
    )


def _consumer(engine: Engine, group_ids: list[str]) -> list[Group]:
    described: Any = engine.ask(ConsumerGroupDescribeRequest(group_ids=group_ids), 1)
    return [
        Group(
            each.group_id,
            each.group_state,
            each.assignor_name,
            tuple(
                Member(
                    member.member_id,
                    member.client_id,
                    member.client_host,
                    member.instance_id,
                    member.member_epoch,
                    _assignment(member.assignment),
                    _assignment(member.target_assignment),
                )
                for member in each.members
            ),
            "consumer",
            each.group_epoch,
            each.assignment_epoch,
        )
        for each in described.groups
    ]


def _share(engine: Engine, group_ids: list[str]) -> list[Group]:
    described: Any = engine.ask(ShareGroupDescribeRequest(group_ids=group_ids), 1)
    return [
        Group(
            each.group_id,
            each.group_state,
            each.assignor_name,
            tuple(_share_member(member) for member in each.members),
            "share",
            each.group_epoch,
            each.assignment_epoch,
        )
        for each in described.groups
    ]


def _share_member(member: Any) -> Member:
    assigned = _assignment(member.assignment)
    return Member(
        member.member_id,
        member.client_id,
        member.client_host,
        None,
        member.member_epoch,
        assigned,
        assigned,
    )


def _streams(engine: Engine, group_ids: list[str]) -> list[Group]:
    described: Any = engine.ask(StreamsGroupDescribeRequest(group_ids=group_ids), 1)
    return [
        Group(
            each.group_id,
            each.group_state,
            each.assignor_name or "",
            tuple(_streams_member(member) for member in each.members),
            "streams",
            each.group_epoch,
            each.assignment_epoch,
            _topology(each.topology),
        )
        for each in described.groups
    ]


def _streams_member(member: Any) -> Member:
    return Member(
        member.member_id,
        member.client_id,
        member.client_host,
        member.instance_id,
        member.member_epoch,
        _tasks(member.assignment.active_tasks),
        _tasks(member.target_assignment.active_tasks),
        _tasks(member.assignment.standby_tasks),
        _tasks(member.assignment.warmup_tasks),
    )


def _tasks(tasks: Any) -> Partitions:
    return _partitions((each.subtopology_id, each.partitions) for each in tasks)


def _topology(topology: Any) -> Mapping[str, tuple[str, ...]]:
    subtopologies = (topology.subtopologies if topology is not None else None) or ()
    return {
        each.subtopology_id: (
            *each.source_topics,
            *(topic.name for topic in each.repartition_source_topics),
        )
        for each in subtopologies
    }


def _assignment(assignment: Any) -> Partitions:
    return _partitions(
        (topic.topic_name, topic.partitions) for topic in assignment.topic_partitions
    )


def _partitions(topics: Iterable[tuple[str, Iterable[int]]]) -> Partitions:
    return {name: tuple(sorted(partitions)) for name, partitions in sorted(topics)}


def _leave(engine: Engine, group_id: str, member: Member) -> None:
    """Remove a member of a classic or consumer group by LeaveGroup."""
    kind = LeaveGroupRequest.MemberIdentity
    response: Any = engine.ask(
        LeaveGroupRequest(group_id=group_id, members=[kind(member_id=member.id)]), 5
    )
    for code in (response.error_code, *(each.error_code for each in response.members)):
        if code:
            raise KafkaError(Error(code), f"{member.id} of {group_id}")


def _leave_share(engine: Engine, group_id: str, member: Member) -> None:
    _check_left(
        engine.ask(
            ShareGroupHeartbeatRequest(
                group_id=group_id, member_id=member.id, member_epoch=_LEAVING
            ),
            1,
        ),
        group_id,
        member,
    )


def _leave_streams(engine: Engine, group_id: str, member: Member) -> None:
    _check_left(
        engine.ask(
            StreamsGroupHeartbeatRequest(
                group_id=group_id,
                member_id=member.id,
                member_epoch=_LEAVING,
                instance_id=member.instance_id,
            ),
            1,
        ),
        group_id,
        member,
    )


def _check_left(response: Any, group_id: str, member: Member) -> None:
    if response.error_code:
        raise KafkaError(Error(response.error_code), f"{member.id} of {group_id}")


TYPES: Mapping[str, GroupAccess] = MappingProxyType(
    {
        "classic": GroupAccess(_classic, _leave),
        "consumer": GroupAccess(_consumer, _leave),
        "share": GroupAccess(_share, _leave_share),
        "streams": GroupAccess(_streams, _leave_streams),
    }
)
"""The types of groups, by the names that ListGroups reports."""
