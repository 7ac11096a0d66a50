"""OffsetCommit: who may commit which offsets, and what a group keeps of them."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.classic_groups.classic import (
    FETCH,
    JOIN,
    PlayedGroup,
    commit,
    commit_of,
    deleted,
    described,
    fetched,
    forgotten,
    leave,
)
from wirekafka.conformance.stage import GROUP, Stage
from wirekafka.errors import Error
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest

BOOK = Book(
    OffsetCommitRequest, "classic groups", ConformanceLevel.CORE, "OffsetCommitRequest.json"
)
_STATIC = "KIP-345"
_FEW = "2,8,10"
"""The oldest version, the version of most clients, and the version with topic ids."""
_MOST_METADATA = 4096
_FACE = "\N{GRINNING FACE}"
"""Two units of UTF-16, in which Kafka measures metadata."""

_ASKS: dict[str, Make] = {
    "a simple one": lambda s: commit(s, s.name(), s.topic),
    "of a missing topic": lambda s: commit(s, s.name(), s.missing),
    "of a missing partition": lambda s: commit(s, s.name(), s.topic, partition=9),
    "of a negative partition": lambda s: commit(s, s.name(), s.topic, partition=-1),
    "of offset 0": lambda s: commit(s, s.name(), s.topic, 0),
    "of a negative offset": lambda s: commit(s, s.name(), s.topic, -5),
    "of offset minus 1": lambda s: commit(s, s.name(), s.topic, -1),
    "of an offset beyond the end": lambda s: commit(s, s.name(), s.topic, 2**62),
    "of null metadata": lambda s: commit(s, s.name(), s.topic, metadata=None),
    "of no metadata": lambda s: commit(s, s.name(), s.topic, metadata=""),
    "of metadata that fits": lambda s: commit(s, s.name(), s.topic, metadata="x" * _MOST_METADATA),
    "of long metadata": lambda s: commit(s, s.name(), s.topic, metadata="x" * (_MOST_METADATA + 1)),
    "of metadata that fits in characters": lambda s: commit(
        s, s.name(), s.topic, metadata="\u00e9" * _MOST_METADATA
    ),
    "of metadata that does not fit in characters": lambda s: commit(
        s, s.name(), s.topic, metadata="\u00e9" * (_MOST_METADATA + 1)
    ),
    "of metadata that fits in units of UTF-16": lambda s: commit(
        s, s.name(), s.topic, metadata=_FACE * (_MOST_METADATA // 2)
    ),
    "of metadata that does not fit in units of UTF-16": lambda s: commit(
        s, s.name(), s.topic, metadata=_FACE * (_MOST_METADATA // 2 + 1)
    ),
    "of metadata for a missing topic": lambda s: commit(
        s, s.name(), s.missing, metadata="x" * (_MOST_METADATA + 1)
    ),
    "to an unknown generation": lambda s: commit(s, s.name(), s.topic, generation=3),
    "to generation 0": lambda s: commit(s, s.name(), s.topic, generation=0),
    "to generation minus 2": lambda s: commit(s, s.name(), s.topic, generation=-2),
    "of an unknown member": lambda s: commit(s, s.name(), s.topic, generation=3, member="who"),
    "of an unknown member without a generation": lambda s: commit(
        s, s.name(), s.topic, member="who"
    ),
    "of no topics": lambda s: commit_of(s, s.name(), {}),
    "of no topics by an unknown member": lambda s: commit_of(
        s, s.name(), {}, generation=3, member="who"
    ),
    "of no partitions": lambda s: commit_of(s, s.name(), {s.topic: {}}),
    "of two partitions": lambda s: commit_of(s, s.name(), {s.topic: {0: 3, 1: 4}}),
    "of two topics": lambda s: commit_of(s, s.name(), {s.topic: {0: 3}, s.compacted: {0: 4}}),
    "of known and missing topics": lambda s: commit_of(
        s, s.name(), {s.missing: {0: 3, 1: 7}, s.topic: {0: 3, 9: 1}, s.compacted: {0: 4}}
    ),
    "of known topics to an unknown generation": lambda s: commit_of(
        s, s.name(), {s.missing: {0: 3}, s.topic: {0: 3, 9: 1}}, generation=4, member="who"
    ),
}
for _title, _make in _ASKS.items():
    BOOK.ask(_title, _make)

BOOK.ask(
    "of a static member of an unknown group",
    lambda s: commit(s, s.name(), s.topic, generation=3, member="who", instance="me"),
    versions="7+",
    source=_STATIC,
)
BOOK.ask(
    "of an instance id without a member",
    lambda s: commit(s, s.name(), s.topic, instance="me"),
    versions="7+",
    source=_STATIC,
)


def _with_id(stage: Stage, *ids: bytes) -> OffsetCommitRequest:
    request = commit_of(stage, stage.name(), {f"topic-{at}": {0: 1} for at in range(len(ids))})
    for topic, id in zip(request.topics, ids, strict=True):
        topic.topic_id = id
    return request


BOOK.ask("by no topic id", lambda s: _with_id(s, bytes(16)), versions="10+", source="KIP-848")
BOOK.ask(
    "by two unknown topic ids",
    lambda s: _with_id(s, bytes(range(2, 18)), bytes(range(3, 19))),
    versions="10+",
    source="KIP-848",
)


def _kept(stage: Stage, group: PlayedGroup, *names: str, version: int = FETCH) -> None:
    """Compare what the group has committed."""
    stage.ask(fetched(stage, group.name, *(names or (stage.topic,))), version)


_ROUNDS: dict[str, dict[str, Any]] = {
    "a commit is kept": {},
    "null metadata is kept": {"metadata": None},
    "metadata is kept": {"metadata": "m\u00e9tadonn\u00e9es \N{GRINNING FACE}"},
    "a negative offset is kept": {"offset": -5},
    "a refused commit is not kept": {"metadata": "x" * 5000},
}
for _title, _options in _ROUNDS.items():

    @BOOK.play(_title, versions=_FEW)
    def _round(stage: Stage, options: dict[str, Any] = _options) -> None:
        group = PlayedGroup(stage)
        stage.ask(commit(stage, group.name, stage.topic, **options))
        _kept(stage, group)


@BOOK.play("the leader epoch of a commit", versions="2,5-6,10", source="KIP-320")
def _epoch(stage: Stage) -> None:
    """Epochs are kept from version 6, and forgotten by a commit without one."""
    group = PlayedGroup(stage)
    for epoch in (7, 3, -1):
        stage.ask(commit(stage, group.name, stage.topic, epoch=epoch))
        _kept(stage, group)


@BOOK.play("a retention time", versions="2,4-5", source="KIP-211")
def _retention(stage: Stage) -> None:
    """A commit of an older client with a time of its own can be read."""
    group = PlayedGroup(stage)
    for time_ms in (86_400_000, -1):
        stage.ask(commit(stage, group.name, stage.topic, retention_ms=time_ms))
        _kept(stage, group)


@BOOK.play("a commit replaces the one before", versions=_FEW)
def _replaced(stage: Stage) -> None:
    """Offsets go back, too; other partitions keep theirs."""
    group = PlayedGroup(stage)
    stage.ask(commit_of(stage, group.name, {stage.topic: {0: 9, 1: 8}}))
    stage.ask(commit(stage, group.name, stage.topic, 4, metadata="less"))
    _kept(stage, group)


@BOOK.play("parts of a commit are refused", versions=_FEW)
def _parts(stage: Stage) -> None:
    """Partitions of a request have errors of their own; the others are committed."""
    group = PlayedGroup(stage)
    request = commit_of(stage, group.name, {stage.topic: {0: 9, 1: 8, 7: 1}, stage.missing: {0: 1}})
    request.topics[0].partitions[0].committed_metadata = "x" * 5000
    stage.ask(request)
    _kept(stage, group)


@BOOK.play("a partition twice in a request", versions="2,8", source="OffsetCommitRequest.json")
def _twice(stage: Stage) -> None:
    """The last one is kept."""
    group = PlayedGroup(stage)
    request = commit(stage, group.name, stage.topic, 3)
    part = OffsetCommitRequest.Topic.Partition
    request.topics[0].partitions.append(part(partition_index=0, committed_offset=7))
    stage.ask(request)
    _kept(stage, group)


@BOOK.play("the group without a name", versions="2,9", is_alone=True)
def _nameless(stage: Stage) -> None:
    """Offsets can be committed to it, read and described, but not deleted one by one."""
    at = stage.coordinator(GROUP, "")
    listed = stage.do(ListGroupsRequest(), 0, at=at).groups
    is_mine = all(each.group_id for each in listed)
    stage.ask(commit(stage, "", stage.topic), at=at)
    stage.ask(fetched(stage, "", stage.topic), FETCH, at=at)
    state = stage.do(described(""), 0, at=at).groups[0]
    stage.note("its state", state.group_state)
    stage.note("its error", Error.of(state.error_code).name)
    answer = stage.do(forgotten("", stage.topic), 0, at=at)
    stage.note("offsets deleted", Error.of(answer.error_code).name)
    if is_mine:
        answer = stage.do(deleted(""), 0, at=at).results[0]
    # What somebody else has in it must not be lost.
    refused = Error.of(answer.error_code) if is_mine else Error.NONE
    stage.note("it may be deleted", refused in (Error.NONE, Error.GROUP_ID_NOT_FOUND))


# Members


@BOOK.play("a member of a stable group", versions="2-10")
def _stable(stage: Stage) -> None:
    """Members commit in their generation, whoever leads."""
    group = PlayedGroup(stage)
    leader, follower = group.settle("a", "b")
    stage.ask(leader.commit(stage.topic, 7))
    stage.ask(follower.commit(stage.topic, 8, partition=1))
    _kept(stage, group)


@BOOK.play("a member before the assignment", versions=_FEW)
def _completing(stage: Stage) -> None:
    """A member without an assignment must not commit."""
    group = PlayedGroup(stage)
    (member,) = group.gather("a")
    stage.ask(member.commit(stage.topic))
    _kept(stage, group)


@BOOK.play("a member in a rebalance", versions=_FEW)
def _preparing(stage: Stage) -> None:
    """A member may commit what it has read before it rejoins."""
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    group.member("b").starts(JOIN, is_compared=False)
    member.must_rejoin()
    stage.ask(member.commit(stage.topic))
    stage.ask(member.commit(stage.topic, 9, generation=0))
    _kept(stage, group)


@BOOK.play("a member of the generation before", versions=_FEW)
def _behind(stage: Stage) -> None:
    group = PlayedGroup(stage)
    first, second = group.settle("a", "b")
    stage.ask(first.commit(stage.topic, generation=1))
    stage.ask(second.commit(stage.topic, generation=1))
    _kept(stage, group)


_WRONG: dict[str, dict[str, Any]] = {
    "the next generation": {"generation": 2},
    "generation minus 1": {"generation": -1},
    "generation minus 1 and no member": {"generation": -1, "member": ""},
    "generation minus 1 and an unknown member": {"generation": -1, "member": "who"},
    "an unknown member": {"member": "who"},
    "no member": {"member": ""},
    "an unknown member in a wrong generation": {"member": "who", "generation": 9},
}
for _title, _options in _WRONG.items():

    @BOOK.play(_title, versions=_FEW)
    def _wrong(stage: Stage, options: dict[str, Any] = _options) -> None:
        """What a member of a stable group must not say."""
        group = PlayedGroup(stage)
        (member,) = group.settle("a")
        stage.ask(member.commit(stage.topic, **options))
        _kept(stage, group)

    @BOOK.play(f"{_title}, in a group that was left", versions="8")
    def _wrong_empty(stage: Stage, options: dict[str, Any] = _options) -> None:
        """What nobody must say to an empty group, but without a generation."""
        group = PlayedGroup(stage)
        (member,) = group.settle("a")
        group.loses(member)
        stage.ask(member.commit(stage.topic, **options))

    @BOOK.play(f"{_title}, before the assignment", versions="8")
    def _wrong_early(stage: Stage, options: dict[str, Any] = _options) -> None:
        (member,) = PlayedGroup(stage).gather("a")
        stage.ask(member.commit(stage.topic, **options))


@BOOK.play("a member that has left", versions=_FEW)
def _left(stage: Stage) -> None:
    """Its commits of its last generation are refused, in an empty group as well."""
    group = PlayedGroup(stage)
    first, second = group.settle("a", "b")
    group.loses(second)
    stage.ask(second.commit(stage.topic))
    group.loses(first)
    stage.ask(first.commit(stage.topic))
    _kept(stage, group)


@BOOK.play("a commit to a group that was left", versions=_FEW)
def _emptied(stage: Stage) -> None:
    """Anybody may commit without a generation when there are no members."""
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    stage.do(member.commit(stage.topic, 3), 8)
    group.loses(member)
    stage.ask(commit(stage, group.name, stage.topic, 6))
    _kept(stage, group)


@BOOK.play("the generation of a group that was left", versions="2,8")
def _left_generation(stage: Stage) -> None:
    """A generation needs a member."""
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    group.loses(member)
    stage.ask(commit(stage, group.name, stage.topic, generation=2))


@BOOK.play("a member of a deleted group", versions=_FEW)
def _deleted(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle("a")
    group.loses(member)
    stage.do(deleted(group.name), 1)
    stage.ask(member.commit(stage.topic))
    stage.ask(commit(stage, group.name, stage.topic))


@BOOK.play("an id that was given only", versions="2,8", source="KIP-394")
def _pending(stage: Stage) -> None:
    """A pending member of an empty group, and of a stable group."""
    group = PlayedGroup(stage)
    pending, late = group.member("a"), group.member("c")
    pending.gets_id()
    stage.ask(pending.commit(stage.topic))
    stage.ask(pending.commit(stage.topic, generation=0))
    stage.ask(commit(stage, group.name, stage.topic))
    group.settle("b")
    late.gets_id()
    stage.ask(late.commit(stage.topic, generation=1))


@BOOK.play("a group of another protocol type", versions="2,8")
def _connect(stage: Stage) -> None:
    """The type of the group makes no difference."""
    group = PlayedGroup(stage)
    (member,) = group.settle(group.member("a", kind="connect", protocols=["sessioned"]))
    stage.ask(member.commit(stage.topic))
    _kept(stage, group)


# Static members (KIP-345)


@BOOK.play("a static member", versions="7-8,10", source=_STATIC)
def _static(stage: Stage) -> None:
    """With and without its instance id, and with another instance id."""
    group = PlayedGroup(stage)
    (member,) = group.settle(group.member("a", "me"))
    stage.ask(member.commit(stage.topic))
    stage.ask(member.commit(stage.topic, instance=None))
    stage.ask(member.commit(stage.topic, instance="other"))
    stage.ask(member.commit(stage.topic, member="who"))
    stage.ask(member.commit(stage.topic, member="who", generation=9))
    stage.ask(member.commit(stage.topic, member="", generation=-1))


@BOOK.play("a static member that came back", versions="7-8,10", source=_STATIC)
def _came_back(stage: Stage) -> None:
    """The old id is fenced with the instance id, and unknown without it."""
    group = PlayedGroup(stage)
    _, member = group.settle(group.member("a"), group.member("b", "me"))
    old = member.id
    member.id = ""
    member.starts(JOIN, is_compared=False).answer()
    stage.ask(member.commit(stage.topic, member=old))
    stage.ask(member.commit(stage.topic, member=old, instance=None))
    stage.ask(member.commit(stage.topic))
    _kept(stage, group)


@BOOK.play("a static member that has left", versions="7-8", source=_STATIC)
def _static_left(stage: Stage) -> None:
    group = PlayedGroup(stage)
    (member,) = group.settle(group.member("a", "me"))
    stage.do(leave(group.name, ("", "me")), 3)
    stage.ask(member.commit(stage.topic))


# Topics that go


@BOOK.play("a topic that was deleted", versions="8,10", source="KIP-848")
def _deleted_topic(stage: Stage) -> None:
    """Nothing can be committed for it, by its name or by its id."""
    group = PlayedGroup(stage)
    name = stage.create()
    stage.delete(name)

    def is_gone() -> bool:
        answer = stage.do(commit(stage, group.name, name), 8)
        return bool(answer.topics[0].partitions[0].error_code)

    stage.until(is_gone, "a deleted topic")
    stage.ask(commit(stage, group.name, name))


@BOOK.play("a topic that was made again", versions="8,10", source="KIP-848")
def _made_again(stage: Stage) -> None:
    """The second topic does not begin with the offsets of the first."""
    group = PlayedGroup(stage)
    name = stage.create()
    group.commit(name, 3)
    stage.delete(name)

    def is_forgotten() -> bool:
        found = stage.do(fetched(stage, group.name, name), FETCH)
        return bool(found.topics[0].partitions[0].committed_offset == -1)

    stage.until(is_forgotten, "offsets of a deleted topic that are gone")
    stage.create()
    group.commit(name, 9)
    stage.ask(commit(stage, group.name, name, 1))
    _kept(stage, group, name)
