"""Heartbeat: what members hear in each state of their group."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.classic_groups.classic import (
    JOIN,
    PlayedGroup,
    beat,
    deleted,
    leave,
)
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.heartbeat import HeartbeatRequest

BOOK = Book(HeartbeatRequest, "classic groups", ConformanceLevel.CORE, "HeartbeatRequest.json")
_STATIC = "KIP-345"
_FEW = "0,3-4"
"""The oldest version, the first with static members, the first that is flexible."""

_ASKS: dict[str, Make] = {
    "an unknown group": lambda s: beat(s.name(), 1, "who"),
    "no group": lambda _: beat("", 1, "who"),
    "no member of an unknown group": lambda s: beat(s.name(), -1, ""),
    "no member of no group": lambda _: beat("", -1, ""),
}
for _title, _make in _ASKS.items():
    BOOK.ask(_title, _make)

BOOK.ask(
    "a static member of an unknown group",
    lambda s: beat(s.name(), 1, "who", "me"),
    versions="3+",
    source=_STATIC,
)


@BOOK.play("a stable group", versions="0-4")
def _stable(stage: Stage) -> None:
    for each in PlayedGroup(stage).settle("a", "b"):
        stage.ask(each.beat(), by=each.name)


@BOOK.play("a group that waits for its assignment", versions=_FEW)
def _completing(stage: Stage) -> None:
    """The leader and a follower hear nothing of a rebalance that they are part of."""
    for each in PlayedGroup(stage).gather("a", "b"):
        stage.ask(each.beat(), by=each.name)


@BOOK.play("a rebalance", versions="0-4")
def _preparing(stage: Stage) -> None:
    """All members must rejoin."""
    group = PlayedGroup(stage)
    members = group.settle("a", "b")
    group.member("c").starts(JOIN, is_compared=False)
    members[0].must_rejoin()
    for each in members:
        stage.ask(each.beat(), by=each.name)


@BOOK.play("a rebalance that the member has rejoined", versions=_FEW)
def _rejoined(stage: Stage) -> None:
    """A member whose join waits is still asked to rejoin."""
    group = PlayedGroup(stage)
    first, _ = group.settle("a", "b")
    group.member("c").starts(JOIN, is_compared=False)
    first.must_rejoin()
    first.starts(JOIN, is_compared=False)
    stage.ask(first.beat(), by="another")


@BOOK.play("a wrong generation in a rebalance", versions=_FEW)
def _wrong_in_rebalance(stage: Stage) -> None:
    """The generation is looked at before the state of the group."""
    group = PlayedGroup(stage)
    (first,) = group.settle("a")
    group.member("b").starts(JOIN, is_compared=False)
    first.must_rejoin()
    stage.ask(first.beat(generation=0))
    stage.ask(first.beat(member="who"))


_WRONG: dict[str, dict[str, Any]] = {
    "the next generation": {"generation": 2},
    "the generation before": {"generation": 0},
    "generation minus 1": {"generation": -1},
    "an unknown member": {"member": "who"},
    "no member": {"member": ""},
    "an unknown member in a wrong generation": {"member": "who", "generation": 9},
}
for _title, _options in _WRONG.items():

    @BOOK.play(_title, versions=_FEW)
    def _wrong(stage: Stage, options: dict[str, Any] = _options) -> None:
        (member,) = PlayedGroup(stage).settle("a")
        stage.ask(member.beat(**options))

    @BOOK.play(f"{_title}, before the assignment", versions="0,4")
    def _wrong_early(stage: Stage, options: dict[str, Any] = _options) -> None:
        (member,) = PlayedGroup(stage).gather("a")
        stage.ask(member.beat(**options))


@BOOK.play("the generation before, after a rebalance", versions=_FEW)
def _after_rebalance(stage: Stage) -> None:
    group = PlayedGroup(stage)
    first, second = group.settle("a", "b")
    stage.ask(first.beat(generation=1))
    stage.ask(second.beat(generation=1))
    stage.ask(second.beat())


@BOOK.play("a member that has left", versions=_FEW)
def _has_left(stage: Stage) -> None:
    """The group is empty, or has another member that must rejoin."""
    group = PlayedGroup(stage)
    first, second = group.settle("a", "b")
    group.loses(second)
    stage.ask(second.beat())
    stage.ask(first.beat())
    group.loses(first)
    stage.ask(first.beat())


@BOOK.play("a member of a deleted group", versions=_FEW)
def _deleted(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    group.loses(member)
    stage.do(deleted(group.name), 1)
    stage.ask(member.beat())


@BOOK.play("a group with offsets only", versions=_FEW)
def _simple(stage: Stage) -> None:
    group = PlayedGroup(stage)
    group.commit(stage.topic)
    stage.ask(beat(group.name, -1, ""))
    stage.ask(beat(group.name, 0, "who"))


@BOOK.play("an id that was given only", versions=_FEW, source="KIP-394")
def _pending(stage: Stage) -> None:
    """A pending member of an empty group, and of a group with a member."""
    group = PlayedGroup(stage)
    pending, late = group.member("a"), group.member("c")
    pending.gets_id()
    stage.ask(pending.beat(generation=-1))
    stage.ask(pending.beat(generation=0))
    group.settle("b")
    late.gets_id()
    stage.ask(late.beat(generation=1))


@BOOK.play("the id of another group", versions="0,4")
def _foreign(stage: Stage) -> None:
    (first,) = PlayedGroup(stage, "one").settle("a")
    other = PlayedGroup(stage, "two")
    other.settle("b")
    stage.ask(beat(other.name, 1, first.id))


@BOOK.play("a member that misses the rebalance", versions="0,4", source="KIP-62")
def _misses(stage: Stage) -> None:
    """A member is removed if it does not rejoin within the rebalance timeout."""
    group = PlayedGroup(stage)
    (first,) = group.settle(group.member("a", rebalance_ms=2500))
    second = group.member("b", rebalance_ms=2500)
    second.starts(JOIN, is_compared=False).answer()
    stage.ask(first.beat())
    stage.ask(second.beat(), by="b")


@BOOK.play("a session that heartbeats keep", versions="4", source="KIP-62")
def _kept(stage: Stage) -> None:
    """A member without heartbeats is removed after its session, and one with heartbeats stays."""
    group = PlayedGroup(stage)
    _, kept = group.settle(
        group.member("a", session_ms=6000, rebalance_ms=2500),
        group.member("b", session_ms=6000, rebalance_ms=2500),
    )
    kept.must_rejoin()
    kept.starts(JOIN, is_compared=False).answer()
    stage.ask(group.members[0].beat())
    stage.ask(kept.beat())


@BOOK.play("a session that commits keep", versions="4", source="KIP-62")
def _committing(stage: Stage) -> None:
    """A commit counts as a heartbeat."""
    group = PlayedGroup(stage)
    silent, kept = group.settle(
        group.member("a", session_ms=6000), group.member("b", session_ms=6000)
    )

    def is_alone() -> bool:
        answer: Any = stage.do(kept.commit(stage.topic, metadata=""), 8)
        assert answer.topics[0].partitions[0].error_code == 0, answer
        return group.state() == "PreparingRebalance"

    stage.until(is_alone, "a rebalance")
    stage.ask(silent.beat())
    stage.ask(kept.beat())


# Static members (KIP-345)


@BOOK.play("a static member", versions="3-4", source=_STATIC)
def _static(stage: Stage) -> None:
    """With and without its instance id, and with another instance id."""
    group = PlayedGroup(stage)
    (member,) = group.settle(group.member("a", "me"))
    stage.ask(member.beat())
    stage.ask(member.beat(instance=None))
    stage.ask(member.beat(instance="other"))
    stage.ask(member.beat(instance=""))
    stage.ask(member.beat(member="who"))
    stage.ask(member.beat(member="who", generation=9))
    stage.ask(member.beat(member=""))


@BOOK.play("a static member that came back", versions="3-4", source=_STATIC)
def _static_again(stage: Stage) -> None:
    """The old id is fenced, if it says its instance id."""
    group = PlayedGroup(stage)
    _, member = group.settle(group.member("a"), group.member("b", "me"))
    old = member.id
    member.id = ""
    member.starts(JOIN, is_compared=False).answer()
    stage.ask(member.beat(member=old))
    stage.ask(member.beat(member=old, generation=9))
    stage.ask(member.beat(member=old, instance=None))
    stage.ask(member.beat())
    stage.ask(member.beat(generation=1))


@BOOK.play("the instance id of another member", versions="3-4", source=_STATIC)
def _other_instance(stage: Stage) -> None:
    group = PlayedGroup(stage)
    group.settle(group.member("a", "one"), group.member("b", "two"), group.member("c"))
    first, _, dynamic = group.members
    stage.ask(first.beat(instance="two"))
    stage.ask(dynamic.beat(instance="two"))
    stage.ask(dynamic.beat(instance="three"))


@BOOK.play("a static member that misses the rebalance", versions="3-4", source=_STATIC)
def _static_misses(stage: Stage) -> None:
    """A static member stays in the group, of whose generation it knows nothing."""
    group = PlayedGroup(stage)
    (first,) = group.settle(group.member("a", "me", rebalance_ms=2500))
    second = group.member("b", rebalance_ms=2500)
    second.starts(JOIN, is_compared=False).answer()
    stage.ask(first.beat())
    stage.ask(first.beat(generation=2))


@BOOK.play("a static member that has left", versions="3-4", source=_STATIC)
def _static_left(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle(group.member("a", "me"))
    stage.do(leave(group.name, ("", "me")), 3)
    stage.ask(member.beat())
    stage.ask(member.beat(instance=None))
