"""StreamsGroupDescribe: groups in each state, and groups of other kinds."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.consumer_groups.consumer_play import ConsumerPlay, member_id
from wirekafka.conformance.cases.streams_groups.streams_play import StreamsPlay, internal, topology
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.leave_group import LeaveGroupRequest
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest
from wirekafka.protocol.streams_group_heartbeat import Endpoint, KeyValue

BOOK = Book(StreamsGroupDescribeRequest, "streams groups", ConformanceLevel.GROUPS, "KIP-1071")


def _describe(*groups: str, **fields: Any) -> StreamsGroupDescribeRequest:
    return StreamsGroupDescribeRequest(group_ids=list(groups), **fields)


BOOK.ask("no groups", lambda _: _describe())
BOOK.ask("a missing group", lambda s: _describe(s.name("g")))
BOOK.ask("an empty group id", lambda _: _describe(""))
BOOK.ask("two missing groups", lambda s: _describe(*s.neighbours(2)))
BOOK.ask(
    "a missing group with operations",
    lambda s: _describe(s.name("g"), include_authorized_operations=True),
    source="KIP-430",
)


@BOOK.play("a group that is stable, and empty")
def _states(stage: Stage) -> None:
    """One member with tags and an endpoint, and a changelog."""
    play = StreamsPlay(stage)
    name = play.create("t", partitions=2)
    changelog = internal(stage.name("store-changelog"), cleanup_policy="compact")
    play.join(
        "anna",
        topology(name, state_changelog_topics=[changelog]),
        user_endpoint=Endpoint(host="host-1", port=8080),
        client_tags=[KeyValue(key="zone", value="z1")],
        rack_id="rack-1",
    )
    play.settle()
    stage.ask(_describe(play.group_id))
    play.leave("anna")
    stage.ask(_describe(play.group_id))


@BOOK.play("a group that is not ready")
def _not_ready(stage: Stage) -> None:
    """Its source topic does not exist."""
    play = StreamsPlay(stage)
    play.join("anna", topology(stage.missing))
    stage.ask(_describe(play.group_id))


@BOOK.play("a static member", source="KIP-345")
def _static(stage: Stage) -> None:
    """While it is there, and while it is away."""
    play = StreamsPlay(stage)
    play.join("anna", topology(stage.missing), instance_id="i")
    stage.ask(_describe(play.group_id))
    play.leave("anna", -2)
    stage.ask(_describe(play.group_id))


@BOOK.play("authorized operations", source="KIP-430")
def _operations(stage: Stage) -> None:
    """With operations they are a number of bits."""
    play = StreamsPlay(stage)
    play.join("anna", topology(stage.missing))
    stage.ask(_describe(play.group_id, include_authorized_operations=True))


@BOOK.play("a topology description", versions="1", source="KIP-1331")
def _description(stage: Stage) -> None:
    """None is stored by default, which the status says."""
    play = StreamsPlay(stage)
    play.join("anna", topology(stage.missing))
    stage.ask(_describe(play.group_id, include_topology_description=True))


@BOOK.play("a consumer group")
def _consumers(stage: Stage) -> None:
    """A group of another kind."""
    group = ConsumerPlay(stage)
    group.join("anna", stage.topic)
    stage.ask(_describe(group.group_id))


@BOOK.play("in a list of groups", versions="1")
def _listed(stage: Stage) -> None:
    """Found by type and by state."""
    play = StreamsPlay(stage)
    play.join("anna", topology(stage.missing))
    for kind, state in (("streams", ""), ("share", ""), ("", "Empty"), ("", "Stable")):
        request = ListGroupsRequest(
            states_filter=[state] if state else [], types_filter=[kind] if kind else []
        )
        listed = stage.do(request, 5, at=stage.coordinator(0, play.group_id)).groups
        mine = [each for each in listed if each.group_id == play.group_id]
        stage.note(f"of type {kind or 'any'} in state {state or 'any'}", mine)


@BOOK.play("as other kinds of groups", versions="1")
def _others(stage: Stage) -> None:
    """Requests that only groups of other kinds understand."""
    play = StreamsPlay(stage)
    epoch = play.join("anna", topology(stage.missing)).member_epoch
    name, id = play.group_id, member_id("anna")
    stage.ask(ConsumerGroupDescribeRequest(group_ids=[name]), 1)
    stage.ask(ShareGroupDescribeRequest(group_ids=[name]), 1)
    stage.ask(DescribeGroupsRequest(groups=[name]), 6)
    stage.ask(HeartbeatRequest(group_id=name, generation_id=epoch, member_id=id), 4)
    topic = OffsetCommitRequest.Topic
    part = topic.Partition(partition_index=0, committed_offset=3)
    for each in (epoch, epoch + 1, 0, -1):
        commit = OffsetCommitRequest(
            group_id=name,
            generation_id_or_member_epoch=each,
            member_id=id,
            topics=[topic(name=stage.topic, partitions=[part])],
        )
        stage.ask(commit, 8)
        stage.ask(commit, 9)
    members = [LeaveGroupRequest.MemberIdentity(member_id=id)]
    stage.ask(LeaveGroupRequest(group_id=name, members=members), 5)
