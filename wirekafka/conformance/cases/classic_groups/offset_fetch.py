"""OffsetFetch: committed offsets of one group and of several, in every state of a group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.classic_groups.classic import (
    COMMIT,
    JOIN,
    PlayedGroup,
    commit,
    commit_of,
    deleted,
    fetched,
    forgotten,
    neighbours,
)
from wirekafka.conformance.cases.classic_groups.transaction import OffsetsTransaction
from wirekafka.conformance.stage import GROUP, Stage
from wirekafka.protocol.offset_fetch import OffsetFetchRequest

BOOK = Book(OffsetFetchRequest, "classic groups", ConformanceLevel.CORE, "OffsetFetchRequest.json")
_FEW = "1,7-10"
"""The oldest version, the last for one group, then several groups, members, topic ids."""
_ENDS = "2,7-8,10"
_EOS = "KIP-447"

_ASKS: dict[str, Make] = {
    "an unknown group": lambda s: fetched(s, s.name(), s.topic),
    "a missing topic of an unknown group": lambda s: fetched(s, s.name(), s.missing),
    "no topics of an unknown group": lambda s: fetched(s, s.name()),
    "no partitions of an unknown group": lambda s: fetched(s, s.name(), s.topic, partitions=()),
    "missing partitions of an unknown group": lambda s: fetched(
        s, s.name(), s.topic, partitions=(-1, 9)
    ),
    "two topics of an unknown group": lambda s: fetched(s, s.name(), s.topic, s.compacted),
}
for _title, _make in _ASKS.items():
    BOOK.ask(_title, _make)

BOOK.ask(
    "everything of an unknown group", lambda s: fetched(s, s.name(), is_all=True), versions="2+"
)
BOOK.ask(
    "stable offsets of an unknown group",
    lambda s: fetched(s, s.name(), s.topic, is_stable=True),
    versions="7+",
    source=_EOS,
)
BOOK.ask(
    "a member of an unknown group",
    lambda s: fetched(s, s.name(), s.topic, member="who", epoch=1),
    versions="9+",
    source="KIP-848",
)


def _committed(stage: Stage, **options: Any) -> PlayedGroup:
    """A group without members that has an offset of the shared topic."""
    group = PlayedGroup(stage)
    group.commit(stage.topic, 5, **options)
    return group


_OFFSETS: dict[str, dict[str, Any]] = {
    "an offset": {},
    "null metadata": {"metadata": None},
    "no metadata": {"metadata": ""},
    "a leader epoch": {"epoch": 4},
    "offset 0": {"offset": 0},
    "the largest offset": {"offset": 2**63 - 1},
}
for _title, _options in _OFFSETS.items():

    @BOOK.play(_title, versions="1,5,8,10")
    def _offset(stage: Stage, options: dict[str, Any] = _options) -> None:
        """Partition 0 has the offset, partition 1 none."""
        group = PlayedGroup(stage)
        group.commit(stage.topic, **options)
        stage.ask(fetched(stage, group.name, stage.topic))


@BOOK.play("the longest metadata", versions="1,8,10")
def _longest(stage: Stage) -> None:
    """As much as may be committed is read."""
    group = PlayedGroup(stage)
    group.commit(stage.topic, metadata="x" * 4096)
    answer = stage.do(fetched(stage, group.name, stage.topic, partitions=(0,)), stage.version)
    topics = answer.groups[0].topics if stage.version >= 8 else answer.topics
    stage.note("the length", len(topics[0].partitions[0].metadata or ""))


_TOPICS: dict[str, Make] = {
    "a missing topic": lambda s: fetched(s, s.name(), s.missing),
    "known and missing topics": lambda s: fetched(s, s.name(), s.topic, s.missing),
    "a topic without offsets": lambda s: fetched(s, s.name(), s.compacted),
    "no topics": lambda s: fetched(s, s.name()),
    "no partitions": lambda s: fetched(s, s.name(), s.topic, partitions=()),
    "missing partitions": lambda s: fetched(s, s.name(), s.topic, partitions=(-1, 0, 9)),
    "a partition twice": lambda s: fetched(s, s.name(), s.topic, partitions=(0, 0)),
    "a topic twice": lambda s: fetched(s, s.name(), s.topic, s.topic, partitions=(0,)),
}
for _title, _make in _TOPICS.items():

    @BOOK.play(_title, versions=_FEW)
    def _topics(stage: Stage, make: Make = _make) -> None:
        _committed(stage)
        stage.ask(make(stage))


@BOOK.play("a group in capital letters", versions=_ENDS)
def _capitals(stage: Stage) -> None:
    """The case of letters matters in names of groups."""
    group = PlayedGroup(stage, "group")
    group.commit(stage.topic)
    stage.ask(fetched(stage, stage.name("GROUP"), stage.topic))


@BOOK.play("the group without a name", versions="1,7-9")
def _nameless(stage: Stage) -> None:
    """There is no error, whatever is in it."""
    stage.ask(fetched(stage, "", stage.missing), at=stage.coordinator(GROUP, ""))


@BOOK.play("everything", versions="2-10")
def _everything(stage: Stage) -> None:
    """All committed offsets, without partitions that have none."""
    group = PlayedGroup(stage)
    offsets = {stage.topic: {0: 3, 1: 4}, stage.compacted: {0: 7}}
    stage.do(commit_of(stage, group.name, offsets), COMMIT)
    stage.ask(fetched(stage, group.name, is_all=True))


@BOOK.play("everything after an offset was deleted", versions=_ENDS)
def _everything_left(stage: Stage) -> None:
    group = PlayedGroup(stage)
    stage.do(commit_of(stage, group.name, {stage.topic: {0: 3, 1: 4}}), COMMIT)
    stage.do(forgotten(group.name, stage.topic), 0)
    stage.ask(fetched(stage, group.name, is_all=True))
    stage.ask(fetched(stage, group.name, stage.topic))


@BOOK.play("everything of a group that has nothing", versions=_ENDS)
def _nothing(stage: Stage) -> None:
    """A group with a member but without offsets."""
    group = PlayedGroup(stage, is_bare=True)
    group.settle("a")
    stage.ask(fetched(stage, group.name, is_all=True))
    stage.ask(fetched(stage, group.name, stage.topic))


@BOOK.play("the offsets of a deleted group", versions=_ENDS)
def _deleted(stage: Stage) -> None:
    group = _committed(stage)
    stage.do(deleted(group.name), 1)
    stage.ask(fetched(stage, group.name, stage.topic))
    stage.ask(fetched(stage, group.name, is_all=True))


@BOOK.play("the offsets of a deleted topic", versions="2,8-10")
def _deleted_topic(stage: Stage) -> None:
    """Offsets go with their topic."""
    group = _committed(stage)
    name = stage.create()
    group.commit(name, 3)
    stage.delete(name)

    def is_gone() -> bool:
        found = stage.do(fetched(stage, group.name, name), 7)
        return bool(found.topics[0].partitions[0].committed_offset == -1)

    stage.until(is_gone, "offsets of a deleted topic that are gone")
    stage.ask(fetched(stage, group.name, stage.topic, name))
    stage.ask(fetched(stage, group.name, is_all=True))


# States of the group


def _in_each_state(stage: Stage, group: PlayedGroup) -> Iterable[str]:
    """Bring a group into each state, in which it has an offset of partition 0."""
    (first,) = group.gather("a")
    yield "CompletingRebalance"
    group.assign()
    stage.do(first.commit(stage.topic, 5), COMMIT)
    yield "Stable"
    joining = group.member("b").starts(JOIN, is_compared=False)
    first.must_rejoin()
    yield "PreparingRebalance"
    first.starts(JOIN, is_compared=False).answer()
    joining.answer()


@BOOK.play("any state of the group", versions=_ENDS)
def _states(stage: Stage) -> None:
    """Anybody may read offsets, also while members rebalance."""
    group = PlayedGroup(stage)
    for state in _in_each_state(stage, group):
        stage.ask(fetched(stage, group.name, stage.topic))
        assert group.state() == state


@BOOK.play("a group that was left", versions=_ENDS)
def _emptied(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    stage.do(member.commit(stage.topic, 5), COMMIT)
    group.loses(member)
    stage.ask(fetched(stage, group.name, stage.topic))


_MEMBERS: dict[str, dict[str, Any]] = {
    "an unknown member": {"member": "who", "epoch": 1},
    "an unknown member without an epoch": {"member": "who"},
    "an epoch without a member": {"epoch": 1},
    "a wrong epoch": {"member": None, "epoch": 9},
}
for _title, _options in _MEMBERS.items():

    @BOOK.play(f"{_title} of a classic group", versions="9-10", source="KIP-848")
    def _members(stage: Stage, options: dict[str, Any] = _options) -> None:
        """Classic groups do not look at members; a member id of null is none."""
        group = PlayedGroup(stage)
        (member,) = group.settle("a")
        stage.do(member.commit(stage.topic, 5), COMMIT)
        stage.ask(fetched(stage, group.name, stage.topic, **options))


# Several groups (KIP-709)


def _of_groups(stage: Stage, groups: Iterable[tuple[str, tuple[str, ...] | None]]) -> Any:
    """A request for the topics of groups, or for all topics."""
    asked = [
        fetched(stage, group, *(names or ()), is_all=names is None).groups[0]
        for group, names in groups
    ]
    return OffsetFetchRequest(group_id="", topics=[], groups=asked, require_stable=False)


@BOOK.play("several groups", versions="8-10", source="KIP-709")
def _several(stage: Stage) -> None:
    """Groups of one coordinator: with offsets, unknown, and all topics of one."""
    groups = neighbours(stage, "first", "second", "unknown")
    groups[0].commit(stage.topic, 3)
    groups[1].commit(stage.compacted, 4)
    first, second, unknown = (each.name for each in groups)
    stage.ask(
        _of_groups(
            stage,
            [(first, (stage.topic, stage.compacted)), (second, None), (unknown, (stage.topic,))],
        )
    )
    stage.ask(_of_groups(stage, [(unknown, None), (first, ()), (second, (stage.missing,))]))


@BOOK.play("a group twice", versions="8,10", source="KIP-709")
def _group_twice(stage: Stage) -> None:
    group = _committed(stage)
    stage.ask(_of_groups(stage, [(group.name, (stage.topic,)), (group.name, None)]))


# Open transactions (KIP-447)


def _awaits(stage: Stage, group: PlayedGroup) -> None:
    """Wait until no transaction holds the offset of partition 0."""

    def is_stable() -> bool:
        asked = fetched(stage, group.name, stage.topic, is_stable=True)
        return not stage.do(asked, 7).topics[0].partitions[0].error_code

    stage.until(is_stable, "offsets of a transaction that has ended")


for _is_committed, _end in ((True, "committed"), (False, "aborted")):

    @BOOK.play(f"the offset of a transaction that is {_end}", versions="5,7-8,10", source=_EOS)
    def _transaction(stage: Stage, is_committed: bool = _is_committed) -> None:
        """Pending offsets are not shown, and make stable offsets wait."""
        group = _committed(stage)
        transaction = OffsetsTransaction(stage, group.name)
        transaction.commit(stage.topic, {0: 40})
        stage.ask(fetched(stage, group.name, stage.topic))
        if stage.version >= 7:
            stage.ask(fetched(stage, group.name, stage.topic, is_stable=True))
        transaction.end(is_committed=is_committed)
        _awaits(stage, group)
        stage.ask(fetched(stage, group.name, stage.topic))


@BOOK.play("the first offset of a group in a transaction", versions="7-8,10", source=_EOS)
def _first_offset(stage: Stage) -> None:
    """The group has a pending offset only."""
    group = PlayedGroup(stage)
    transaction = OffsetsTransaction(stage, group.name)
    transaction.commit(stage.topic, {0: 40})
    for is_stable in (False, True):
        stage.ask(fetched(stage, group.name, stage.topic, is_stable=is_stable))
    stage.note("the state of the group", group.state())
    transaction.end(is_committed=False)
    _awaits(stage, group)
    stage.ask(fetched(stage, group.name, stage.topic))


@BOOK.play("everything beside a transaction", versions="7-8,10", source=_EOS)
def _all_beside(stage: Stage) -> None:
    """All topics: stable partitions have their offsets, the others an error."""
    group = PlayedGroup(stage)
    stage.do(commit_of(stage, group.name, {stage.topic: {0: 3, 1: 4}}), COMMIT)
    transaction = OffsetsTransaction(stage, group.name)
    transaction.commit(stage.topic, {0: 40})
    transaction.commit(stage.compacted, {0: 50})
    for is_stable in (False, True):
        stage.ask(fetched(stage, group.name, is_all=True, is_stable=is_stable))
    transaction.end(is_committed=True)
    _awaits(stage, group)
    stage.ask(fetched(stage, group.name, stage.topic))


@BOOK.play("a commit beside a transaction", versions="7-8,10", source=_EOS)
def _beside(stage: Stage) -> None:
    """A plain commit of the same partition does not end the pending one."""
    group = PlayedGroup(stage)
    transaction = OffsetsTransaction(stage, group.name)
    transaction.commit(stage.topic, {0: 40})
    stage.ask(commit(stage, group.name, stage.topic, 6), COMMIT)
    for is_stable in (False, True):
        stage.ask(fetched(stage, group.name, stage.topic, is_stable=is_stable))
    transaction.end(is_committed=True)
    _awaits(stage, group)
    stage.ask(fetched(stage, group.name, stage.topic))


@BOOK.play("a transaction of another group", versions="7-8", source=_EOS)
def _other_group(stage: Stage) -> None:
    """Pending offsets concern their own group only."""
    group = _committed(stage)
    transaction = OffsetsTransaction(stage, stage.name("other"))
    transaction.commit(stage.topic, {0: 40})
    stage.ask(fetched(stage, group.name, stage.topic, is_stable=True))
    transaction.end(is_committed=False)


@BOOK.play("two transactions of a partition", versions="7,10", source=_EOS)
def _two_transactions(stage: Stage) -> None:
    """Offsets are stable when both have ended; the later end counts."""
    group = PlayedGroup(stage)
    first = OffsetsTransaction(stage, group.name)
    second = OffsetsTransaction(stage, group.name, "second")
    first.commit(stage.topic, {0: 40})
    second.commit(stage.topic, {0: 50})
    second.end(is_committed=True)

    def has_second() -> bool:
        found = stage.do(fetched(stage, group.name, stage.topic), 7)
        return bool(found.topics[0].partitions[0].committed_offset == 50)

    stage.until(has_second, "the offset of the second transaction")
    stage.ask(fetched(stage, group.name, stage.topic, is_stable=True))
    first.end(is_committed=True)
    _awaits(stage, group)
    stage.ask(fetched(stage, group.name, stage.topic, is_stable=True))
