"""OffsetDelete: offsets that a group forgets, unless it reads their topic (KIP-496)."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.classic_groups.classic import (
    COMMIT,
    FETCH,
    JOIN,
    PlayedGroup,
    commit_of,
    fetched,
    forgotten,
    subscription,
)
from wirekafka.conformance.cases.classic_groups.transaction import OffsetsTransaction
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.offset_delete import OffsetDeleteRequest

BOOK = Book(OffsetDeleteRequest, "classic groups", ConformanceLevel.ADMIN, "KIP-496")

_ASKS: dict[str, Make] = {
    "an unknown group": lambda s: forgotten(s.name(), s.topic),
    "no group": lambda s: forgotten("", s.topic),
    "a missing topic of an unknown group": lambda s: forgotten(s.name(), s.missing),
    "no topics of an unknown group": lambda s: forgotten(s.name()),
}
for _title, _make in _ASKS.items():
    BOOK.ask(_title, _make)


def _committed(stage: Stage) -> PlayedGroup:
    """A group with offsets of both partitions of the shared topic, and of another topic."""
    group = PlayedGroup(stage, is_bare=True)
    offsets = {stage.topic: {0: 3, 1: 4}, stage.compacted: {0: 7}}
    stage.do(commit_of(stage, group.name, offsets), COMMIT)
    return group


def _left(stage: Stage, group: PlayedGroup) -> None:
    """Compare the offsets that are left."""
    stage.ask(fetched(stage, group.name, is_all=True), FETCH)


_DELETED: dict[str, Make] = {
    "an offset": lambda s: forgotten(s.name(), s.topic),
    "two offsets": lambda s: forgotten(s.name(), s.topic, partitions=(0, 1)),
    "offsets of two topics": lambda s: forgotten(s.name(), s.topic, s.compacted),
    "missing partitions": lambda s: forgotten(s.name(), s.topic, partitions=(0, 9, -1)),
    "a missing topic": lambda s: forgotten(s.name(), s.missing),
    "known and missing topics": lambda s: forgotten(s.name(), s.missing, s.topic),
    "a partition twice": lambda s: forgotten(s.name(), s.topic, partitions=(1, 1)),
    "no topics": lambda s: forgotten(s.name()),
    "no partitions": lambda s: forgotten(s.name(), s.topic, partitions=()),
}
for _title, _make in _DELETED.items():

    @BOOK.play(_title)
    def _deleted(stage: Stage, make: Make = _make) -> None:
        """A group without members forgets what it is asked to."""
        group = _committed(stage)
        stage.ask(make(stage))
        _left(stage, group)


@BOOK.play("a partition without an offset")
def _without(stage: Stage) -> None:
    """There is no error."""
    group = PlayedGroup(stage)
    group.commit(stage.topic)
    stage.ask(forgotten(group.name, stage.topic, partitions=(1,)))
    _left(stage, group)


@BOOK.play("an offset twice")
def _twice(stage: Stage) -> None:
    """There is no error for an offset that is gone."""
    group = _committed(stage)
    stage.ask(forgotten(group.name, stage.topic))
    stage.ask(forgotten(group.name, stage.topic))
    _left(stage, group)


@BOOK.play("the last offset of a group")
def _last(stage: Stage) -> None:
    """The group may be described afterwards, and be used again."""
    group = PlayedGroup(stage)
    group.commit(stage.topic)
    stage.ask(forgotten(group.name, stage.topic))
    stage.note("the state of the group", group.state())
    stage.ask(forgotten(group.name, stage.topic))
    group.commit(stage.topic, 9)
    _left(stage, group)


@BOOK.play("a pending offset of a transaction", source="KIP-447")
def _pending(stage: Stage) -> None:
    """A deletion while a transaction is open, which is then committed."""
    group = PlayedGroup(stage)
    transaction = OffsetsTransaction(stage, group.name)
    transaction.commit(stage.topic, {0: 40})
    stage.ask(forgotten(group.name, stage.topic))
    transaction.end(is_committed=True)

    def is_stable() -> bool:
        asked = fetched(stage, group.name, stage.topic, is_stable=True)
        return not stage.do(asked, 7).topics[0].partitions[0].error_code

    stage.until(is_stable, "offsets of a transaction that has ended")
    _left(stage, group)


# Groups with members


def _reading(stage: Stage, *topics: str, **options: Any) -> PlayedGroup:
    """A group with offsets whose only member subscribes to topics."""
    group = _committed(stage)
    metadata = subscription(*topics)
    group.settle(group.member("a", **{"metadata": metadata, **options}))
    return group


@BOOK.play("a topic that is subscribed")
def _subscribed(stage: Stage) -> None:
    """The offsets of subscribed topics stay, other offsets go."""
    group = _reading(stage, stage.topic)
    stage.ask(forgotten(group.name, stage.topic, stage.compacted))
    _left(stage, group)


@BOOK.play("a topic that is not subscribed")
def _unsubscribed(stage: Stage) -> None:
    group = _reading(stage, stage.topic)
    stage.ask(forgotten(group.name, stage.compacted))
    _left(stage, group)


@BOOK.play("a missing topic of a group with a member")
def _missing(stage: Stage) -> None:
    group = _reading(stage, stage.topic)
    stage.ask(forgotten(group.name, stage.missing))


@BOOK.play("topics of two members")
def _two_members(stage: Stage) -> None:
    """A topic is subscribed if any member reads it."""
    group = _committed(stage)
    group.settle(
        group.member("a", metadata=subscription(stage.topic)),
        group.member("b", metadata=subscription(stage.compacted)),
    )
    stage.ask(forgotten(group.name, stage.topic, stage.compacted))
    _left(stage, group)


@BOOK.play("a topic that is subscribed in a newer subscription")
def _newer(stage: Stage) -> None:
    """Subscriptions of version 3 have owned partitions, a generation and a rack."""
    group = _committed(stage)
    group.settle(group.member("a", metadata=subscription(stage.topic, version=3)))
    stage.ask(forgotten(group.name, stage.topic, stage.compacted))
    _left(stage, group)


@BOOK.play("a member that subscribes to nothing")
def _nothing(stage: Stage) -> None:
    group = _reading(stage)
    stage.ask(forgotten(group.name, stage.topic))
    _left(stage, group)


@BOOK.play("a member of another protocol type")
def _connect(stage: Stage) -> None:
    """Only consumers subscribe; other groups must be empty."""
    group = _reading(stage, kind="connect", protocols=["sessioned"])
    stage.ask(forgotten(group.name, stage.topic))
    _left(stage, group)


@BOOK.play("before the assignment")
def _completing(stage: Stage) -> None:
    group = _committed(stage)
    group.gather(group.member("a", metadata=subscription(stage.topic)))
    stage.ask(forgotten(group.name, stage.topic, stage.compacted))
    _left(stage, group)


@BOOK.play("in a rebalance")
def _preparing(stage: Stage) -> None:
    group = _reading(stage, stage.topic)
    other = group.member("b", metadata=subscription(stage.compacted))
    other.starts(JOIN, is_compared=False)
    group.members[0].must_rejoin()
    stage.ask(forgotten(group.name, stage.topic, stage.compacted))
    _left(stage, group)


@BOOK.play("after the members have left")
def _emptied(stage: Stage) -> None:
    """What the last member had subscribed to is free again."""
    group = _reading(stage, stage.topic)
    group.loses(group.members[0])
    stage.ask(forgotten(group.name, stage.topic))
    _left(stage, group)


@BOOK.play("an emptied group of another protocol type")
def _emptied_connect(stage: Stage) -> None:
    group = _reading(stage, kind="connect", protocols=["sessioned"])
    group.loses(group.members[0])
    stage.ask(forgotten(group.name, stage.topic))
    _left(stage, group)
