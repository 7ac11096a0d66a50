"""JoinGroup: static members, which keep their place when they come back (KIP-345, KIP-814)."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.cases.classic_groups.classic import (
    JOIN,
    LONG_WAIT_S,
    SYNC,
    PlayedGroup,
    PlayedMember,
    leave,
    subscription,
)
from wirekafka.conformance.cases.classic_groups.join_group import BOOK as _BOOK
from wirekafka.conformance.stage import Stage
from wirekafka.errors import Error

_ALL = "5-9"
_FEW = "5,8-9"
"""The first version, and the versions before and after SkipAssignment."""
_ENDS = "5,9"


def _comes_back(member: PlayedMember, **changes: Any) -> str:
    """Join without an id, and compare the answer; returns the id before."""
    old, member.id = member.id, ""
    member.asks(**changes)
    return old


@_BOOK.play("a static member joins without an id", versions=_ALL, source="KIP-345")
def _joins(stage: Stage) -> None:
    """A static member needs no second join."""
    PlayedGroup(stage).member("a", "me").asks()


@_BOOK.play("two static members", versions=_ENDS, source="KIP-345")
def _two(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (first,) = group.settle(group.member("a", "one"))
    joining = group.member("b", "two").starts()
    first.must_rejoin()
    first.asks()
    joining.answer()


@_BOOK.play("a static leader comes back", versions=_ALL, source="KIP-814")
def _leader(stage: Stage) -> None:
    """Without a rebalance; from version 9 the leader is said to skip the assignment."""
    group = PlayedGroup(stage)
    (leader,) = group.settle(group.member("a", "me"))
    _comes_back(leader)
    stage.note("the state of the group", group.state())


@_BOOK.play("a static leader of two comes back", versions=_FEW, source="KIP-814")
def _leader_of_two(stage: Stage) -> None:
    """Version 9 gives the new leader the list of members."""
    group = PlayedGroup(stage)
    leader, follower = group.settle(group.member("a", "me"), group.member("b"))
    _comes_back(leader)
    stage.note("the other member", follower.error().name)
    found = stage.do(leader.sync(), SYNC)
    stage.note("the assignment", found.assignment)


@_BOOK.play("a static follower comes back", versions=_ALL, source="KIP-345")
def _follower(stage: Stage) -> None:
    """The others are not disturbed."""
    group = PlayedGroup(stage)
    leader, follower = group.settle(group.member("a"), group.member("b", "me"))
    _comes_back(follower)
    stage.note("the other member", leader.error().name)
    stage.note("the assignment", stage.do(follower.sync(), SYNC).assignment)


@_BOOK.play("a static follower comes back twice", versions=_ENDS, source="KIP-345")
def _follower_twice(stage: Stage) -> None:
    group = PlayedGroup(stage)
    _, follower = group.settle(group.member("a"), group.member("b", "me"))
    first = _comes_back(follower)
    second = _comes_back(follower)
    stage.note("three ids", len({first, second, follower.id}))
    stage.ask(follower.join(member=second))


@_BOOK.play("the old id of a static member", versions=_ENDS, source="KIP-345")
def _old_id(stage: Stage) -> None:
    """The old id is fenced with the instance id, and unknown without it."""
    group = PlayedGroup(stage)
    (member,) = group.settle(group.member("a", "me"))
    old, member.id = member.id, ""
    member.starts(JOIN, is_compared=False).answer()
    stage.ask(member.join(member=old))
    stage.ask(member.join(member=old, instance=None))


_CHANGES: dict[str, dict[str, Any]] = {
    "other metadata": {"metadata": subscription(user_data=b"another")},
    "one more protocol": {"protocols": ["range", "sticky"]},
}
for _title, _options in _CHANGES.items():

    @_BOOK.play(f"a static member comes back with {_title}", versions=_ENDS, source="KIP-345")
    def _changed(stage: Stage, options: dict[str, Any] = _options) -> None:
        """There is no rebalance while the choice of the protocol stays the same."""
        group = PlayedGroup(stage)
        (member,) = group.settle(group.member("a", "me"))
        _comes_back(member, **options)
        stage.note("the state of the group", group.state())


@_BOOK.play(
    "a static member comes back with a protocol that changes the choice",
    versions=_ENDS,
    source="KIP-345",
)
def _changed_choice(stage: Stage) -> None:
    """Another protocol would be chosen now: a rebalance."""
    group = PlayedGroup(stage)
    (member,) = group.settle(group.member("a", "me", protocols=["range", "sticky"]))
    _comes_back(member, protocols=["sticky", "range"])
    stage.note("the state of the group", group.state())


@_BOOK.play("a static follower comes back with other metadata", versions=_ENDS, source="KIP-345")
def _changed_follower(stage: Stage) -> None:
    """The others are not disturbed."""
    group = PlayedGroup(stage)
    leader, follower = group.settle(group.member("a"), group.member("b", "me"))
    _comes_back(follower, metadata=subscription(user_data=b"another"))
    stage.note("the other member", leader.error().name)


@_BOOK.play(
    "a static member comes back with a protocol that nobody else has",
    versions=_ENDS,
    source="KIP-345",
)
def _misfit(stage: Stage) -> None:
    """The old id stays what it was."""
    group = PlayedGroup(stage)
    _, member = group.settle(group.member("a"), group.member("b", "me"))
    stage.ask(member.join(member="", protocols=["sticky"]))
    stage.note("the old id", member.error().name)


@_BOOK.play("a static member comes back before the assignment", versions=_ENDS, source="KIP-345")
def _before_assignment(stage: Stage) -> None:
    """A new id begins another rebalance while the group waits for its assignment."""
    group = PlayedGroup(stage)
    leader, follower = group.gather(group.member("a"), group.member("b", "me"))
    follower.id = ""
    joining = follower.starts()
    leader.must_rejoin()
    leader.asks()
    joining.answer()


@_BOOK.play("a static member comes back while its join waits", versions=_ENDS, source="KIP-345")
def _waiting(stage: Stage) -> None:
    """The join that waits is answered with FENCED_INSTANCE_ID."""
    group = PlayedGroup(stage)
    (leader,) = group.settle("a")
    first, second = group.member("b", "me"), group.member("c", "me")
    fenced = first.starts()
    leader.must_rejoin()
    joining = second.starts()
    fenced.answer()
    leader.asks()
    joining.answer()


@_BOOK.play("a static member comes back while its sync waits", versions=_ENDS, source="KIP-345")
def _waiting_sync(stage: Stage) -> None:
    group = PlayedGroup(stage)
    leader, follower = group.gather(group.member("a"), group.member("b", "me"))
    waiting = stage.send(follower.sync(), SYNC, by="b")
    follower.id = ""
    again = group.member("c", "me")
    joining = again.starts()
    stage.note("the sync", Error.of(waiting.answer(LONG_WAIT_S).error_code).name)
    leader.must_rejoin()
    leader.asks()
    joining.answer()


@_BOOK.play("a static member rejoins by its id", versions=_ENDS, source="KIP-345")
def _by_id(stage: Stage) -> None:
    """A follower with its id gets its generation again; a leader begins a rebalance."""
    group = PlayedGroup(stage)
    leader, follower = group.settle(group.member("a", "one"), group.member("b", "two"))
    follower.asks()
    joining = leader.starts()
    follower.must_rejoin()
    follower.asks()
    joining.answer()


@_BOOK.play("a static member rejoins without its instance id", versions=_ENDS, source="KIP-345")
def _without_instance(stage: Stage) -> None:
    group = PlayedGroup(stage)
    _, follower = group.settle(group.member("a"), group.member("b", "me"))
    stage.ask(follower.join(instance=None))
    stage.note("the state of the group", group.state())


@_BOOK.play("a static member rejoins with a wrong id", versions=_ENDS, source="KIP-345")
def _wrong_id(stage: Stage) -> None:
    """Fenced, whoever it is."""
    group = PlayedGroup(stage)
    first, second = group.settle(group.member("a", "one"), group.member("b", "two"))
    stage.ask(first.join(member="who"))
    stage.ask(first.join(member=second.id))


@_BOOK.play("an instance id that is not in the group", versions=_ENDS, source="KIP-345")
def _unknown_instance(stage: Stage) -> None:
    """A member's id with another instance id, and a dynamic member's id with one."""
    group = PlayedGroup(stage)
    first, second = group.settle(group.member("a", "one"), group.member("b"))
    stage.ask(first.join(instance="two"))
    stage.ask(second.join(instance="two"))
    stage.note("the state of the group", group.state())


@_BOOK.play("a static member after it has left", versions=_ENDS, source="KIP-345")
def _left(stage: Stage) -> None:
    """Its old id is unknown; without an id it is a new member."""
    group = PlayedGroup(stage)
    (member,) = group.settle(group.member("a", "me"))
    stage.do(leave(group.name, ("", "me")), 3)
    stage.ask(member.join())
    _comes_back(member)


@_BOOK.play("a dynamic member beside a static one", versions=_ENDS, source="KIP-345")
def _dynamic(stage: Stage) -> None:
    """A dynamic member must get an id first; the leader's list has the instance id."""
    group = PlayedGroup(stage)
    (static,) = group.settle(group.member("a", "me"))
    second = group.member("b")
    second.take(stage.ask(second.join(), by="b"))
    joining = second.starts()
    static.must_rejoin()
    static.asks()
    joining.answer()


@_BOOK.play("a static leader comes back in version 9 and rejoins", versions="9", source="KIP-814")
def _skips_and_rejoins(stage: Stage) -> None:
    """A leader that skips the assignment can begin a rebalance with its new id."""
    group = PlayedGroup(stage)
    leader, follower = group.settle(group.member("a", "me"), group.member("b"))
    _comes_back(leader)
    joining = leader.starts()
    follower.must_rejoin()
    follower.asks()
    joining.answer()


@_BOOK.play("the same instance id in two groups", versions=_ENDS, source="KIP-345")
def _two_groups(stage: Stage) -> None:
    """An instance id is known to one group only."""
    first, second = PlayedGroup(stage, "one"), PlayedGroup(stage, "two")
    (member,) = first.settle(first.member("a", "me"))
    second.member("b", "me").asks()
    stage.note("the first", member.error().name)


@_BOOK.play("a silent static member", versions="9", source="KIP-345")
def _silent(stage: Stage) -> None:
    """A static member is removed after its session, and a new member then."""
    group = PlayedGroup(stage)
    (member,) = group.settle(group.member("a", "me", session_ms=6000))
    stage.until(lambda: group.state() == "Empty", "an empty group")
    stage.ask(member.join())
    _comes_back(member)
