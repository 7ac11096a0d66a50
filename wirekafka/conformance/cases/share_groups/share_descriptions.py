"""ShareGroupDescribe: groups in each state, and groups of other kinds."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.consumer_groups.consumer_play import ConsumerPlay, member_id
from wirekafka.conformance.cases.share_groups.share_members import ShareMembers
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.offset_delete import OffsetDeleteRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest

BOOK = Book(
    ShareGroupDescribeRequest,
    "share groups",
    ConformanceLevel.GROUPS,
    "KIP-932",
    needs=frozenset({Need.SHARE_STATES}),
)


def _describe(*groups: str, **fields: Any) -> ShareGroupDescribeRequest:
    return ShareGroupDescribeRequest(group_ids=list(groups), **fields)


BOOK.ask("no groups", lambda _: _describe())
BOOK.ask("a missing group", lambda s: _describe(s.name("g")))
BOOK.ask("an empty group id", lambda _: _describe(""))
BOOK.ask("two missing groups", lambda s: _describe(*s.neighbours(2)))
BOOK.ask(
    "a missing group with operations",
    lambda s: _describe(s.name("g"), include_authorized_operations=True),
    source="KIP-430",
)


@BOOK.play("a group with members and without")
def _states(stage: Stage) -> None:
    """One member, two, one, none, and deleted."""
    group = ShareMembers(stage)
    name = group.create("t", partitions=2)
    group.join("anna", name)
    group.settle()
    stage.ask(_describe(group.group_id))
    group.join("bert", name, rack_id="rack-1")
    group.settle()
    found = stage.do(_describe(group.group_id), 1).groups[0].members
    sizes = [len(each.assignment.topic_partitions[0].partitions) for each in found]
    stage.note("partitions of two members", sizes)
    group.leave("anna")
    group.settle()
    stage.ask(_describe(group.group_id))
    group.leave("bert")
    stage.ask(_describe(group.group_id))
    stage.do(DeleteGroupsRequest(groups_names=[group.group_id]), 2)
    stage.ask(_describe(group.group_id))


@BOOK.play("authorized operations", source="KIP-430")
def _operations(stage: Stage) -> None:
    """With operations they are a number of bits; without, the lowest number there is."""
    group = ShareMembers(stage)
    group.join("anna", stage.missing)
    stage.ask(_describe(group.group_id, include_authorized_operations=True))
    stage.ask(_describe(group.group_id))


@BOOK.play("a consumer group")
def _consumers(stage: Stage) -> None:
    """A group of another kind."""
    group = ConsumerPlay(stage)
    group.join("anna", stage.topic)
    stage.ask(_describe(group.group_id))


@BOOK.play("in a list of groups")
def _listed(stage: Stage) -> None:
    """Found by type and by state."""
    group = ShareMembers(stage)
    group.join("anna", stage.missing)
    for kind, state in (("share", ""), ("consumer", ""), ("", "Stable"), ("", "Empty")):
        request = ListGroupsRequest(
            states_filter=[state] if state else [], types_filter=[kind] if kind else []
        )
        listed = stage.do(request, 5, at=stage.coordinator(0, group.group_id)).groups
        mine = [each for each in listed if each.group_id == group.group_id]
        stage.note(f"of type {kind or 'any'} in state {state or 'any'}", mine)


@BOOK.play("as other kinds of groups")
def _others(stage: Stage) -> None:
    """Requests that only consumer groups and classic groups understand."""
    group = ShareMembers(stage)
    group.join("anna", stage.missing)
    name = group.group_id
    stage.ask(ConsumerGroupDescribeRequest(group_ids=[name]), 1)
    stage.ask(DescribeGroupsRequest(groups=[name]), 5)
    stage.ask(DescribeGroupsRequest(groups=[name]), 6)
    beat = ConsumerGroupHeartbeatRequest(group_id=name, member_id=member_id("anna"), member_epoch=1)
    stage.ask(beat, 1)
    stage.ask(HeartbeatRequest(group_id=name, generation_id=1, member_id="m"), 4)
    asked = OffsetFetchRequest.Group
    topics = [asked.Topics(name=stage.topic, partition_indexes=[0])]
    stage.ask(OffsetFetchRequest(groups=[asked(group_id=name, topics=topics)]), 9)
    commit, delete = OffsetCommitRequest.Topic, OffsetDeleteRequest.Topic
    request = OffsetCommitRequest(
        group_id=name,
        generation_id_or_member_epoch=1,
        member_id="m",
        topics=[commit(name=stage.topic, partitions=[commit.Partition(partition_index=0)])],
    )
    stage.ask(request, 8)
    stage.ask(request, 9)
    deleting = delete(name=stage.topic, partitions=[delete.Partition(partition_index=0)])
    stage.ask(OffsetDeleteRequest(group_id=name, topics=[deleting]), 0)
    stage.ask(DeleteGroupsRequest(groups_names=[name]), 2)
