"""ShareGroupHeartbeat: who joins, stays and leaves, and what is refused."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Make, Need
from wirekafka.conformance.cases.consumer_groups.consumer_play import (
    ConsumerPlay,
    configure,
    member_id,
)
from wirekafka.conformance.cases.share_groups.share_members import ShareMembers
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest

BOOK = Book(
    ShareGroupHeartbeatRequest,
    "share groups",
    ConformanceLevel.GROUPS,
    "KIP-932",
    needs=frozenset({Need.SHARE_STATES}),
)


def _joining(stage: Stage, **changes: Any) -> ShareGroupHeartbeatRequest:
    """The heartbeat with which a member joins, with changes; its topic does not exist."""
    stage.call(member_id("anna"), "anna")
    values: dict[str, Any] = {
        "group_id": stage.name("g"),
        "member_id": member_id("anna"),
        "member_epoch": 0,
        "subscribed_topic_names": [stage.missing],
        **changes,
    }
    return ShareGroupHeartbeatRequest(**values)


_CHANGES: dict[str, dict[str, Any]] = {
    "a first heartbeat": {},
    "an empty group id": {"group_id": ""},
    "a blank group id": {"group_id": " "},
    "an empty member id": {"member_id": ""},
    "a blank member id": {"member_id": " "},
    "a member id of 36 characters": {"member_id": "m" * 36},
    "a member id of 37 characters": {"member_id": "m" * 37},
    "an empty rack": {"rack_id": ""},
    "a blank rack": {"rack_id": " "},
    "a rack": {"rack_id": "rack-1"},
    "no subscription": {"subscribed_topic_names": None},
    "a subscription to nothing": {"subscribed_topic_names": []},
    "a topic twice": {"subscribed_topic_names": ["x", "x"]},
    "an invalid topic name": {"subscribed_topic_names": ["a b"]},
    "an empty topic name": {"subscribed_topic_names": [""]},
    "an epoch of minus 2": {"member_epoch": -2},
    "an epoch of minus 3": {"member_epoch": -3},
    "a stranger leaves": {"member_epoch": -1},
    "a stranger's heartbeat": {"member_epoch": 2, "subscribed_topic_names": None},
    "a stranger's heartbeat with everything": {"member_epoch": 2},
}


def _with(**changes: Any) -> Make:
    return lambda stage: _joining(stage, **changes)


for _what, _fields in _CHANGES.items():
    BOOK.ask(_what, _with(**_fields))

_LATER: dict[str, dict[str, Any]] = {
    "a member that says nothing new": {},
    "a member with an empty rack": {"rack_id": ""},
    "a member with another rack": {"rack_id": "rack-2"},
    "a member that unsubscribes": {"subscribed_topic_names": []},
    "a member with another subscription": {"subscribed_topic_names": ["x", "y"]},
    "a member that joins again": {"member_epoch": 0, "subscribed_topic_names": ["x"]},
    "a member that joins again without topics": {"member_epoch": 0},
    "a member at the previous epoch": {"member_epoch": 1},
    "a member at a newer epoch": {"member_epoch": 9},
    "a member at the highest epoch": {"member_epoch": 2**31 - 1},
    "a member that leaves": {"member_epoch": -1},
}

for _what, _fields in _LATER.items():

    @BOOK.play(_what)
    def _later(stage: Stage, fields: dict[str, Any] = _fields) -> None:
        """A member has joined alone; then one heartbeat differs, and a quiet one follows."""
        group = ShareMembers(stage)
        epoch = group.join("anna", stage.missing).member_epoch
        said = dict(fields)
        answer = stage.ask(group.request("anna", said.pop("member_epoch", epoch), **said))
        epoch = answer.member_epoch if answer.member_epoch > 0 else epoch
        stage.ask(group.request("anna", epoch))


@BOOK.play("a member alone")
def _alone(stage: Stage) -> None:
    """It is assigned all partitions, and a second topic's when it wants them."""
    group = ShareMembers(stage)
    names = [group.create(each, partitions=2) for each in "tu"]
    group.join("anna", names[0])
    group.show()
    group.actors["anna"].given = {}
    group.beat("anna", subscribed_topic_names=names)
    stage.until(lambda: group.beat("anna") and len(group.actors["anna"].given) == 2, "both topics")
    group.show()


@BOOK.play("two members and four partitions")
def _two(stage: Stage) -> None:
    """Each has two; when one leaves, the other has all."""
    group = ShareMembers(stage)
    name = group.create("t", partitions=4)
    group.join("anna", name)
    group.settle()
    group.join("bert", name)
    group.settle()
    stage.note("partitions", sorted(len(each.given[name]) for each in group.actors.values()))
    group.leave("anna")
    group.show()


@BOOK.play("three members and one partition")
def _three(stage: Stage) -> None:
    """All share the only partition."""
    group = ShareMembers(stage)
    name = group.create("t")
    for who in ("anna", "bert", "cleo"):
        group.join(who, name)
        group.settle()
    group.show()


@BOOK.play("a topic that is created later")
def _created(stage: Stage) -> None:
    """It is assigned once it exists."""
    group = ShareMembers(stage)
    group.join("anna", stage.name("t"))
    stage.create("t", partitions=2)
    group.show()


@BOOK.play("a topic that is deleted")
def _deleted(stage: Stage) -> None:
    """What was of the topic is taken from the member."""
    group = ShareMembers(stage)
    names = [group.create(each) for each in "tu"]
    group.join("anna", *names)
    stage.until(lambda: group.beat("anna") and len(group.actors["anna"].given) == 2, "both topics")
    stage.delete(names[0])
    stage.until(lambda: group.beat("anna") and len(group.actors["anna"].given) == 1, "one topic")
    group.show()


@BOOK.play("a group that is deleted")
def _group_deleted(stage: Stage) -> None:
    """Not while there is a member; then a heartbeat is of no group."""
    group = ShareMembers(stage)
    epoch = group.join("anna", stage.missing).member_epoch
    stage.ask(DeleteGroupsRequest(groups_names=[group.group_id]), 2)
    stage.ask(group.request("anna", -1))
    stage.ask(group.request("anna", epoch))
    stage.ask(DeleteGroupsRequest(groups_names=[group.group_id]), 2)
    stage.ask(group.request("anna", epoch))


@BOOK.play("a consumer group")
def _consumers(stage: Stage) -> None:
    """A group of another kind, with a member and without."""
    group = ConsumerPlay(stage)
    group.join("anna", stage.topic)
    stage.ask(_joining(stage))
    group.leave("anna")
    stage.ask(_joining(stage))


_CONFIGS: dict[str, tuple[str, ...]] = {
    "share_heartbeat_interval_ms": ("5000", "4999", "15001", "6000"),
    "share_session_timeout_ms": ("45000", "44999", "60001", "6"),
    "share_record_lock_duration_ms": ("15000", "14999", "60001", "999"),
    "share_delivery_count_limit": ("2", "1", "10", "11"),
    "share_partition_max_record_locks": ("100", "99", "10001", "2000"),
    "share_assignment_interval_ms": ("0", "-1", "15001"),
    "share_auto_offset_reset": ("earliest", "none", "by_duration:PT1S", "by_duration:PT-2S", "x"),
    "share_isolation_level": ("read_committed", "Read_Uncommitted", "dirty"),
    "share_renew_acknowledge_enable": ("true", "maybe"),
}

for _key, _values in _CONFIGS.items():
    for _value in _values:

        @BOOK.play(f"{_key.replace('_', '.')}={_value}", source="KIP-1240")
        def _configured(stage: Stage, key: str = _key, value: str = _value) -> None:
            """An option of the group is set, or refused."""
            stage.note("answer", configure(stage, stage.name("g"), **{key: value}))


@BOOK.play("the heartbeat interval of the group")
def _interval(stage: Stage) -> None:
    """It is in the answers as it is configured."""
    group = ShareMembers(stage)
    configure(stage, group.group_id, share_heartbeat_interval_ms="7000")
    stage.ask(group.request("anna", 0, subscribed_topic_names=[stage.missing]))
