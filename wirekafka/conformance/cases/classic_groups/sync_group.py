"""SyncGroup: who gets which assignment, and when."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.classic_groups.classic import (
    JOIN,
    LONG_WAIT_S,
    PlayedGroup,
    deleted,
    leave,
    sync,
)
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.sync_group import SyncGroupRequest

BOOK = Book(SyncGroupRequest, "classic groups", ConformanceLevel.CORE, "SyncGroupRequest.json")
_STATIC = "KIP-345"
_FEW = "0,3,5"
"""The oldest version, the first with static members, the first with protocols."""

_ASKS: dict[str, Make] = {
    "an unknown group": lambda s: sync(s.name(), 1, "who"),
    "no group": lambda _: sync("", 1, "who"),
    "no member of an unknown group": lambda s: sync(s.name(), -1, ""),
    "an unknown group with an assignment": lambda s: sync(s.name(), 1, "who", ("who", b"x")),
}
for _title, _make in _ASKS.items():
    BOOK.ask(_title, _make)

_PROTOCOL_ASKS: dict[str, Make] = {
    "no protocol type": lambda s: sync(s.name(), 1, "who", kind=None),
    "no protocol": lambda s: sync(s.name(), 1, "who", protocol=None),
    "neither type nor protocol": lambda s: sync(s.name(), 1, "who", kind=None, protocol=None),
    "no type in no group": lambda _: sync("", 1, "who", kind=None),
}
for _title, _make in _PROTOCOL_ASKS.items():
    BOOK.ask(_title, _make, versions="5+", source="KIP-559")

BOOK.ask(
    "a static member of an unknown group",
    lambda s: sync(s.name(), 1, "who", instance="me"),
    versions="3+",
    source=_STATIC,
)


@BOOK.play("the leader", versions="0-5")
def _leader(stage: Stage) -> None:
    """The leader gets what it has assigned to itself."""
    group = PlayedGroup(stage)
    (leader,) = group.gather("a")
    stage.ask(leader.sync((leader.id, b"all of it")))
    stage.note("the state of the group", group.state())


@BOOK.play("two members", versions="0-5")
def _two_members(stage: Stage) -> None:
    """Each member gets its own part."""
    group = PlayedGroup(stage)
    leader, follower = group.gather("a", "b")
    stage.ask(leader.sync((leader.id, b"one half"), (follower.id, b"another half")))
    stage.ask(follower.sync(), by="b")


@BOOK.play("a follower before the leader", versions=_FEW)
def _follower_first(stage: Stage) -> None:
    """The follower waits for the assignment."""
    group = PlayedGroup(stage)
    leader, follower = group.gather("a", "b")
    waiting = stage.send(follower.sync(), by="b")
    stage.note("the state of the group", group.state())
    stage.ask(leader.sync((leader.id, b"one half"), (follower.id, b"another half")))
    waiting.answer()


@BOOK.play("two followers before the leader", versions="0,5")
def _followers_first(stage: Stage) -> None:
    group = PlayedGroup(stage)
    leader, second, third = group.gather("a", "b", "c")
    waiting = [stage.send(each.sync(), by=each.name) for each in (second, third)]
    stage.ask(leader.sync((second.id, b"for b"), (third.id, b"for c"), (leader.id, b"for a")))
    for each in waiting:
        each.answer()


@BOOK.play("an assignment from a follower", versions=_FEW)
def _assigning_follower(stage: Stage) -> None:
    """What a follower assigns is ignored."""
    group = PlayedGroup(stage)
    leader, follower = group.gather("a", "b")
    waiting = stage.send(follower.sync((leader.id, b"bad"), (follower.id, b"bad")), by="b")
    stage.ask(leader.sync((leader.id, b"good"), (follower.id, b"fine")))
    waiting.answer()


_ASSIGNMENTS: dict[str, Any] = {
    "no assignment": lambda _: (),
    "an empty assignment": lambda id: ((id, b""),),
    "an assignment to an unknown member only": lambda _: (("who", b"x"),),
    "an assignment to an unknown member, too": lambda id: (("who", b"x"), (id, b"y")),
    "an assignment of 100 kB": lambda id: ((id, b"x" * 100_000),),
    "an assignment that is no assignment": lambda id: ((id, b"\xff\xff\0\x01"),),
}
for _title, _make_assignment in _ASSIGNMENTS.items():

    @BOOK.play(_title, versions="0,5")
    def _assignment(stage: Stage, make: Any = _make_assignment) -> None:
        """The group does not look into assignments, and is stable with any."""
        group = PlayedGroup(stage)
        (leader,) = group.gather("a")
        stage.ask(leader.sync(*make(leader.id)))
        stage.note("the state of the group", group.state())


@BOOK.play("an assignment that leaves out a follower", versions="0,5")
def _left_out(stage: Stage) -> None:
    """Members without a part get an empty one."""
    group = PlayedGroup(stage)
    leader, follower = group.gather("a", "b")
    stage.ask(leader.sync((leader.id, b"all of it")))
    stage.ask(follower.sync(), by="b")


@BOOK.play("a sync repeated", versions=_FEW)
def _repeated(stage: Stage) -> None:
    """In a stable group, members get their assignments again."""
    group = PlayedGroup(stage)
    leader, follower = group.settle("a", "b")
    stage.ask(leader.sync())
    stage.ask(follower.sync(), by="b")


@BOOK.play("another assignment from the leader of a stable group", versions=_FEW)
def _another_assignment(stage: Stage) -> None:
    """The first assignment of a generation stays."""
    group = PlayedGroup(stage)
    leader, follower = group.settle("a", "b")
    stage.ask(leader.sync((leader.id, b"other"), (follower.id, b"other")))
    stage.ask(follower.sync(), by="b")


@BOOK.play("a rebalance without a new join", versions=_FEW)
def _in_rebalance(stage: Stage) -> None:
    """A member must rejoin before it gets an assignment."""
    group = PlayedGroup(stage)
    (leader,) = group.settle("a")
    group.member("b").starts(JOIN, is_compared=False)
    leader.must_rejoin()
    stage.ask(leader.sync((leader.id, b"all of it")), by="c")


@BOOK.play("a join that ends the wait for an assignment", versions="0,5")
def _interrupted(stage: Stage) -> None:
    """A follower that waits for its assignment must rejoin."""
    group = PlayedGroup(stage)
    _, follower = group.gather("a", "b")
    waiting = stage.send(follower.sync(), by="b")
    group.member("c").starts(JOIN, is_compared=False)
    waiting.answer(LONG_WAIT_S)


@BOOK.play("a leader that leaves before the assignment", versions="0,5")
def _leader_leaves(stage: Stage) -> None:
    """A follower that waits for its assignment must rejoin."""
    group = PlayedGroup(stage)
    leader, follower = group.gather("a", "b")
    waiting = stage.send(follower.sync(), by="b")
    stage.do(leader.leave(), 3, by="a")
    waiting.answer(LONG_WAIT_S)


@BOOK.play("a leader without an assignment in time", versions="5")
def _late_leader(stage: Stage) -> None:
    """The leader is removed after the rebalance timeout, and the others must rejoin."""
    group = PlayedGroup(stage)
    names = ("a", "b")
    leader, follower = group.gather(*(group.member(each, rebalance_ms=2500) for each in names))
    stage.send(follower.sync(), by="b").answer(LONG_WAIT_S)
    leader.must_be_gone()
    stage.ask(leader.sync((leader.id, b"late")))


@BOOK.play("the generation before", versions=_FEW)
def _old_generation(stage: Stage) -> None:
    group = PlayedGroup(stage)
    leader, _ = group.gather("a", "b")
    stage.ask(leader.sync((leader.id, b"x"), generation=1))


_WRONG: dict[str, dict[str, Any]] = {
    "the next generation": {"generation": 2},
    "generation minus 1": {"generation": -1},
    "generation 0": {"generation": 0},
    "an unknown member": {"member": "who"},
    "no member": {"member": ""},
}
_WRONG_PROTOCOL: dict[str, dict[str, Any]] = {
    "another protocol type": {"kind": "connect"},
    "another protocol": {"protocol": "roundrobin"},
    "an empty protocol type": {"kind": ""},
    "an empty protocol": {"protocol": ""},
    "another protocol and another generation": {"protocol": "roundrobin", "generation": 7},
    "another protocol and an unknown member": {"protocol": "roundrobin", "member": "who"},
}
_WRONG_INSTANCE: dict[str, dict[str, Any]] = {
    "an unknown instance id": {"instance": "other"},
    "an unknown instance id in another generation": {"instance": "other", "generation": 7},
}
for _all_wrong, _versions, _source in (
    (_WRONG, "0,3,5", ""),
    (_WRONG_PROTOCOL, "5", "KIP-559"),
    (_WRONG_INSTANCE, "3,5", _STATIC),
):
    for _title, _options in _all_wrong.items():

        @BOOK.play(_title, versions=_versions, source=_source)
        def _wrong(stage: Stage, options: dict[str, Any] = _options) -> None:
            """The group waits for its assignment, and goes on to wait."""
            group = PlayedGroup(stage)
            (leader,) = group.gather("a")
            stage.ask(leader.sync((leader.id, b"x"), **options))
            stage.note("the state of the group", group.state())

        @BOOK.play(f"{_title}, in a stable group", versions=_versions.split(",")[-1])
        def _wrong_stable(stage: Stage, options: dict[str, Any] = _options) -> None:
            (leader,) = PlayedGroup(stage).settle("a")
            stage.ask(leader.sync((leader.id, b"x"), **options))


@BOOK.play("protocols left out", versions="5", source="KIP-559")
def _without_protocols(stage: Stage) -> None:
    """A member must say both the protocol type and the protocol."""
    (leader,) = PlayedGroup(stage).gather("a")
    stage.ask(leader.sync((leader.id, b"x"), kind=None))
    stage.ask(leader.sync((leader.id, b"x"), protocol=None))
    stage.ask(leader.sync((leader.id, b"x"), kind=None, protocol=None))


@BOOK.play("the protocol that was chosen", versions="3,5", source="KIP-559")
def _chosen(stage: Stage) -> None:
    """The answer names the protocol that the group has chosen, not the first one."""
    group = PlayedGroup(stage)
    leader, _ = group.gather(
        group.member("a", protocols=["sticky", "range"], kind="own"),
        group.member("b", protocols=["range"], kind="own"),
    )
    stage.ask(leader.sync((leader.id, b"x"), kind="own", protocol="sticky"))
    stage.ask(leader.sync((leader.id, b"x"), kind="own"))


@BOOK.play("a member that has left", versions=_FEW)
def _has_left(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    group.loses(member)
    stage.ask(member.sync((member.id, b"x")))


@BOOK.play("a member of a deleted group", versions=_FEW)
def _deleted(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    group.loses(member)
    stage.do(deleted(group.name), 1)
    stage.ask(member.sync((member.id, b"x")))


@BOOK.play("an id that was given only", versions=_FEW, source="KIP-394")
def _pending(stage: Stage) -> None:
    """A pending member is no member."""
    group = PlayedGroup(stage)
    group.gather("a")
    pending = group.member("b")
    pending.gets_id()
    stage.ask(pending.sync(generation=1), by="b")


@BOOK.play("a group with offsets only", versions=_FEW)
def _simple(stage: Stage) -> None:
    group = PlayedGroup(stage)
    group.commit(stage.topic)
    stage.ask(sync(group.name, -1, ""))


@BOOK.play("the assignment after another member has left", versions="0,5")
def _smaller(stage: Stage) -> None:
    """A rebalance makes another generation with an assignment of its own."""
    group = PlayedGroup(stage)
    leader, follower = group.settle("a", "b")
    group.loses(follower)
    stage.ask(leader.sync((leader.id, b"early")))
    leader.starts(JOIN, is_compared=False).answer()
    stage.ask(leader.sync((leader.id, b"all of it")))


# Static members (KIP-345)


@BOOK.play("a static member", versions="3-5", source=_STATIC)
def _static(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.gather(group.member("a", "me"))
    stage.ask(member.sync((member.id, b"mine")))


@BOOK.play("a static member without its instance id", versions="0,3,5", source=_STATIC)
def _static_without(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.gather(group.member("a", "me"))
    stage.ask(member.sync((member.id, b"mine"), instance=None))


@BOOK.play("a static member that came back", versions="3,5", source=_STATIC)
def _static_again(stage: Stage) -> None:
    """The new id gets the assignment of the old id, which is fenced."""
    group = PlayedGroup(stage)
    _, member = group.settle(group.member("a"), group.member("b", "me"))
    old = member.id
    member.id = ""
    member.starts(JOIN, is_compared=False).answer()
    stage.ask(member.sync(), by="b")
    stage.ask(member.sync(member=old), by="b")
    stage.ask(member.sync(member="who"), by="b")
    stage.ask(member.sync(member=old, instance=None), by="b")


@BOOK.play("an assignment to the old id of a static member", versions="3,5", source=_STATIC)
def _old_static_id(stage: Stage) -> None:
    """An id that was replaced is nobody's."""
    group = PlayedGroup(stage)
    (member,) = group.gather(group.member("a", "me"))
    old = member.id
    member.id = ""
    member.starts(JOIN, is_compared=False).answer()
    stage.ask(member.sync((old, b"old"), (member.id, b"new")))


@BOOK.play("a dynamic member with an instance id", versions="3,5", source=_STATIC)
def _dynamic(stage: Stage) -> None:
    group = PlayedGroup(stage)
    group.gather(group.member("a"), group.member("b", "me"))
    first, _ = group.members
    stage.ask(first.sync((first.id, b"x"), instance="me"))


@BOOK.play("a static member that has left", versions="3,5", source=_STATIC)
def _static_left(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle(group.member("a", "me"))
    stage.do(leave(group.name, ("", "me")), 3)
    stage.ask(member.sync((member.id, b"x")))
