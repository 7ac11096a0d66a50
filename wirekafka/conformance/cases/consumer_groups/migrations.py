"""ConsumerGroupHeartbeat: groups that change their protocol, and their options."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.consumer_groups.consumer_play import ConsumerPlay, configure
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.protocol.leave_group import LeaveGroupRequest
from wirekafka.protocol.records.groups_and_transactions import ConsumerProtocolSubscription
from wirekafka.protocol.sync_group import SyncGroupRequest

BOOK = Book(ConsumerGroupHeartbeatRequest, "consumer groups", ConformanceLevel.GROUPS, "KIP-848")


class ClassicActor:
    """A member of the classic protocol, whose answers are compared."""

    def __init__(self, group: ConsumerPlay, *topics: str, instance_id: str | None = None) -> None:
        self.stage, self.group_id, self.instance_id = group.stage, group.group_id, instance_id
        said = ConsumerProtocolSubscription(topics=list(topics)).encode(1)
        self.metadata = b"\x00\x01" + bytes(said)
        self.member_id, self.generation_id = "", -1

    def join(self) -> Any:
        """Join, with the member id that the broker gives."""
        answer = self._join()
        if answer.member_id and not self.member_id:
            self.member_id = answer.member_id
            self.stage.call(self.member_id, "a classic member")
            answer = self._join() if answer.error_code else answer
        self.generation_id = answer.generation_id
        return answer

    def _join(self) -> Any:
        protocol = JoinGroupRequest.Protocol(name="range", metadata=self.metadata)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        answer = self.stage.do(request, 7)
        # The metadata has names, whose lengths differ between runs.
        self.stage.note(
            "JoinGroup", {"error_code": answer.error_code, "generation_id": answer.generation_id}
        )
        return answer

    def sync(self, *assigned: bytes) -> Any:
        """Take the assignment; a leader brings its own."""
        part = SyncGroupRequest.Assignment
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[part(member_id=self.member_id, assignment=each) for each in assigned],
        )
        answer = self.stage.do(request, 5)
        shown = {"error_code": answer.error_code, "is_assigned": len(answer.assignment) > 10}
        self.stage.note("SyncGroup", shown)
        return answer

    def beat(self) -> Any:
        """A heartbeat."""
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation_id, member_id=self.member_id
        )
        return self.stage.ask(request, 3)

    def leave(self) -> Any:
        """Leave."""
        member = LeaveGroupRequest.MemberIdentity(member_id=self.member_id)
        return self.stage.ask(LeaveGroupRequest(group_id=self.group_id, members=[member]), 4)


_NOTHING = b"\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff"
"""An assignment of no partitions."""


@BOOK.play("a classic group that is empty", versions="1")
def _empty(stage: Stage) -> None:
    """The first member of the new protocol converts it; then a classic member does it back."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=2)
    old = ClassicActor(group, name)
    old.join()
    old.sync(_NOTHING)
    old.leave()
    group.join("anna", name)
    group.leave("anna")
    stage.ask(ConsumerGroupDescribeRequest(group_ids=[group.group_id]), 1)
    old = ClassicActor(group, name)
    old.join()
    old.sync(_NOTHING)
    found = stage.do(DescribeGroupsRequest(groups=[group.group_id]), 5).groups[0]
    stage.note("state of the classic group", found.group_state)
    old.leave()


@BOOK.play("a classic group with a member", versions="1")
def _upgrade(stage: Stage) -> None:
    """A member of the new protocol joins: the classic one must join again, and keeps a part."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=4)
    old = ClassicActor(group, name)
    old.join()
    old.sync(_NOTHING)
    stage.note("error", group.join("anna", name).error_code)
    old.beat()
    old.join()
    old.sync()
    old.beat()
    group.leave("anna")
    old.beat()
    old.leave()


@BOOK.play("a classic member in a consumer group", versions="1")
def _classic(stage: Stage) -> None:
    """It joins a group of the new protocol, waits for its partitions, and leaves."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=4)
    group.join("anna", name)
    old = ClassicActor(group, name)
    old.join()
    old.sync()
    group.beat("anna")
    group.beat("anna")
    old.beat()
    old.join()
    old.sync()
    old.beat()
    old.leave()
    group.show()


@BOOK.play("a classic group of another protocol type", versions="1")
def _other(stage: Stage) -> None:
    """A group of Kafka Connect's kind is not converted."""
    group = ConsumerPlay(stage)
    protocol = JoinGroupRequest.Protocol(name="default", metadata=b"any")
    request = JoinGroupRequest(
        group_id=group.group_id,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        protocol_type="connect",
        protocols=[protocol],
    )
    answer = stage.ask(request, 3)
    group.join("anna", stage.topic)
    leave = LeaveGroupRequest(group_id=group.group_id, member_id=answer.member_id)
    stage.ask(leave, 1)


_CONFIGS: dict[str, tuple[str, ...]] = {
    "consumer_heartbeat_interval_ms": ("5000", "15000", "4999", "15001", "soon"),
    "consumer_session_timeout_ms": ("45000", "60000", "44999", "60001", "0"),
    "consumer_assignment_interval_ms": ("0", "15000", "-1", "15001"),
    "consumer_unknown_option": ("1",),
    "consumer_heartbeat_interval": ("5000",),
}

for _key, _values in _CONFIGS.items():
    for _value in _values:

        @BOOK.play(f"{_key.replace('_', '.')}={_value}", versions="1")
        def _configured(stage: Stage, key: str = _key, value: str = _value) -> None:
            """An option of the group is set, or refused."""
            stage.note("answer", configure(stage, stage.name("g"), **{key: value}))


@BOOK.play("the heartbeat interval of the group", versions="1")
def _interval(stage: Stage) -> None:
    """It is in the answers as it is configured, and as the broker has it again afterwards."""
    group = ConsumerPlay(stage)
    configure(stage, group.group_id, consumer_heartbeat_interval_ms="7000")
    group.join("anna", stage.topic)
    group.beat("anna")
