"""JoinGroup: who may join, who leads, when there is a rebalance."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.classic_groups.classic import (
    DESCRIBE,
    LONG_WAIT_S,
    PlayedGroup,
    deleted,
    described,
    join,
    leave,
)
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.join_group import JoinGroupRequest

BOOK = Book(JoinGroupRequest, "classic groups", ConformanceLevel.CORE, "JoinGroupRequest.json")
_STATIC = "KIP-345"
_OLD_AND_NEW = "3,9"
"""A version without member ids before the join, and the newest."""

_ASKS: dict[str, Make] = {
    "no group": lambda _: join(""),
    "no group with a member id": lambda _: join("", "who"),
    "a session of 10 ms": lambda s: join(s.name(), session_ms=10),
    "a session of 0 ms": lambda s: join(s.name(), session_ms=0),
    "a session just too short": lambda s: join(s.name(), session_ms=5999),
    "the shortest session": lambda s: join(s.name(), session_ms=6000),
    "a session of more than a day": lambda s: join(s.name(), session_ms=99_999_999),
    "the longest session": lambda s: join(s.name(), session_ms=1_800_000),
    "a session just too long": lambda s: join(s.name(), session_ms=1_800_001),
    "no protocols": lambda s: join(s.name(), protocols=[]),
    "no protocol type": lambda s: join(s.name(), kind=""),
    "neither protocols nor a type": lambda s: join(s.name(), kind="", protocols=[]),
    "another protocol type": lambda s: join(s.name(), kind="connect", protocols=["sessioned"]),
    "a protocol without a name": lambda s: join(s.name(), protocols=[""]),
    "metadata of another protocol type": lambda s: join(s.name(), kind="own", metadata=b"\xff\0"),
    "no metadata of another protocol type": lambda s: join(s.name(), kind="own", metadata=b""),
    "an unknown member": lambda s: join(s.name(), "who"),
    "an unknown member without protocols": lambda s: join(s.name(), "who", protocols=[]),
    "an unknown member with too short a session": lambda s: join(s.name(), "who", session_ms=1),
}
for _title, _make in _ASKS.items():
    BOOK.ask(_title, _make)

_STATIC_ASKS: dict[str, Make] = {
    "an unknown static member": lambda s: join(s.name(), "who", "me"),
    "a static member": lambda s: join(s.name(), "", "me"),
    "a static member without protocols": lambda s: join(s.name(), "", "me", protocols=[]),
    "an empty instance id": lambda s: join(s.name(), "", ""),
    "an instance id with spaces": lambda s: join(s.name(), "", "i am me"),
    "a long instance id": lambda s: join(s.name(), "", "i" * 250),
}
for _title, _make in _STATIC_ASKS.items():
    BOOK.ask(_title, _make, versions="5+", source=_STATIC)

BOOK.ask("a reason", lambda s: join(s.name(), reason="because"), versions="8+", source="KIP-800")
BOOK.ask(
    "a static member's long reason",
    lambda s: join(s.name(), "", "me", reason="r" * 5000),
    versions="8+",
    source="KIP-800",
)


# The first member


@BOOK.play("the first member", versions="0-9")
def _first_member(stage: Stage) -> None:
    """A member joins an empty group and leads generation 1."""
    PlayedGroup(stage).member("a").asks()


@BOOK.play("ids of new members", versions="0,3-5,9", source="KIP-394")
def _ids(stage: Stage) -> None:
    """An id begins with the client id, and no two are equal."""
    group = PlayedGroup(stage)
    first, second = group.member("a"), group.member("b")
    first.asks()
    if stage.version >= 4:
        second.gets_id(stage.version)
        stage.note("the ids differ", first.id != second.id)
    stage.note("the id begins with the client id", first.id.startswith("conformance-"))


@BOOK.play("the id of a static member", versions="5,9", source=_STATIC)
def _static_id(stage: Stage) -> None:
    """The id begins with the instance id."""
    member = PlayedGroup(stage).member("a", "number-one")
    member.asks()
    stage.note("the id begins with the instance id", member.id.startswith("number-one-"))


@BOOK.play("a group after the join with an id", versions="4,9", source="KIP-394")
def _pending(stage: Stage) -> None:
    """The group waits for its assignment."""
    group = PlayedGroup(stage).exists()
    group.member("a").asks()
    stage.note("the state of the group", group.state())


@BOOK.play("the id of another group", versions=_OLD_AND_NEW)
def _foreign_id(stage: Stage) -> None:
    (member,) = PlayedGroup(stage, "one").settle("a")
    stage.ask(join(stage.name("two"), member.id))


@BOOK.play("the first member of a group that has offsets", versions="0,9")
def _after_commit(stage: Stage) -> None:
    """Offsets committed without a generation make no difference."""
    group = PlayedGroup(stage)
    group.commit(stage.topic)
    group.member("a").asks()


@BOOK.play("an empty group without protocols", versions=_OLD_AND_NEW)
def _emptied_without(stage: Stage) -> None:
    """A group that was left is not joined without protocols."""
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    group.loses(member)
    stage.ask(join(group.name, protocols=[]))
    stage.ask(join(group.name, kind=""))


@BOOK.play("an empty group with another protocol type", versions=_OLD_AND_NEW)
def _emptied_other(stage: Stage) -> None:
    """A group that was left takes members of another type."""
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    group.loses(member)
    group.member("b", kind="connect", protocols=["sessioned"]).asks()


@BOOK.play("the generation after all have left", versions="0,5,9")
def _next_generation(stage: Stage) -> None:
    """The generations of a group go on while it is empty."""
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    group.loses(member)
    group.member("b").asks()


@BOOK.play("the generation after a deletion", versions=_OLD_AND_NEW)
def _after_deletion(stage: Stage) -> None:
    """A group that was deleted begins with generation 1 again."""
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    group.loses(member)
    stage.do(deleted(group.name), 1)
    group.member("b").asks()


@BOOK.play("a member that has left", versions="0,5,9")
def _has_left(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    group.loses(member)
    stage.ask(member.join())


# Several members


@BOOK.play("a second member", versions="0-9")
def _second_member(stage: Stage) -> None:
    """The first must rejoin, leads, and gets the list of both."""
    group = PlayedGroup(stage)
    (first,) = group.settle("a")
    joining = group.member("b").starts()
    first.must_rejoin()
    first.asks()
    joining.answer()


@BOOK.play("a third member", versions="3,5,9")
def _third_member(stage: Stage) -> None:
    group = PlayedGroup(stage)
    first, second = group.settle("a", "b")
    joining = group.member("c").starts()
    first.must_rejoin()
    rejoining = second.starts()
    first.asks()
    rejoining.answer()
    joining.answer()


@BOOK.play("a second member before the assignment", versions=_OLD_AND_NEW)
def _before_assignment(stage: Stage) -> None:
    """A join begins another rebalance while the group waits for its assignment."""
    group = PlayedGroup(stage)
    (first,) = group.gather("a")
    joining = group.member("b").starts()
    first.must_rejoin()
    first.asks()
    joining.answer()


@BOOK.play("a rebalance that waits for an id that was given", versions="4,9", source="KIP-394")
def _waits_for_pending(stage: Stage) -> None:
    """Nobody's join is answered before a pending member has joined or left."""
    group = PlayedGroup(stage)
    (first,) = group.settle("a")
    pending, second = group.member("b"), group.member("c")
    second.gets_id()
    pending.gets_id()
    joining = second.starts()
    first.must_rejoin()
    rejoining = first.starts()
    stage.note("the state of the group", group.state())
    stage.do(leave(group.name, pending.id), 3, by="b")
    rejoining.answer()
    joining.answer()


@BOOK.play("a pending member that joins a rebalance", versions="4,9", source="KIP-394")
def _pending_joins(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (first,) = group.settle("a")
    pending, second = group.member("b"), group.member("c")
    second.gets_id()
    pending.gets_id()
    joining = second.starts()
    first.must_rejoin()
    rejoining = first.starts()
    last = pending.starts()
    for each in (rejoining, joining, last):
        each.answer()


@BOOK.play("a member that leaves a rebalance", versions=_OLD_AND_NEW)
def _leaves_rebalance(stage: Stage) -> None:
    """The rebalance is over when the only member that has not rejoined leaves."""
    group = PlayedGroup(stage)
    first, second = group.settle("a", "b")
    joining = group.member("c").starts()
    first.must_rejoin()
    rejoining = first.starts()
    stage.do(second.leave(), 3, by="b")
    rejoining.answer()
    joining.answer()


@BOOK.play("the leader leaves a rebalance", versions=_OLD_AND_NEW)
def _leader_leaves(stage: Stage) -> None:
    """Another member leads."""
    group = PlayedGroup(stage)
    first, second = group.settle("a", "b")
    stage.do(first.leave(), 3, by="a")
    second.must_rejoin()
    second.asks()


@BOOK.play("a member in a rebalance leaves and comes back", versions="5,9")
def _comes_back(stage: Stage) -> None:
    group = PlayedGroup(stage)
    first, second = group.settle("a", "b")
    stage.do(second.leave(), 3, by="b")
    first.must_rejoin()
    first.asks()
    stage.ask(second.join(), by="b")


@BOOK.play("a member that misses the rebalance", versions="1,9", source="KIP-62")
def _misses_rebalance(stage: Stage) -> None:
    """Members that do not rejoin within the longest rebalance timeout are removed."""
    group = PlayedGroup(stage)
    (first,) = group.settle(group.member("a", rebalance_ms=2500))
    group.member("b", rebalance_ms=2500).starts().answer()
    stage.ask(first.join(), by="a")


@BOOK.play("a static member that misses the rebalance", versions="5,9", source=_STATIC)
def _static_misses(stage: Stage) -> None:
    """A static member stays, and comes back to the generation that began without it."""
    group = PlayedGroup(stage)
    (first,) = group.settle(group.member("a", "me", rebalance_ms=2500))
    second = group.member("b", rebalance_ms=2500)
    second.starts().answer()
    stage.note("members", len(stage.do(described(group.name), DESCRIBE).groups[0].members))
    first.asks()
    stage.note("the other member", second.error().name)


@BOOK.play("a member that does not sync", versions="5,9")
def _does_not_sync(stage: Stage) -> None:
    """A leader without an assignment is removed after the rebalance timeout."""
    group = PlayedGroup(stage)
    (member,) = group.gather(group.member("a", rebalance_ms=2500))
    member.must_be_gone()
    stage.ask(member.join(), by="a")
    group.member("b").asks()


@BOOK.play("a silent member", versions="5")
def _silent(stage: Stage) -> None:
    """A member without heartbeats is removed after its session."""
    group = PlayedGroup(stage)
    (member,) = group.settle(group.member("a", session_ms=6000))
    stage.until(lambda: group.state() == "Empty", "an empty group")
    stage.ask(member.join(), by="a")
    group.member("b").asks()


@BOOK.play("an id that was given but not used", versions="5", source="KIP-394")
def _unused_id(stage: Stage) -> None:
    """A pending member is forgotten after its session; a rebalance waits for it no longer."""
    group = PlayedGroup(stage)
    (first,) = group.settle("a")
    pending = group.member("b", session_ms=6000)
    pending.gets_id()
    joining = group.member("c").starts()
    first.must_rejoin()
    first.asks(wait_s=LONG_WAIT_S)
    joining.answer()
    stage.ask(pending.join(), by="b")
