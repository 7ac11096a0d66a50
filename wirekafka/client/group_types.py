"""The types of groups, and the requests by which each is described and its offsets are changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from wirekafka.client.client import Client, CliError, check, only
from wirekafka.client.membership import (
    TopicPartition,
    commit_offsets,
    decode_assignment,
    fetch_offsets,
)
from wirekafka.errors import Error
from wirekafka.protocol.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from wirekafka.protocol.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from wirekafka.protocol.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from wirekafka.protocol.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from wirekafka.protocol.list_groups import ListGroupsRequest, ListGroupsResponse
from wirekafka.protocol.records.subscription import CONSUMER_PROTOCOL
from wirekafka.protocol.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from wirekafka.protocol.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

CLASSIC = "classic"


@dataclass(frozen=True, slots=True)
class ReportedMember:
    """A member of a group and the partitions that it owns; classic members report no epoch.

    `tasks` has the names of a streams member's tasks, such as "0_2", by their role.
    """

    member_id: str
    client_id: str
    host: str
    epoch: int | None
    partitions: Sequence[TopicPartition]
    tasks: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReportedGroup:
    """A group as its describe request reports it; classic groups report no epoch.

    `topology` has the topics of each subtopology of a streams group, by the part they play.
    """

    name: str
    type: str
    state: str
    assignor: str
    epoch: int | None
    members: Sequence[ReportedMember]
    topology: Mapping[str, Mapping[str, Sequence[str]]] | None = None


class Offset(NamedTuple):
    """The offset at which a group continues, and its lag; None is to be computed, -1 unknown."""

    offset: int
    lag: int | None = None


class GroupType(NamedTuple):
    """A row of the table: how a group is described, and how offsets are read and changed.

    `offsets` returns the offset of each partition that has one. `reset` returns an error code.
    """

    describe: Callable[[Client, str], ReportedGroup]
    offsets: Callable[[Client, str], Mapping[TopicPartition, Offset]]
    reset: Callable[[Client, str, dict[TopicPartition, int]], int]


def type_of(client: Client, name: str) -> GroupType:
    """Return the row of a group's type; the row of classic groups if there is no such group."""
    response = client.coordinator(name).send(ListGroupsRequest(), ListGroupsResponse)
    check(response.error_code, f"group {name}")
    found = next((each for each in response.groups if each.group_id == name), None)
    # Brokers before 3.8 do not report a type: all their groups are classic.
    kind = found.group_type if found is not None and found.group_type else CLASSIC
    row = TYPES.get(kind.lower())
    if row is None:
        raise CliError(f"group {name} is of type {kind}, which is not supported")
    return row


def _classic(client: Client, name: str) -> ReportedGroup:
    response = client.coordinator(name).send(
        DescribeGroupsRequest(groups=[name]), DescribeGroupsResponse
    )
    group = only(response.groups, f"group {name}")
    if group.error_code == Error.GROUP_ID_NOT_FOUND or group.group_state == "Dead":
        raise CliError(f"no group {name}")
    check(group.error_code, f"group {name}", group.error_message)
    is_consumers = group.protocol_type == CONSUMER_PROTOCOL
    return ReportedGroup(
        name,
        CLASSIC,
        group.group_state,
        group.protocol_data,
        None,
        [
            ReportedMember(
                member.member_id,
                member.client_id,
                member.client_host,
                None,
                decode_assignment(member.member_assignment) if is_consumers else (),
            )
            for member in group.members
        ],
    )


def _consumer(client: Client, name: str) -> ReportedGroup:
    response = client.coordinator(name).send(
        ConsumerGroupDescribeRequest(group_ids=[name]), ConsumerGroupDescribeResponse
    )
    group = only(response.groups, f"group {name}")
    check(group.error_code, f"group {name}", group.error_message)
    return ReportedGroup(
        name, "consumer", group.group_state, group.assignor_name, group.group_epoch, _members(group)
    )


def _members(group: Any) -> list[ReportedMember]:
    return [
        ReportedMember(
            member.member_id,
            member.client_id,
            member.client_host,
            member.member_epoch,
            _assigned(member.assignment),
        )
        for member in group.members
    ]


def _assigned(assignment: Any) -> list[TopicPartition]:
    return [
        (topic.topic_name, index)
        for topic in assignment.topic_partitions
        for index in topic.partitions
    ]


def _share(client: Client, name: str) -> ReportedGroup:
    response = client.coordinator(name).send(
        ShareGroupDescribeRequest(group_ids=[name]), ShareGroupDescribeResponse
    )
    group = only(response.groups, f"group {name}")
    _check_described(group, name)
    return ReportedGroup(
        name, "share", group.group_state, group.assignor_name, group.group_epoch, _members(group)
    )


def _streams(client: Client, name: str) -> ReportedGroup:
    response = client.coordinator(name).send(
        StreamsGroupDescribeRequest(group_ids=[name]), StreamsGroupDescribeResponse
    )
    group = only(response.groups, f"group {name}")
    _check_described(group, name)
    subtopologies = (group.topology.subtopologies if group.topology is not None else None) or ()
    topology = {
        each.subtopology_id: {
            "sources": each.source_topics,
            "repartition": [topic.name for topic in each.repartition_source_topics],
            "changelogs": [topic.name for topic in each.state_changelog_topics],
        }
        for each in subtopologies
    }
    counts = {
        topic: len(client.topic(topic).partitions)
        for each in topology.values()
        for topic in (*each["sources"], *each["repartition"])
        if group.members
    }
    return ReportedGroup(
        name,
        "streams",
        group.group_state,
        group.assignor_name or "",
        group.group_epoch,
        [_streams_member(member, topology, counts) for member in group.members],
        topology,
    )


def _streams_member(
    member: Any, topology: Mapping[str, Mapping[str, Sequence[str]]], counts: Mapping[str, int]
) -> ReportedMember:
    assignment = member.assignment
    # A task reads its partition of every source topic that has so many.
    partitions = [
        (topic, index)
        for tasks in assignment.active_tasks
        for topic in (
            *topology[tasks.subtopology_id]["sources"],
            *topology[tasks.subtopology_id]["repartition"],
        )
        for index in tasks.partitions
        if index < counts[topic]
    ]
    roles = {
        "active": assignment.active_tasks,
        "standby": assignment.standby_tasks,
        "warmup": assignment.warmup_tasks,
    }
    return ReportedMember(
        member.member_id,
        member.client_id,
        member.client_host,
        member.member_epoch,
        partitions,
        {
            role: [f"{each.subtopology_id}_{index}" for each in tasks for index in each.partitions]
            for role, tasks in roles.items()
        },
    )


def _check_described(group: Any, name: str) -> None:
    if group.error_code == Error.GROUP_ID_NOT_FOUND:
        raise CliError(f"no group {name}")
    check(group.error_code, f"group {name}", group.error_message)


def _committed(client: Client, name: str) -> Mapping[TopicPartition, Offset]:
    return {each: Offset(at) for each, at in fetch_offsets(client, name, None).items()}


def _share_offsets(client: Client, name: str) -> Mapping[TopicPartition, Offset]:
    """The start offsets of a share group, with the lag that the broker reports."""
    kind = DescribeShareGroupOffsetsRequest.Group
    response = client.coordinator(name).send(
        DescribeShareGroupOffsetsRequest(groups=[kind(group_id=name, topics=None)]),
        DescribeShareGroupOffsetsResponse,
    )
    group = only(response.groups, f"group {name}")
    check(group.error_code, f"group {name}", group.error_message)
    return {
        (topic.topic_name, each.partition_index): Offset(each.start_offset, each.lag)
        for topic in group.topics
        for each in topic.partitions
        if each.start_offset >= 0
    }


def _alter_share_offsets(client: Client, name: str, offsets: dict[TopicPartition, int]) -> int:
    kind = AlterShareGroupOffsetsRequest.Topic
    topics: dict[str, list[AlterShareGroupOffsetsRequest.Topic.Partition]] = {}
    for (topic, index), offset in offsets.items():
        topics.setdefault(topic, []).append(
            kind.Partition(partition_index=index, start_offset=offset)
        )
    response = client.coordinator(name).send(
        AlterShareGroupOffsetsRequest(
            group_id=name,
            topics=[kind(topic_name=topic, partitions=each) for topic, each in topics.items()],
        ),
        AlterShareGroupOffsetsResponse,
    )
    codes = [each.error_code for topic in response.responses for each in topic.partitions]
    return next((code for code in (response.error_code, *codes) if code), 0)


TYPES: Mapping[str, GroupType] = MappingProxyType(
    {
        CLASSIC: GroupType(_classic, _committed, commit_offsets),
        "consumer": GroupType(_consumer, _committed, commit_offsets),
        "share": GroupType(_share, _share_offsets, _alter_share_offsets),
        "streams": GroupType(_streams, _committed, commit_offsets),
    }
)
"""The types of groups, by the names that ListGroups reports."""
