"""JoinGroup: which protocol is chosen, and what members that join again change."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.cases.classic_groups.classic import (
    LONG_WAIT_S,
    SYNC,
    PlayedGroup,
    join,
    subscription,
)
from wirekafka.conformance.cases.classic_groups.join_group import BOOK as _BOOK
from wirekafka.conformance.stage import Stage
from wirekafka.errors import Error

_STATIC = "KIP-345"
_OLD_AND_NEW = "3,9"
"""A version without member ids before the join, and the newest."""

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

    @_BOOK.play(_title, versions=_OLD_AND_NEW)
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


@_BOOK.play("metadata of the chosen protocol", versions="0,5,9")
def _metadata(stage: Stage) -> None:
    """The leader gets only what members say to the protocol that was chosen."""
    group = PlayedGroup(stage)
    (first,) = group.settle(
        group.member(
            "a",
            protocols={
                "range": subscription(user_data=b"a-range"),
                "sticky": subscription(user_data=b"a-st"),
            },
        )
    )
    second = group.member(
        "b",
        protocols={
            "sticky": subscription(user_data=b"b-sticky"),
            "roundrobin": subscription(user_data=b"b-rr"),
        },
    )
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

    @_BOOK.play(_title, versions="0,4,9")
    def _misfit(stage: Stage, options: dict[str, Any] = _options) -> None:
        group = PlayedGroup(stage)
        group.settle("a")
        stage.ask(join(group.name, **options))

    @_BOOK.play(f"{_title}, static", versions="5,9", source=_STATIC)
    def _static_misfit(stage: Stage, options: dict[str, Any] = _options) -> None:
        group = PlayedGroup(stage)
        group.settle("a")
        stage.ask(join(group.name, "", "me", **options))


@_BOOK.play("a protocol that one of two members lacks", versions=_OLD_AND_NEW)
def _one_lacks(stage: Stage) -> None:
    """A newcomer must share a protocol with all members, not only with one."""
    group = PlayedGroup(stage)
    group.settle(
        group.member("a", protocols=["range", "sticky"]),
        group.member("b", protocols=["range", "roundrobin"]),
    )
    stage.ask(join(group.name, protocols=["sticky", "roundrobin"]))


@_BOOK.play("a member that no longer fits the others", versions=_OLD_AND_NEW)
def _no_longer_fits(stage: Stage) -> None:
    """A member that rejoins must share a protocol with the others."""
    group = PlayedGroup(stage)
    _, second = group.settle("a", "b")
    stage.ask(second.join(protocols=["sticky"]), by="b")
    stage.ask(second.join(kind="connect"), by="b")


@_BOOK.play("the only member changes its protocols", versions=_OLD_AND_NEW)
def _changes_protocols(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    stage.ask(member.join(protocols=["sticky"]), by="a")


# Members that join again


@_BOOK.play("the leader rejoins", versions="0,5,9")
def _leader_rejoins(stage: Stage) -> None:
    """In a stable group, a leader's join begins another generation even without changes."""
    group = PlayedGroup(stage)
    (leader,) = group.settle("a")
    leader.asks()
    stage.note("the state of the group", group.state())


@_BOOK.play("the leader of two rejoins", versions=_OLD_AND_NEW)
def _leader_of_two_rejoins(stage: Stage) -> None:
    group = PlayedGroup(stage)
    leader, follower = group.settle("a", "b")
    joining = leader.starts()
    follower.must_rejoin()
    follower.asks()
    joining.answer()


@_BOOK.play("a follower rejoins unchanged", versions="0,5,9")
def _follower_rejoins(stage: Stage) -> None:
    """A follower whose metadata is as before gets the present generation again."""
    group = PlayedGroup(stage)
    _, follower = group.settle("a", "b")
    follower.asks()
    stage.note("the state of the group", group.state())


_CHANGES: dict[str, dict[str, Any]] = {
    "a follower rejoins with other metadata": {"metadata": subscription(user_data=b"another")},
    "a follower rejoins with one more protocol": {"protocols": ["range", "sticky"]},
    "a follower rejoins with another order of protocols": {"protocols": ["sticky", "range"]},
}
for _title, _options in _CHANGES.items():

    @_BOOK.play(_title, versions=_OLD_AND_NEW)
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


@_BOOK.play("a follower rejoins with another session timeout", versions=_OLD_AND_NEW)
def _other_timeout(stage: Stage) -> None:
    """Timeouts are no change that needs a rebalance."""
    group = PlayedGroup(stage)
    _, follower = group.settle("a", "b")
    stage.ask(follower.join(session_ms=30_000, rebalance_ms=5000), by="b")
    stage.note("the state of the group", group.state())


@_BOOK.play("the leader rejoins before its assignment", versions="0,5,9")
def _leader_before_sync(stage: Stage) -> None:
    """A leader whose answer was lost gets the same generation, and the list, again."""
    group = PlayedGroup(stage)
    (leader,) = group.gather("a")
    leader.asks()
    leader.asks()


@_BOOK.play("a follower rejoins before the assignment", versions=_OLD_AND_NEW)
def _follower_before_sync(stage: Stage) -> None:
    group = PlayedGroup(stage)
    _, follower = group.gather("a", "b")
    follower.asks()


@_BOOK.play("a leader with other metadata before its assignment", versions=_OLD_AND_NEW)
def _changed_before_sync(stage: Stage) -> None:
    """The change begins another rebalance."""
    group = PlayedGroup(stage)
    (leader,) = group.gather("a")
    stage.ask(leader.join(metadata=subscription(user_data=b"another")), by="a")


@_BOOK.play("a sync that waits when another joins", versions="5,9")
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


@_BOOK.play("an unknown member of a group with members", versions="0,4,9")
def _unknown_among(stage: Stage) -> None:
    group = PlayedGroup(stage)
    group.settle("a")
    stage.ask(join(group.name, "who"))
