"""ConsumerGroupDescribe: groups in each state, and groups of other kinds."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.consumer_groups.consumer_play import ConsumerPlay
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.protocol.leave_group import LeaveGroupRequest
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest
from wirekafka.protocol.sync_group import SyncGroupRequest

BOOK = Book(ConsumerGroupDescribeRequest, "consumer groups", ConformanceLevel.GROUPS, "KIP-848")


def _describe(*groups: str, **fields: Any) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=list(groups), **fields)


BOOK.ask("no groups", lambda _: _describe())
BOOK.ask("a missing group", lambda s: _describe(s.name("g")))
BOOK.ask("an empty group id", lambda _: _describe(""))
BOOK.ask("a missing group twice", lambda s: _describe(s.name("g"), s.name("g")))
BOOK.ask("two missing groups", lambda s: _describe(*s.neighbours(2)))
BOOK.ask(
    "a missing group with operations",
    lambda s: _describe(s.name("g"), include_authorized_operations=True),
    source="KIP-430",
)


@BOOK.play("a group in each state")
def _states(stage: Stage) -> None:
    """Stable, reconciling, stable again, and empty."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=4)
    group.join("anna", name, rack_id="rack-1")
    stage.ask(_describe(group.group_id))
    group.join("bert", name)
    stage.ask(_describe(group.group_id))
    group.beat("anna", {name: [0, 1, 2, 3]})
    stage.ask(_describe(group.group_id))
    group.beat("anna", {name: [0, 1]})
    stage.ask(_describe(group.group_id))
    group.settle()
    stage.ask(_describe(group.group_id))
    group.leave("bert")
    stage.ask(_describe(group.group_id))
    group.leave("anna")
    stage.ask(_describe(group.group_id))


@BOOK.play("authorized operations", source="KIP-430")
def _operations(stage: Stage) -> None:
    """With operations they are a number of bits; without, the lowest number there is."""
    group = ConsumerPlay(stage)
    group.join("anna")
    stage.ask(_describe(group.group_id, include_authorized_operations=True))
    stage.ask(_describe(group.group_id))


@BOOK.play("static members", source="KIP-345")
def _static(stage: Stage) -> None:
    """A member that is there, then away for a while, and then its successor."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=2)
    group.join("anna", name, instance_id="i")
    stage.ask(_describe(group.group_id))
    group.leave("anna", -2)
    stage.ask(_describe(group.group_id))
    group.join("bert", name, instance_id="i")
    stage.ask(_describe(group.group_id))


@BOOK.play("a regular expression", versions="1")
def _regex(stage: Stage) -> None:
    """Named with the member, before and after its topics are known."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=1)
    group.join("anna", subscribed_topic_regex=f"{name}|nothing")
    stage.until(lambda: group.beat("anna") and group.actors["anna"].given, "a match")
    stage.ask(_describe(group.group_id))


@BOOK.play("an assignor", versions="1")
def _assignor(stage: Stage) -> None:
    """The group's assignor is its member's choice."""
    group = ConsumerPlay(stage)
    group.join("anna", stage.topic, server_assignor="range")
    stage.ask(_describe(group.group_id))


@BOOK.play("a topic that does not exist", versions="1")
def _missing(stage: Stage) -> None:
    """The subscription is shown, the assignment is empty."""
    group = ConsumerPlay(stage)
    group.join("anna", stage.missing)
    stage.ask(_describe(group.group_id))


@BOOK.play("a deleted group", versions="1")
def _deleted(stage: Stage) -> None:
    """After DeleteGroups there is no such group."""
    group = ConsumerPlay(stage)
    group.join("anna", stage.topic)
    group.leave("anna")
    stage.ask(_describe(group.group_id))
    stage.do(DeleteGroupsRequest(groups_names=[group.group_id]), 2)
    stage.ask(_describe(group.group_id))


@BOOK.play("groups of two kinds in one request", versions="1")
def _kinds(stage: Stage) -> None:
    """A share group beside a consumer group: an error for the one only."""
    first, second = stage.neighbours(2)
    group = ConsumerPlay(stage)
    group.group_id = first
    group.join("anna", stage.topic)
    request = ShareGroupHeartbeatRequest(
        group_id=second,
        member_id=group.actors["anna"].id,
        member_epoch=0,
        subscribed_topic_names=[stage.topic],
    )
    stage.do(request, 1)
    stage.ask(_describe(first, second))


@BOOK.play("as other kinds of groups", versions="1")
def _others(stage: Stage) -> None:
    """A consumer group is asked as if it were a share group, a streams group or a classic one."""
    group = ConsumerPlay(stage)
    group.join("anna", stage.topic)
    stage.ask(ShareGroupDescribeRequest(group_ids=[group.group_id]), 1)
    stage.ask(StreamsGroupDescribeRequest(group_ids=[group.group_id]), 0)
    stage.ask(DescribeGroupsRequest(groups=[group.group_id]), 5)
    stage.ask(DescribeGroupsRequest(groups=[group.group_id]), 6)
    request = ShareGroupHeartbeatRequest(
        group_id=group.group_id,
        member_id=group.actors["anna"].id,
        member_epoch=0,
        subscribed_topic_names=[stage.topic],
    )
    stage.ask(request, 1)
    group.leave("anna")
    stage.ask(request, 1)


@BOOK.play("in a list of groups", versions="1", source="KIP-848")
def _listed(stage: Stage) -> None:
    """Stable and empty, found by type and by state."""
    group = ConsumerPlay(stage)
    group.join("anna", stage.topic)

    def note(what: str, **filters: list[str]) -> None:
        request = ListGroupsRequest(**filters)
        at = stage.coordinator(0, group.group_id)
        listed = stage.do(request, 5, at=at).groups
        stage.note(what, [each for each in listed if each.group_id == group.group_id])

    for state in ("stable", "Stable", "Empty"):
        note(f"in state {state}", states_filter=[state])
    for kind in ("consumer", "CONSUMER", "classic"):
        note(f"of type {kind}", types_filter=[kind])
    group.leave("anna")
    note("empty", states_filter=["Empty"], types_filter=["consumer"])


@BOOK.play("classic requests to a consumer group", versions="1")
def _classic(stage: Stage) -> None:
    """Requests of the classic protocol in the name of a member of the other."""
    group = ConsumerPlay(stage)
    group.join("anna", stage.topic)
    id, name = group.actors["anna"].id, group.group_id
    protocol = JoinGroupRequest.Protocol(name="range", metadata=b"not a subscription")
    join = JoinGroupRequest(
        group_id=name,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=id,
        protocol_type="consumer",
        protocols=[protocol],
    )
    stage.ask(join, 9)
    join.member_id, join.protocol_type = "", "connect"
    stage.ask(join, 9)
    join.member_id, join.protocol_type, join.protocols = "unknown", "consumer", []
    stage.ask(join, 9)
    stage.ask(HeartbeatRequest(group_id=name, generation_id=2, member_id=id), 4)
    stage.ask(HeartbeatRequest(group_id=name, generation_id=2, member_id="unknown"), 4)
    stage.ask(SyncGroupRequest(group_id=name, generation_id=2, member_id=id), 5)
    stage.ask(SyncGroupRequest(group_id=name, generation_id=2, member_id="unknown"), 5)
    leaving = LeaveGroupRequest.MemberIdentity
    members = [leaving(member_id="unknown"), leaving(member_id=id)]
    stage.ask(LeaveGroupRequest(group_id=name, members=members), 5)
    stage.ask(_describe(name))


@BOOK.play("a group of offsets alone", versions="1")
def _offsets(stage: Stage) -> None:
    """Offsets make a classic group, which the first member converts."""
    group = ConsumerPlay(stage)
    topic = OffsetCommitRequest.Topic
    part = topic.Partition(partition_index=0, committed_offset=1)
    commit = OffsetCommitRequest(
        group_id=group.group_id, topics=[topic(name=stage.topic, partitions=[part])]
    )
    stage.do(commit, 8)
    stage.ask(_describe(group.group_id))
    group.join("anna", stage.topic)
    stage.ask(_describe(group.group_id))
    group.leave("anna")
    stage.ask(commit, 8)
    stage.ask(_describe(group.group_id))
