"""JoinGroup: who may join, who leads, which protocol is chosen, when there is a rebalance."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.groups.classic import (
    DESCRIBE,
    LONG_WAIT_S,
    SYNC,
    PlayedGroup,
    deleted,
    described,
    join,
    leave,
)
from wirekafka.conformance.stage import Stage
from wirekafka.errors import Error
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
    "metadata that is no subscription": lambda s: join(s.name(), metadata=b"\xff\0\x01"),
    "no metadata": lambda s: join(s.name(), metadata=b""),
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


@BOOK.play("a group with an id that was given only", versions="4,9", source="KIP-394")
def _pending(stage: Stage) -> None:
    """The group has no member until the join with the id."""
    group = PlayedGroup(stage)
    member = group.member("a")
    member.gets_id(stage.version)
    stage.note("state before", group.state())
    member.asks()
    stage.note("state after", group.state())


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
    (first,) = group.settle(group.member("a", rebalance_ms=1000))
    group.member("b", rebalance_ms=1000).starts().answer()
    stage.ask(first.join(), by="a")


@BOOK.play("a static member that misses the rebalance", versions="5,9", source=_STATIC)
def _static_misses(stage: Stage) -> None:
    """A static member stays, and comes back to the generation that began without it."""
    group = PlayedGroup(stage)
    (first,) = group.settle(group.member("a", "me", rebalance_ms=1000))
    second = group.member("b", rebalance_ms=1000)
    second.starts().answer()
    stage.note("members", len(stage.do(described(group.name), DESCRIBE).groups[0].members))
    first.asks()
    stage.note("the other member", second.error().name)


@BOOK.play("a member that does not sync", versions="5,9")
def _does_not_sync(stage: Stage) -> None:
    """A leader without an assignment is removed after the rebalance timeout."""
    group = PlayedGroup(stage)
    (member,) = group.gather(group.member("a", rebalance_ms=1000))
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


# Protocols

_VOTES: dict[str, tuple[Any, ...]] = {
    "the only protocol in common": (["range", "sticky"], ["roundrobin", "range"]),
    "the protocol that both like best": (["roundrobin", "range"], ["roundrobin", "range"]),
    "the protocol that most like best": (
        ["range", "roundrobin"],
        ["roundrobin", "range"],
        ["roundrobin", "range"],
    ),
    "a vote for a protocol that one lacks": (
        ["sticky", "range"],
        ["sticky", "roundrobin", "range"],
        ["roundrobin", "range"],
    ),
    "a tie between two protocols": (["range", "roundrobin"], ["roundrobin", "range"]),
    "a tie the other way around": (["roundrobin", "range"], ["range", "roundrobin"]),
    "a tie between three protocols": (
        ["range", "roundrobin", "sticky"],
        ["roundrobin", "sticky", "range"],
        ["sticky", "range", "roundrobin"],
    ),
}
for _title, _lists in _VOTES.items():

    @BOOK.play(_title, versions=_OLD_AND_NEW)
    def _vote(stage: Stage, lists: tuple[Any, ...] = _lists) -> None:
        """Each member lists the protocols that it knows, the best first."""
        group = PlayedGroup(stage)
        names = "abc"[: len(lists)]
        members = [
            group.member(name, protocols=each) for name, each in zip(names, lists, strict=True)
        ]
        group.settle(*members[:-1])
        joining = members[-1].starts()
        members[0].must_rejoin()
        rest = [each.starts() for each in members[1:-1]]
        members[0].asks()
        for each in (*rest, joining):
            each.answer()


@BOOK.play("metadata of the chosen protocol", versions="0,5,9")
def _metadata(stage: Stage) -> None:
    """The leader gets only what members say to the protocol that was chosen."""
    group = PlayedGroup(stage)
    (first,) = group.settle(group.member("a", protocols={"range": b"a-range", "sticky": b"a-st"}))
    second = group.member("b", protocols={"sticky": b"b-sticky", "roundrobin": b"b-rr"})
    joining = second.starts()
    first.must_rejoin()
    first.asks()
    joining.answer()


_MISFITS: dict[str, dict[str, Any]] = {
    "no protocol in common": {"protocols": ["roundrobin", "sticky"]},
    "a protocol type that is not the group's": {"kind": "connect"},
    "no protocols to a group with a member": {"protocols": []},
    "no protocol type to a group with a member": {"kind": ""},
    "a protocol in capital letters": {"protocols": ["Range"]},
}
for _title, _options in _MISFITS.items():

    @BOOK.play(_title, versions="0,4,9")
    def _misfit(stage: Stage, options: dict[str, Any] = _options) -> None:
        group = PlayedGroup(stage)
        group.settle("a")
        stage.ask(join(group.name, **options))

    @BOOK.play(f"{_title}, static", versions="5,9", source=_STATIC)
    def _static_misfit(stage: Stage, options: dict[str, Any] = _options) -> None:
        group = PlayedGroup(stage)
        group.settle("a")
        stage.ask(join(group.name, "", "me", **options))


@BOOK.play("a protocol that one of two members lacks", versions=_OLD_AND_NEW)
def _one_lacks(stage: Stage) -> None:
    """A newcomer must share a protocol with all members, not only with one."""
    group = PlayedGroup(stage)
    group.settle(
        group.member("a", protocols=["range", "sticky"]),
        group.member("b", protocols=["range", "roundrobin"]),
    )
    stage.ask(join(group.name, protocols=["sticky", "roundrobin"]))


@BOOK.play("a member that no longer fits the others", versions=_OLD_AND_NEW)
def _no_longer_fits(stage: Stage) -> None:
    """A member that rejoins must share a protocol with the others."""
    group = PlayedGroup(stage)
    _, second = group.settle("a", "b")
    stage.ask(second.join(protocols=["sticky"]), by="b")
    stage.ask(second.join(kind="connect"), by="b")


@BOOK.play("the only member changes its protocols", versions=_OLD_AND_NEW)
def _changes_protocols(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    stage.ask(member.join(protocols=["sticky"]), by="a")


# Members that join again


@BOOK.play("the leader rejoins", versions="0,5,9")
def _leader_rejoins(stage: Stage) -> None:
    """In a stable group, a leader's join begins another generation even without changes."""
    group = PlayedGroup(stage)
    (leader,) = group.settle("a")
    leader.asks()
    stage.note("the state of the group", group.state())


@BOOK.play("the leader of two rejoins", versions=_OLD_AND_NEW)
def _leader_of_two_rejoins(stage: Stage) -> None:
    group = PlayedGroup(stage)
    leader, follower = group.settle("a", "b")
    joining = leader.starts()
    follower.must_rejoin()
    follower.asks()
    joining.answer()


@BOOK.play("a follower rejoins unchanged", versions="0,5,9")
def _follower_rejoins(stage: Stage) -> None:
    """A follower whose metadata is as before gets the present generation again."""
    group = PlayedGroup(stage)
    _, follower = group.settle("a", "b")
    follower.asks()
    stage.note("the state of the group", group.state())


_CHANGES: dict[str, dict[str, Any]] = {
    "a follower rejoins with other metadata": {"metadata": b"another"},
    "a follower rejoins with one more protocol": {"protocols": ["range", "sticky"]},
    "a follower rejoins with another order of protocols": {"protocols": ["sticky", "range"]},
}
for _title, _options in _CHANGES.items():

    @BOOK.play(_title, versions=_OLD_AND_NEW)
    def _changed(stage: Stage, options: dict[str, Any] = _options) -> None:
        """The change begins a rebalance."""
        group = PlayedGroup(stage)
        protocols = ["range", "sticky"] if "order" in stage.case.title else ["range"]
        both = [group.member(name, protocols=protocols) for name in "ab"]
        leader, follower = group.settle(*both)
        joining = follower.starts(**options)
        leader.must_rejoin()
        leader.asks()
        joining.answer()


@BOOK.play("a follower rejoins with another session timeout", versions=_OLD_AND_NEW)
def _other_timeout(stage: Stage) -> None:
    """Timeouts are no change that needs a rebalance."""
    group = PlayedGroup(stage)
    _, follower = group.settle("a", "b")
    stage.ask(follower.join(session_ms=30_000, rebalance_ms=5000), by="b")
    stage.note("the state of the group", group.state())


@BOOK.play("the leader rejoins before its assignment", versions="0,5,9")
def _leader_before_sync(stage: Stage) -> None:
    """A leader whose answer was lost gets the same generation, and the list, again."""
    group = PlayedGroup(stage)
    (leader,) = group.gather("a")
    leader.asks()
    leader.asks()


@BOOK.play("a follower rejoins before the assignment", versions=_OLD_AND_NEW)
def _follower_before_sync(stage: Stage) -> None:
    group = PlayedGroup(stage)
    _, follower = group.gather("a", "b")
    follower.asks()


@BOOK.play("a leader with other metadata before its assignment", versions=_OLD_AND_NEW)
def _changed_before_sync(stage: Stage) -> None:
    """The change begins another rebalance."""
    group = PlayedGroup(stage)
    (leader,) = group.gather("a")
    stage.ask(leader.join(metadata=b"another"), by="a")


@BOOK.play("a sync that waits when another joins", versions="5,9")
def _waiting_sync(stage: Stage) -> None:
    """A follower that waits for its assignment must join again."""
    group = PlayedGroup(stage)
    leader, follower = group.gather("a", "b")
    waiting = stage.send(follower.sync(), SYNC, by="b")
    joining = group.member("c").starts()
    stage.note("the sync", Error.of(waiting.answer(LONG_WAIT_S).error_code).name)
    again = follower.starts()
    leader.asks()
    again.answer()
    joining.answer()


@BOOK.play("an unknown member of a group with members", versions="0,4,9")
def _unknown_among(stage: Stage) -> None:
    group = PlayedGroup(stage)
    group.settle("a")
    stage.ask(join(group.name, "who"))
