"""LeaveGroup: members that leave, alone and together, by their ids and by their instance ids."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.classic_groups.classic import (
    JOIN,
    PlayedGroup,
    PlayedMember,
    deleted,
    leave,
)
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.leave_group import LeaveGroupRequest

BOOK = Book(LeaveGroupRequest, "classic groups", ConformanceLevel.CORE, "LeaveGroupRequest.json")
_STATIC = "KIP-345"
_FEW = "0,3,5"
"""The oldest version, the first with several members, the newest."""
_ONES, _SEVERAL = "0-5", "3,5"

_ASKS: dict[str, Make] = {
    "an unknown group": lambda s: leave(s.name(), "who"),
    "no group": lambda _: leave("", "who"),
    "no member of an unknown group": lambda s: leave(s.name(), ""),
    "no member of no group": lambda _: leave("", ""),
}
for _title, _make in _ASKS.items():
    BOOK.ask(_title, _make)

_STATIC_ASKS: dict[str, Make] = {
    "an instance id of an unknown group": lambda s: leave(s.name(), ("", "me")),
    "nobody of an unknown group": lambda s: leave(s.name()),
    "nobody of no group": lambda _: leave(""),
    "several of an unknown group": lambda s: leave(s.name(), "who", ("", "me"), ("who", "me")),
}
for _title, _make in _STATIC_ASKS.items():
    BOOK.ask(_title, _make, versions="3+", source=_STATIC)


def _shown(stage: Stage, group: PlayedGroup, *others: PlayedMember) -> None:
    """Compare what the others hear, and the state of the group."""
    for each in others:
        stage.note(f"member {each.name}", each.error().name)
    stage.note("the state of the group", group.state())


@BOOK.play("the only member", versions=_ONES)
def _only(stage: Stage) -> None:
    """The group is empty."""
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    stage.ask(member.leave())
    _shown(stage, group, member)


@BOOK.play("a follower", versions=_FEW)
def _follower(stage: Stage) -> None:
    """The others must rejoin."""
    group = PlayedGroup(stage)
    leader, follower = group.settle("a", "b")
    stage.ask(follower.leave())
    _shown(stage, group, leader, follower)


@BOOK.play("the leader", versions=_FEW)
def _leader(stage: Stage) -> None:
    group = PlayedGroup(stage)
    leader, follower = group.settle("a", "b")
    stage.ask(leader.leave())
    _shown(stage, group, leader, follower)


@BOOK.play("a member that leaves twice", versions=_FEW)
def _twice(stage: Stage) -> None:
    group = PlayedGroup(stage)
    first, second = group.settle("a", "b")
    stage.ask(first.leave())
    stage.ask(first.leave())
    stage.ask(second.leave())
    stage.ask(second.leave())


@BOOK.play("a member of a deleted group", versions=_FEW)
def _deleted(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    group.loses(member)
    stage.do(deleted(group.name), 1)
    stage.ask(member.leave())


@BOOK.play("an unknown member", versions=_FEW)
def _unknown(stage: Stage) -> None:
    """The group is not disturbed."""
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    stage.ask(leave(group.name, "who"))
    _shown(stage, group, member)


@BOOK.play("no member id", versions=_FEW)
def _no_id(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    stage.ask(leave(group.name, ""))
    _shown(stage, group, member)


@BOOK.play("a group with offsets only", versions=_FEW)
def _simple(stage: Stage) -> None:
    group = PlayedGroup(stage)
    group.commit(stage.topic)
    stage.ask(leave(group.name, "who"))
    stage.note("the state of the group", group.state())


@BOOK.play("before the assignment", versions=_FEW)
def _completing(stage: Stage) -> None:
    """A follower leaves while the group waits for its assignment."""
    group = PlayedGroup(stage)
    leader, follower = group.gather("a", "b")
    stage.ask(follower.leave())
    _shown(stage, group, leader)


@BOOK.play("the only member before the assignment", versions=_FEW)
def _only_completing(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.gather("a")
    stage.ask(member.leave())
    _shown(stage, group, member)


@BOOK.play("a rebalance that ends with it", versions=_FEW)
def _ends_rebalance(stage: Stage) -> None:
    """The last member that has not rejoined leaves."""
    group = PlayedGroup(stage)
    (first,) = group.settle("a")
    joining = group.member("b").starts(JOIN)
    first.must_rejoin()
    stage.ask(first.leave())
    joining.answer()
    _shown(stage, group, first)


@BOOK.play("a member whose join waits", versions=_FEW)
def _waiting(stage: Stage) -> None:
    """The join of a member that leaves by another connection."""
    group = PlayedGroup(stage)
    (first,) = group.settle("a")
    second = group.member("b")
    second.gets_id()
    joining = second.starts(JOIN)
    first.must_rejoin()
    stage.ask(second.leave(), by="another")
    joining.answer()
    _shown(stage, group, first)


@BOOK.play("an id that was given only", versions=_FEW, source="KIP-394")
def _pending(stage: Stage) -> None:
    """A pending member leaves an empty group, and leaves it again."""
    group = PlayedGroup(stage)
    pending = group.member("a")
    pending.gets_id()
    stage.ask(pending.leave())
    stage.ask(pending.leave())
    stage.ask(pending.join(), JOIN)


@BOOK.play("an id that was given only, of a stable group", versions=_FEW, source="KIP-394")
def _pending_of_stable(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    pending = group.member("b")
    pending.gets_id()
    stage.ask(pending.leave())
    _shown(stage, group, member)


# Several members, and static ones (KIP-345)


@BOOK.play("nobody", versions=_SEVERAL, source=_STATIC)
def _nobody(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    stage.ask(leave(group.name))
    _shown(stage, group, member)


@BOOK.play("two of three members", versions=_SEVERAL, source=_STATIC)
def _two_of_three(stage: Stage) -> None:
    group = PlayedGroup(stage)
    first, second, third = group.settle("a", "b", "c")
    stage.ask(leave(group.name, first.id, third.id))
    _shown(stage, group, second)


@BOOK.play("all members at once", versions=_SEVERAL, source=_STATIC)
def _all(stage: Stage) -> None:
    group = PlayedGroup(stage)
    first, second = group.settle(group.member("a", "me"), group.member("b"))
    stage.ask(leave(group.name, second.id, ("", "me")))
    _shown(stage, group, first, second)


@BOOK.play("a member twice in a request", versions=_SEVERAL, source=_STATIC)
def _doubled(stage: Stage) -> None:
    group = PlayedGroup(stage)
    first, second = group.settle("a", "b")
    stage.ask(leave(group.name, second.id, second.id))
    _shown(stage, group, first)


@BOOK.play("known and unknown members", versions=_SEVERAL, source=_STATIC)
def _mixed(stage: Stage) -> None:
    """Each member of a request has an error of its own."""
    group = PlayedGroup(stage)
    first, second, third = group.settle("a", group.member("b", "me"), group.member("c", "you"))
    stage.ask(
        leave(group.name, first.id, "who", ("", "me"), ("", "nobody"), ("who", "you"), ("", None))
    )
    _shown(stage, group, first, second, third)


@BOOK.play("a static member by its instance id", versions=_SEVERAL, source=_STATIC)
def _by_instance(stage: Stage) -> None:
    group = PlayedGroup(stage)
    first, second = group.settle("a", group.member("b", "me"))
    stage.ask(leave(group.name, ("", "me")))
    stage.ask(leave(group.name, ("", "me")))
    _shown(stage, group, first, second)


@BOOK.play("a static member by both ids", versions=_SEVERAL, source=_STATIC)
def _by_both(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle(group.member("a", "me"))
    stage.ask(member.leave())
    _shown(stage, group, member)


@BOOK.play("a static member by its member id", versions="0-5", source=_STATIC)
def _by_id(stage: Stage) -> None:
    """Older clients know no instance ids."""
    group = PlayedGroup(stage)
    (member,) = group.settle(group.member("a", "me"))
    stage.ask(leave(group.name, member.id))
    _shown(stage, group, member)


_WRONG: dict[str, Any] = {
    "a static member with a wrong id": lambda _: ("who", "me"),
    "an unknown instance id": lambda _: ("", "other"),
    "an unknown instance id with the id of a member": lambda id: (id, "other"),
    "an empty instance id": lambda _: ("", ""),
}
for _title, _identity in _WRONG.items():

    @BOOK.play(_title, versions=_SEVERAL, source=_STATIC)
    def _wrong(stage: Stage, identity: Any = _identity) -> None:
        group = PlayedGroup(stage)
        (member,) = group.settle(group.member("a", "me"))
        stage.ask(leave(group.name, identity(member.id)))
        _shown(stage, group, member)


@BOOK.play("a static member that came back", versions=_SEVERAL, source=_STATIC)
def _replaced(stage: Stage) -> None:
    """The old id is fenced with the instance id, and unknown without it."""
    group = PlayedGroup(stage)
    _, member = group.settle("a", group.member("b", "me"))
    old = member.id
    member.id = ""
    member.starts(JOIN, is_compared=False).answer()
    stage.ask(leave(group.name, (old, "me")))
    stage.ask(leave(group.name, old))
    _shown(stage, group, member)
    stage.ask(leave(group.name, ("", "me")))
    _shown(stage, group, member)


@BOOK.play("a dynamic member with an instance id", versions=_SEVERAL, source=_STATIC)
def _dynamic(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    stage.ask(leave(group.name, (member.id, "me")))
    _shown(stage, group, member)


@BOOK.play("a reason", versions="5", source="KIP-800")
def _reason(stage: Stage) -> None:
    """A reason, even a long one, makes no difference."""
    group = PlayedGroup(stage)
    first, second = group.settle("a", "b")
    for member, reason in ((first, "the consumer is being closed"), (second, "r" * 5000)):
        request = leave(group.name, member.id)
        request.members[0].reason = reason
        stage.ask(request)
    stage.note("the state of the group", group.state())
