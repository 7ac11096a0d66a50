"""A shard serves groups of any kind that implements the contract; here is the smallest kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import pytest

from tests.manual_clock import ManualClock
from tests.memory_log import MemoryLog
from wirekafka.coordinator.groups.classic.kind import ClassicKind
from wirekafka.coordinator.groups.commands import (
    AssignorChoice,
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroups,
    DescribeGroup,
    FetchAllOffsets,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    Leaver,
    ListedGroup,
    ListGroups,
    OffsetToCommit,
)
from wirekafka.coordinator.groups.config import GroupConfig
from wirekafka.coordinator.groups.coordinator import GroupCoordinator
from wirekafka.coordinator.groups.group import Expiry, Group, GroupKind, Turn
from wirekafka.coordinator.groups.record_table import RECORD_TYPES, GroupRecordCodec
from wirekafka.coordinator.groups.record_types import RecordType
from wirekafka.coordinator.groups.shard import GroupShard
from wirekafka.coordinator.groups.topic_changes import changed
from wirekafka.coordinator.topic_changes import TopicChanges
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Ticket
from wirekafka.runtime.runtime import Runtime


class TallyRecord(NamedTuple):
    group_id: str
    epoch: int | None


class TallyKey(NamedTuple):
    group_id: str


class Count(NamedTuple):
    """A command whose reply is the new epoch, once written; the group expires after a minute."""

    group_id: str


def pack(record: TallyRecord) -> tuple[bytes, bytes | None]:
    value = None if record.epoch is None else record.epoch.to_bytes(4)
    return b"\0\x63" + record.group_id.encode(), value


def unpack(key: bytes, value: bytes | None) -> TallyRecord:
    return TallyRecord(key[2:].decode(), None if value is None else int.from_bytes(value))


class Tally(Group):
    """Its hard state is an epoch, its soft state the topics that it was notified of."""

    type_name = "tally"

    def __init__(self, group_id: str):
        super().__init__(group_id)
        self.epoch = 0
        self.heard: frozenset[str] = frozenset()

    def copy(self) -> Self:
        copy = type(self)(self.group_id)
        copy.epoch, copy.heard = self.epoch, self.heard
        return copy

    @property
    def is_empty(self) -> bool:
        return self.epoch == 0

    @property
    def member_count(self) -> int:
        return 0

    def listed(self) -> ListedGroup:
        return ListedGroup(self.group_id, "tally", "Counting", self.type_name)

    def check_deletion(self) -> None:
        if self.epoch > 1:
            raise KafkaError(Error.NON_EMPTY_GROUP)

    def check_offset_deletion(self) -> None:
        pass

    def is_subscribed_to(self, topic: str) -> bool:
        return False

    def offset_expiry(self) -> Expiry | None:
        return None

    def is_affected_by(self, topics: frozenset[str]) -> bool:
        return "t" in topics

    def snapshot(self) -> Iterator[TallyRecord]:
        yield TallyRecord(self.group_id, self.epoch)

    def tombstones(self) -> Iterator[TallyRecord]:
        yield TallyRecord(self.group_id, None)


class TallyKind(GroupKind[Tally]):
    group = Tally

    def __init__(self, config: GroupConfig, groups: dict[str, Group]):
        super().__init__(groups)
        self.commands = {Count: self.count, Leave: self.leave}
        self.timers = {TallyKey: self.run_out}
        self.records = {TallyRecord: self.replay}

    def count(self, command: Count, ticket: Ticket, turn: Turn) -> None:
        group = self.groups.get(command.group_id)
        epoch = group.epoch + 1 if isinstance(group, Tally) else 1
        turn.write(TallyRecord(command.group_id, epoch))
        turn.schedule(TallyKey(command.group_id), turn.now_ms + 60_000)
        turn.answer(ticket, epoch)

    def leave(self, command: Leave, ticket: Ticket, turn: Turn) -> None:
        turn.write(TallyRecord(command.group_id, 0))
        turn.answer(ticket, "left")

    def run_out(self, key: TallyKey, turn: Turn) -> None:
        turn.write(TallyRecord(key.group_id, None))

    def replay(self, record: TallyRecord) -> None:
        if record.epoch is None:
            del self.groups[record.group_id]
            return
        group = self.groups.get(record.group_id)
        if not isinstance(group, Tally):
            group = self.groups[record.group_id] = Tally(record.group_id)
        group.epoch = record.epoch

    def loaded(self, group: Tally, turn: Turn) -> None:
        turn.schedule(TallyKey(group.group_id), turn.now_ms + 60_000)

    def topics_changed(self, group: Tally, topics: frozenset[str], turn: Turn) -> None:
        draft = turn.draft(group)
        draft.heard |= topics

    def check_commit(self, group: Tally, command: CommitOffsets, turn: Turn) -> None:
        if command.generation_id != group.epoch:
            raise KafkaError(Error.STALE_MEMBER_EPOCH)

    def check_transactional_commit(self, group: Tally, command: CommitTransactionOffsets) -> None:
        raise KafkaError(Error.STALE_MEMBER_EPOCH)

    def check_fetch(self, group: Tally, command: FetchOffsets | FetchAllOffsets) -> None:
        if command.member_epoch not in (-1, group.epoch):
            raise KafkaError(Error.STALE_MEMBER_EPOCH)


class Shard:
    def __init__(self) -> None:
        self.clock, self.log = ManualClock(), MemoryLog()
        self.runtime = self.load()

    def load(self) -> Runtime:
        codec = GroupRecordCodec((*RECORD_TYPES, RecordType(TallyRecord, (99,), pack, unpack)))
        self.runtime = Runtime(
            lambda: GroupShard(GroupConfig(), (ClassicKind, TallyKind)), self.log, codec, self.clock
        )
        self.runtime.load()
        return self.runtime

    def __call__(self, command: Any) -> Any:
        try:
            return self.runtime.post(command).result()
        except KafkaError as error:
            return error.error

    @property
    def groups(self) -> dict[str, Group]:
        machine = self.runtime.machine
        assert isinstance(machine, GroupShard)
        return machine.groups


@pytest.fixture
def shard() -> Shard:
    return Shard()


def commit(group_id: str, epoch: int) -> CommitOffsets:
    return CommitOffsets(group_id, epoch, "", [OffsetToCommit("t", 0, 5)])


JOIN = Join(
    group_id="tally",
    protocol_type="consumer",
    fresh_id="1",
    protocols=(AssignorChoice("range", b""),),
    session_timeout_ms=10_000,
    rebalance_timeout_ms=10_000,
)


def test_a_kind_decides_replays_and_is_rebuilt(shard: Shard) -> None:
    assert [shard(Count("tally")), shard(Count("tally"))] == [1, 2]
    shard.load()
    assert shard(Count("tally")) == 3


def test_a_kinds_timers_fire_and_restart_after_loading(shard: Shard) -> None:
    shard(Count("tally"))
    shard.clock.advance(50_000)
    shard.load()
    shard.clock.advance(59_999)
    assert "tally" in shard.groups
    shard.clock.advance(1)
    assert shard.groups == {}


def test_all_kinds_are_listed_and_deleted_as_they_permit(shard: Shard) -> None:
    shard(Count("tally"))
    shard(commit("classic", -1))
    assert [(each.group_id, each.type) for each in shard(ListGroups())] == [
        ("tally", "tally"),
        ("classic", "classic"),
    ]
    shard(commit("tally", 1))
    shard(Count("tally"))
    assert shard(DeleteGroups(["tally", "classic"])) == [Error.NON_EMPTY_GROUP, Error.NONE]
    shard(Leave("tally", []))
    assert shard(DeleteGroups(["tally"])) == [Error.NONE]
    assert shard.groups == {} and shard(FetchAllOffsets("tally")) == []


def test_a_command_of_several_kinds_goes_to_the_groups_own(shard: Shard) -> None:
    shard(Count("tally"))
    shard(commit("classic", -1))
    leaver = [Leaver("m")]
    assert shard(Leave("tally", leaver)) == "left"
    assert shard(Leave("classic", leaver)) == [Error.UNKNOWN_MEMBER_ID]
    assert shard(Leave("none", leaver)) == [Error.UNKNOWN_MEMBER_ID]


def test_classic_requests_for_a_group_of_another_kind_are_refused(shard: Shard) -> None:
    shard(Count("tally"))
    assert shard(JOIN) is Error.INCONSISTENT_GROUP_PROTOCOL
    assert shard(Heartbeat("tally", 1, "m")) is Error.UNKNOWN_MEMBER_ID
    assert shard(DescribeGroup("tally")) is Error.GROUP_ID_NOT_FOUND


def test_a_kind_decides_who_may_commit_and_fetch(shard: Shard) -> None:
    shard(Count("tally"))
    assert shard(commit("tally", -1)) is Error.STALE_MEMBER_EPOCH
    assert shard(commit("tally", 1)) == [Error.NONE]
    assert shard(CommitTransactionOffsets("tally", 1, "", [])) is Error.STALE_MEMBER_EPOCH
    assert shard(FetchAllOffsets("tally", member_epoch=2)) is Error.STALE_MEMBER_EPOCH
    assert [each.offset for each in shard(FetchOffsets("tally", [("t", 0)]))] == [5]


def test_changes_of_topics_reach_the_affected_groups_in_portions(shard: Shard) -> None:
    for number in range(250):
        shard(Count(f"tally-{number}"))
    shard(commit("classic", -1))
    changes = TopicChanges(shard.runtime, shard.clock, "shard")
    changes.add(changed(frozenset({"t", "u"})))
    changes.add(changed(frozenset({"v"})))
    assert heard(shard) == set()
    changes.go_on()
    assert len(heard(shard)) == 100
    shard.clock.advance(0)
    assert len(heard(shard)) == 250
    assert vars(shard.groups["tally-7"])["heard"] == {"t", "u"}


def test_changes_of_topics_are_kept_until_the_shard_can_take_them(shard: Shard) -> None:
    shard(Count("tally"))
    changes = TopicChanges(shard.runtime, shard.clock, "shard")
    changes.go_on()
    steps = shard.runtime.load_steps()
    next(steps)
    changes.add(changed(frozenset({"t"})))
    assert list(steps) == [] and heard(shard) == set()
    shard.clock.advance(1_000)
    assert heard(shard) == {"tally"}


def test_a_change_of_topics_that_cannot_be_processed_holds_up_no_other(shard: Shard) -> None:
    shard(Count("tally"))
    changes = TopicChanges(shard.runtime, shard.clock, "shard")
    changes.go_on()

    def broken(_: object) -> Iterator[Any]:
        raise RuntimeError("broken")

    changes.add(broken)
    changes.add(changed(frozenset({"t"})))
    shard.clock.advance(0)
    assert heard(shard) == {"tally"}


def test_changes_of_topics_end_with_the_leadership(shard: Shard) -> None:
    shard(Count("tally"))
    changes = TopicChanges(shard.runtime, shard.clock, "shard")
    changes.go_on()
    changes.close()
    changes.add(changed(frozenset({"t"})))
    assert heard(shard) == set()


def heard(shard: Shard) -> set[str]:
    return {
        group_id
        for group_id, group in shard.groups.items()
        if isinstance(group, Tally) and group.heard
    }


def test_every_record_type_is_replayed_by_some_kind() -> None:
    shard = GroupCoordinator(
        GroupConfig(), ManualClock(), lambda: 1, lambda error: None
    ).make_shard()
    assert {each.record for each in RECORD_TYPES} == shard._records.keys()
    versions = [version for each in RECORD_TYPES for version in each.key_versions]
    assert len(versions) == len(set(versions))
