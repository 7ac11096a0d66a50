"""DeleteGroups: groups that can be deleted, and what is left of them (KIP-229)."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.classic_groups.classic import (
    FETCH,
    JOIN,
    PlayedGroup,
    deleted,
    fetched,
    neighbours,
)
from wirekafka.conformance.cases.classic_groups.transaction import OffsetsTransaction
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.delete_groups import DeleteGroupsRequest

BOOK = Book(DeleteGroupsRequest, "classic groups", ConformanceLevel.ADMIN, "KIP-229")
_FEW = "0,2-3"
"""The oldest version, the first that is flexible, the first with messages."""

_ASKS: dict[str, Make] = {
    "an unknown group": lambda s: deleted(s.name()),
    "no groups": lambda _: deleted(),
    "an unknown group twice": lambda s: deleted(s.name(), s.name()),
}
for _title, _make in _ASKS.items():
    BOOK.ask(_title, _make)


def _left(stage: Stage, group: PlayedGroup) -> None:
    """Compare what is left of a group."""
    stage.note("the state of the group", group.state())
    stage.ask(fetched(stage, group.name, is_all=True), FETCH)


@BOOK.play("a group with offsets only", versions="0-3")
def _simple(stage: Stage) -> None:
    """The offsets go, too."""
    group = PlayedGroup(stage)
    group.commit(stage.topic)
    stage.ask(deleted(group.name))
    _left(stage, group)


@BOOK.play("a group twice", versions=_FEW)
def _again(stage: Stage) -> None:
    group = PlayedGroup(stage)
    group.commit(stage.topic)
    stage.ask(deleted(group.name))
    stage.ask(deleted(group.name))


@BOOK.play("a group twice in a request", versions=_FEW)
def _twice(stage: Stage) -> None:
    group = PlayedGroup(stage)
    group.commit(stage.topic)
    stage.ask(deleted(group.name, group.name))
    _left(stage, group)


@BOOK.play("a group that was left", versions=_FEW)
def _emptied(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    stage.do(member.commit(stage.topic), 8)
    group.loses(member)
    stage.ask(deleted(group.name))
    _left(stage, group)


@BOOK.play("a stable group", versions="0-3")
def _stable(stage: Stage) -> None:
    """Nothing changes for members, and their offsets stay."""
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    stage.do(member.commit(stage.topic), 8)
    stage.ask(deleted(group.name))
    stage.note("the member", member.error().name)
    _left(stage, group)


@BOOK.play("before the assignment", versions=_FEW)
def _completing(stage: Stage) -> None:
    group = PlayedGroup(stage)
    group.gather("a")
    stage.ask(deleted(group.name))
    stage.note("the state of the group", group.state())


@BOOK.play("a rebalance", versions=_FEW)
def _preparing(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    group.member("b").starts(JOIN, is_compared=False)
    member.must_rejoin()
    stage.ask(deleted(group.name))
    stage.note("the state of the group", group.state())


@BOOK.play("an id that was given only", versions=_FEW, source="KIP-394")
def _pending(stage: Stage) -> None:
    """A pending member does not keep a group."""
    group = PlayedGroup(stage)
    pending = group.member("a")
    pending.gets_id()
    stage.ask(deleted(group.name))
    stage.note("the state of the group", group.state())
    stage.ask(pending.join(), JOIN, by="a")


@BOOK.play("a group that is used again", versions=_FEW)
def _used_again(stage: Stage) -> None:
    """Nothing of the first group comes back."""
    group = PlayedGroup(stage)
    group.commit(stage.topic, 3)
    stage.ask(deleted(group.name))
    group.commit(stage.compacted, 4)
    _left(stage, group)


@BOOK.play("several groups", versions=_FEW)
def _several(stage: Stage) -> None:
    """Each group has an error of its own."""
    simple, stable, unknown, left = neighbours(stage, "simple", "stable", "unknown", "left")
    simple.commit(stage.topic)
    stable.settle("a")
    left.loses(left.settle("b")[0])
    stage.ask(deleted(unknown.name, stable.name, simple.name, left.name))
    _left(stage, simple)
    stage.note("the group with a member", stable.state())


@BOOK.play("a group with a pending offset", versions=_FEW, source="KIP-447")
def _transaction(stage: Stage) -> None:
    """An open transaction does not keep a group."""
    group = PlayedGroup(stage)
    group.commit(stage.topic)
    transaction = OffsetsTransaction(stage, group.name)
    transaction.commit(stage.topic, {0: 40})
    stage.ask(deleted(group.name))
    _left(stage, group)
    transaction.end(is_committed=False)
