"""Differential cases: valid and invalid requests to the group coordinator, and sequences."""

from collections.abc import Callable
from typing import Any

from compat_tests.differential_admin import Case, since
from compat_tests.stage import UNKNOWN_ID, Stage
from compat_tests.wire import comparable
from wirekafka.codec.message import Request
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.protocol.leave_group import LeaveGroupRequest
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.offset_delete import OffsetDeleteRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.protocol.sync_group import SyncGroupRequest

GROUP, TRANSACTION, SHARE = 0, 1, 2

# version 0 of the consumer protocol: no topics, no user data.
SUBSCRIPTION = bytes.fromhex("0000 00000000 ffffffff".replace(" ", ""))


def join(group: str, member: str = "", instance: str | None = None, **options: Any) -> Request:
    """Options: protocols (names), kind (protocol type), session_ms, rebalance_ms, metadata."""
    protocols = [
        JoinGroupRequest.Protocol(name=name, metadata=options.get("metadata", SUBSCRIPTION))
        for name in options.get("protocols", ["range"])
    ]
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=options.get("session_ms", 30_000),
        rebalance_timeout_ms=options.get("rebalance_ms", 1000),
        member_id=member,
        group_instance_id=instance,
        protocol_type=options.get("kind", "consumer"),
        protocols=protocols,
    )


def sync(
    group: str, generation: int, member: str, *assign: tuple[str, bytes], **options: Any
) -> Request:
    assignments = [
        SyncGroupRequest.Assignment(member_id=each, assignment=data) for each, data in assign
    ]
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=options.get("instance"),
        protocol_type=options.get("kind", "consumer"),
        protocol_name=options.get("protocol", "range"),
        assignments=assignments,
    )


def beat(group: str, generation: int, member: str, instance: str | None = None) -> Request:
    return HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member, group_instance_id=instance
    )


def leave(group: str, member: str, instance: str | None = None) -> Request:
    identity = LeaveGroupRequest.MemberIdentity(member_id=member, group_instance_id=instance)
    return LeaveGroupRequest(group_id=group, member_id=member, members=[identity])


def commit(
    stage: Stage, group: str, name: str, offset: int = 5, generation: int = -1, **options: Any
) -> Request:
    """Options: member, instance, partition, metadata."""
    topics = OffsetCommitRequest.Topic
    part = topics.Partition(
        partition_index=options.get("partition", 0),
        committed_offset=offset,
        committed_metadata=options.get("metadata", "why"),
    )
    topic = topics(name=name, topic_id=stage.ids.get(name, UNKNOWN_ID), partitions=[part])
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=options.get("member", ""),
        group_instance_id=options.get("instance"),
        topics=[topic],
    )


def fetched(stage: Stage, group: str, *names: str, everything: bool = False) -> Request:
    ask = OffsetFetchRequest
    old = [ask.Topic(name=name, partition_indexes=[0, 1]) for name in names]
    new = [
        ask.Group.Topics(
            name=name, topic_id=stage.ids.get(name, UNKNOWN_ID), partition_indexes=[0, 1]
        )
        for name in names
    ]
    return ask(
        group_id=group,
        topics=None if everything else old,
        groups=[ask.Group(group_id=group, topics=None if everything else new)],
        require_stable=False,
    )


def delete(*groups: str) -> Request:
    return DeleteGroupsRequest(groups_names=list(groups))


def coordinator_cases() -> list[Case]:
    def find(kind: int, *keys: str) -> Callable[[Stage], Request]:
        return lambda _: FindCoordinatorRequest(
            key=keys[0], key_type=kind, coordinator_keys=list(keys)
        )

    one = since(FindCoordinatorRequest, 1)
    return [
        ("FindCoordinator of a group", FindCoordinatorRequest, find(GROUP, "diff-any")),
        ("FindCoordinator of no name", FindCoordinatorRequest, find(GROUP, "")),
        ("FindCoordinator of two", FindCoordinatorRequest, find(GROUP, "diff-a", "diff-b")),
        ("FindCoordinator of nothing known", one, find(9, "x")),
    ]


def membership_cases() -> list[Case]:
    joins: dict[str, Callable[[Stage], Request]] = {
        "no group": lambda _: join(""),
        "too short a session": lambda s: join(f"{s.suffix}-short", session_ms=10),
        "too long a session": lambda s: join(f"{s.suffix}-long", session_ms=99_999_999),
        "no protocols": lambda s: join(f"{s.suffix}-none", protocols=[]),
        "no protocol type": lambda s: join(f"{s.suffix}-untyped", kind=""),
        "an unknown member": lambda s: join(f"{s.suffix}-unknown", "who"),
        "an unknown static member": lambda s: join(f"{s.suffix}-static", "who", "me"),
    }
    cases: list[Case] = [(f"JoinGroup {n}", JoinGroupRequest, make) for n, make in joins.items()]
    cases += [
        ("SyncGroup unknown", SyncGroupRequest, lambda s: sync(f"{s.suffix}-no", 1, "who")),
        ("SyncGroup no group", SyncGroupRequest, lambda _: sync("", 1, "who")),
        (
            "SyncGroup no protocol",
            SyncGroupRequest,
            lambda s: sync(f"{s.suffix}-no", 1, "who", kind=None),
        ),
        ("Heartbeat unknown", HeartbeatRequest, lambda s: beat(f"{s.suffix}-no", 1, "who")),
        ("Heartbeat no group", HeartbeatRequest, lambda _: beat("", 1, "who")),
        (
            "Heartbeat static",
            since(HeartbeatRequest, 3),
            lambda s: beat(f"{s.suffix}-no", 1, "w", "i"),
        ),
        ("LeaveGroup unknown", LeaveGroupRequest, lambda s: leave(f"{s.suffix}-no", "who")),
        ("LeaveGroup no group", LeaveGroupRequest, lambda _: leave("", "who")),
        # Before anything is committed to the group without a name.
        ("DeleteGroups no name", DeleteGroupsRequest, lambda _: delete("")),
    ]
    return cases


def offset_cases() -> list[Case]:
    commits: dict[str, Callable[[Stage], Request]] = {
        "a simple one": lambda s: commit(s, f"{s.suffix}-simple", s.topic),
        "to no group": lambda s: commit(s, "", s.topic),
        "of a missing topic": lambda s: commit(s, f"{s.suffix}-simple", s.missing),
        "of a missing partition": lambda s: commit(s, f"{s.suffix}-simple", s.topic, partition=9),
        "of a negative offset": lambda s: commit(s, f"{s.suffix}-simple", s.topic, -5),
        "of null metadata": lambda s: commit(s, f"{s.suffix}-simple", s.topic, metadata=None),
        "of long metadata": lambda s: commit(s, f"{s.suffix}-simple", s.topic, metadata="x" * 4097),
        "of metadata that fits": lambda s: commit(
            s, f"{s.suffix}-fit", s.topic, metadata="x" * 4096
        ),
        "to an unknown generation": lambda s: commit(s, f"{s.suffix}-gen", s.topic, generation=3),
        "of an unknown member": lambda s: commit(
            s, f"{s.suffix}-gen", s.topic, generation=3, member="who"
        ),
    }
    fetches: dict[str, Callable[[Stage], Request]] = {
        "committed": lambda s: fetched(s, f"{s.suffix}-simple", s.topic),
        "of an unknown group": lambda s: fetched(s, f"{s.suffix}-nobody", s.topic),
        "of a missing topic": lambda s: fetched(s, f"{s.suffix}-simple", s.missing),
        "of no group": lambda s: fetched(s, "", s.topic),
        "of no topics": lambda s: fetched(s, f"{s.suffix}-simple"),
    }
    cases: list[Case] = [
        (f"OffsetCommit {name}", OffsetCommitRequest, make) for name, make in commits.items()
    ]
    cases += [(f"OffsetFetch {name}", OffsetFetchRequest, make) for name, make in fetches.items()]
    everything = since(OffsetFetchRequest, 2)
    cases += [
        (
            "OffsetFetch everything",
            everything,
            lambda s: fetched(s, f"{s.suffix}-simple", everything=True),
        ),
        (
            "OffsetFetch everything of nobody",
            everything,
            lambda s: fetched(s, f"{s.suffix}-nobody", everything=True),
        ),
    ]
    return cases


def group_cases() -> list[Case]:
    def describe(*groups: str, operations: bool = False) -> Request:
        return DescribeGroupsRequest(groups=list(groups), include_authorized_operations=operations)

    def listed(states: list[str], types: list[str]) -> Request:
        return ListGroupsRequest(states_filter=states, types_filter=types)

    def forget(group: str, name: str) -> Request:
        topics = OffsetDeleteRequest.Topic
        part = topics.Partition(partition_index=0)
        return OffsetDeleteRequest(group_id=group, topics=[topics(name=name, partitions=[part])])

    return [
        ("DescribeGroups unknown", DescribeGroupsRequest, lambda s: describe(f"{s.suffix}-nobody")),
        ("DescribeGroups no name", DescribeGroupsRequest, lambda _: describe("")),
        ("DescribeGroups simple", DescribeGroupsRequest, lambda s: describe(f"{s.suffix}-simple")),
        (
            "DescribeGroups operations",
            since(DescribeGroupsRequest, 3),
            lambda s: describe(f"{s.suffix}-simple", operations=True),
        ),
        (
            "ListGroups of an unknown state",
            since(ListGroupsRequest, 4),
            lambda _: listed(["NoSuchState"], []),
        ),
        (
            "ListGroups of an unknown type",
            since(ListGroupsRequest, 5),
            lambda _: listed([], ["nosuchtype"]),
        ),
        ("DeleteGroups unknown", DeleteGroupsRequest, lambda s: delete(f"{s.suffix}-nobody")),
        ("DeleteGroups none", DeleteGroupsRequest, lambda _: delete()),
        (
            "OffsetDelete unknown",
            OffsetDeleteRequest,
            lambda s: forget(f"{s.suffix}-nobody", s.topic),
        ),
        ("OffsetDelete no group", OffsetDeleteRequest, lambda s: forget("", s.topic)),
        (
            "OffsetDelete missing topic",
            OffsetDeleteRequest,
            lambda s: forget(f"{s.suffix}-fit", s.missing),
        ),
        ("OffsetDelete", OffsetDeleteRequest, lambda s: forget(f"{s.suffix}-fit", s.topic)),
    ]


class Group:
    """A group on a stage, which gives stable names to the member ids that the broker generates."""

    def __init__(self, stage: Stage, name: str):
        self.stage = stage
        self.name = f"{stage.suffix}-{name}"
        self.members: dict[Any, str] = {}

    def comparable(self, answer: Any) -> Any:
        return comparable(answer, self.stage.names() | self.members)

    def joined(self, member: str = "", version: int = 9, **options: Any) -> Any:
        """The response to a join, repeated with the member id after MEMBER_ID_REQUIRED."""
        wire = self.stage.wire
        answer = wire.ask(join(self.name, member, **options), version)
        if answer.error_code == 79:
            self.members[answer.member_id] = f"member {len(self.members)}"
            answer = wire.ask(join(self.name, answer.member_id, **options), version)
        elif answer.member_id:
            self.members.setdefault(answer.member_id, f"member {len(self.members)}")
        return answer

    def ask(self, request: Request, version: int) -> Any:
        return self.comparable(self.stage.wire.ask(request, version))


def one_member_lives_and_leaves(stage: Stage) -> Any:
    """Join, sync, heartbeat, commit, rejoin and leave, in every version of JoinGroup."""
    story = []
    for version in range(10):
        group = Group(stage, f"lives-{version}")
        answer = group.joined(version=version)
        member, generation = answer.member_id, answer.generation_id
        story.append(group.comparable(answer))
        story.append(group.ask(beat(group.name, generation, member), 4))
        early = commit(stage, group.name, stage.topic, 1, generation, member=member)
        story.append(group.ask(early, 9))
        synced = sync(group.name, generation, member, (member, b"all of it"))
        story.append(group.ask(synced, 5))
        story.append(group.ask(sync(group.name, generation, member), 5))
        story.append(group.ask(beat(group.name, generation, member), 4))
        story.append(group.ask(beat(group.name, generation + 1, member), 4))
        story.append(group.ask(beat(group.name, generation, "who"), 4))
        for wrong in (generation, generation + 1, -1):
            asked = commit(stage, group.name, stage.topic, 7, wrong, member=member)
            story.append(group.ask(asked, 9))
        story.append(group.ask(DescribeGroupsRequest(groups=[group.name]), 6))
        story.append(group.ask(DeleteGroupsRequest(groups_names=[group.name]), 2))
        story.append(group.comparable(group.joined(member, version=version)))
        story.append(group.ask(leave(group.name, member), 5))
        story.append(group.ask(leave(group.name, member), 5))
        story.append(group.ask(fetched(stage, group.name, stage.topic), 9))
        story.append(group.ask(DescribeGroupsRequest(groups=[group.name]), 6))
        story.append(group.ask(DeleteGroupsRequest(groups_names=[group.name]), 2))
    return story


def a_static_member_comes_back(stage: Stage) -> Any:
    """A static member rejoins under a new id, and its old id is fenced (KIP-345)."""
    group = Group(stage, "static")
    story = []
    first = group.joined(instance="me")
    story.append(group.comparable(first))
    old = first.member_id
    story.append(group.ask(sync(group.name, 1, old, (old, b"mine"), instance="me"), 5))
    again = group.joined(instance="me")
    new = again.member_id
    story += [group.comparable(again), new != old]
    story.append(group.ask(sync(group.name, again.generation_id, new, instance="me"), 5))
    story.append(group.ask(beat(group.name, again.generation_id, old, "me"), 4))
    story.append(group.ask(beat(group.name, again.generation_id, new, "me"), 4))
    story.append(group.ask(beat(group.name, again.generation_id, new, "other"), 4))
    story.append(group.comparable(group.joined(old, instance="me")))
    fenced = commit(stage, group.name, stage.topic, 1, 1, member=old, instance="me")
    story.append(group.ask(fenced, 9))
    story.append(group.ask(DescribeGroupsRequest(groups=[group.name]), 6))
    story.append(group.ask(leave(group.name, "", "nobody"), 5))
    story.append(group.ask(leave(group.name, "", "me"), 5))
    return story


def protocols_must_agree(stage: Stage) -> Any:
    """A second member with another protocol, or another type, is refused."""
    group = Group(stage, "agree")
    answer = group.joined()
    member = answer.member_id
    story = [group.comparable(answer)]
    story.append(group.ask(sync(group.name, 1, member, (member, b"x"), protocol="other"), 5))
    story.append(group.ask(sync(group.name, 1, member, (member, b"x"), kind="connect"), 5))
    story.append(group.ask(sync(group.name, 1, member, (member, b"x")), 5))
    story.append(group.comparable(group.joined(protocols=["roundrobin"])))
    story.append(group.comparable(group.joined(kind="connect")))
    story.append(group.ask(commit(stage, group.name, stage.topic), 9))
    story.append(group.ask(leave(group.name, member), 5))
    return story


def offsets_by_topic_id(stage: Stage) -> Any:
    """Version 10 of the offset APIs names topics by id (KIP-848)."""
    group = Group(stage, "by-id")
    return [
        group.ask(commit(stage, group.name, stage.topic, 11), 10),
        group.ask(commit(stage, group.name, stage.missing, 11), 10),
        group.ask(fetched(stage, group.name, stage.topic, stage.missing), 10),
        group.ask(fetched(stage, group.name, stage.topic), 8),
        group.ask(fetched(stage, group.name, everything=True), 10),
    ]


CASES: list[Case] = [*coordinator_cases(), *membership_cases(), *offset_cases(), *group_cases()]

PLAYS = [
    one_member_lives_and_leaves,
    a_static_member_comes_back,
    protocols_must_agree,
    offsets_by_topic_id,
]
