"""The share coordinator's machine: fencing, snapshots, and replay of its records."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.manual_clock import ManualClock
from tests.memory_log import MemoryLog
from wirekafka.codec.batch import read_header
from wirekafka.codec.compression import Codec
from wirekafka.coordinator.share_state.commands import StateDeletion, SummaryRead, TopicsDeletion
from wirekafka.coordinator.share_state.records import (
    ShareRecord,
    ShareRecordCodec,
    ShareSnapshot,
    ShareUpdate,
)
from wirekafka.coordinator.share_state.shard import (
    ShareCoordinatorConfig,
    ShareShard,
    share_key_hash,
)
from wirekafka.coordinator.share_state.states import (
    NO_COUNT,
    NO_OFFSET,
    ShareKey,
    StateBatch,
    StateInitialization,
    StateRead,
    StateSummary,
    StateWrite,
    StoredState,
)
from wirekafka.coordinator.topics import NO_TOPICS, CoordinatedTopic
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.runtime import Runtime

TOPIC, OTHER, DOOMED = b"t" * 16, b"o" * 16, b"d" * 16
KEY = ShareKey("group", TOPIC, 0)
UPDATES, INTERVAL_MS = 3, 1_000
CONFIG = ShareCoordinatorConfig(updates_per_snapshot=UPDATES, cold_snapshot_interval_ms=INTERVAL_MS)


class Topics:
    """Topics of two partitions each."""

    version = creation_version = 0
    names, racks, by_name = NO_TOPICS.names, NO_TOPICS.racks, NO_TOPICS.by_name

    def by_id(self, id: bytes) -> CoordinatedTopic | None:
        return CoordinatedTopic("name", id, 2) if id in (TOPIC, OTHER, DOOMED) else None


class Coordinator:
    """A shard on a log in memory."""

    def __init__(self, log: MemoryLog | None = None, config: ShareCoordinatorConfig = CONFIG):
        self.clock = ManualClock()
        self.log = log or MemoryLog()
        self.codec = ShareRecordCodec(config.compression)
        self.runtime = Runtime(
            lambda: ShareShard(config, Topics()), self.log, self.codec, self.clock
        )
        self.runtime.load()

    def run(self, command: Any) -> Any:
        return self.runtime.post(command).result()

    def error_of(self, command: Any) -> tuple[Error, str | None]:
        with pytest.raises(KafkaError) as refused:
            self.run(command)
        return refused.value.error, refused.value.message

    def records(self) -> list[ShareRecord]:
        return [record for batch in self.log.batches for record in self.codec.decode(batch)]

    def values(self) -> list[Any]:
        return [record.value for record in self.records()]

    def state(self) -> dict[ShareKey, Any]:
        """Everything that requests can read."""
        return {
            key: (self.run(SummaryRead(key)), record.value.batches)
            for record in self.runtime.machine.snapshot()
            if (key := record.key)
        }


def write(
    *batches: tuple[int, int, int, int], key: ShareKey = KEY, start: int = NO_OFFSET, **fields: int
) -> StateWrite:
    given = {"state_epoch": 1, "leader_epoch": 0} | fields
    return StateWrite(
        key, start_offset=start, batches=tuple(StateBatch(*each) for each in batches), **given
    )


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator()
    coordinator.run(StateInitialization(KEY, 1, 0))
    return coordinator


def test_an_initialization_is_a_snapshot(coordinator: Coordinator) -> None:
    now_ms = coordinator.clock.now_ms()
    assert coordinator.records() == [
        ShareRecord(KEY, ShareSnapshot(0, 1, 0, 0, 0, now_ms, now_ms), offset=0)
    ]
    assert coordinator.run(StateRead(KEY, 0)) == StoredState(1, 0, ())


def test_a_start_offset_may_be_unknown_at_first() -> None:
    coordinator = Coordinator()
    coordinator.run(StateInitialization(KEY, 1))
    assert coordinator.run(SummaryRead(KEY)) == StateSummary(1, 0, NO_OFFSET, NO_COUNT)


def test_a_state_that_does_not_exist_has_a_summary_but_cannot_be_read_or_written() -> None:
    coordinator = Coordinator()
    assert coordinator.run(SummaryRead(KEY)) == StateSummary(0, 0, NO_OFFSET, NO_COUNT)
    assert coordinator.run(StateDeletion(KEY)) is None
    assert coordinator.error_of(StateRead(KEY, 0)) == (
        Error.INVALID_REQUEST,
        "Read operation on uninitialized share partition not allowed.",
    )
    assert coordinator.error_of(write())[0] is Error.INVALID_REQUEST
    assert coordinator.log.batches == []


def test_writes_are_updates_until_it_is_time_for_a_snapshot(coordinator: Coordinator) -> None:
    for number in range(UPDATES + 2):
        coordinator.run(write((number, number, 2, 1)))
    kinds = [type(value) for value in coordinator.values()]
    assert kinds == [ShareSnapshot, *[ShareUpdate] * UPDATES, ShareSnapshot, ShareUpdate]
    snapshot = coordinator.values()[-2]
    assert snapshot.snapshot_epoch == 1
    assert snapshot.batches == (StateBatch(0, UPDATES, 2, 1),)
    assert coordinator.values()[-1].snapshot_epoch == 1


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        (NO_OFFSET, 7, (10, 3)),
        (9, 7, (10, 3)),
        (10, 7, (10, 7)),
        (10, 2, (10, 3)),
        (12, 1, (12, 1)),
    ],
)
def test_the_start_offset_and_its_count_never_move_back(
    start: int, count: int, expected: tuple[int, int]
) -> None:
    coordinator = Coordinator()
    coordinator.run(StateInitialization(KEY, 1, 10))
    coordinator.run(write(start=10, delivery_complete_count=3))
    coordinator.run(write(start=start, delivery_complete_count=count))
    assert coordinator.run(SummaryRead(KEY))[2:] == expected


def test_a_read_by_a_new_leader_fences_earlier_ones(coordinator: Coordinator) -> None:
    coordinator.run(StateRead(KEY, 5))
    assert coordinator.values()[-1] == ShareUpdate(0, 5, 0, 0)
    coordinator.run(StateRead(KEY, 5))
    assert len(coordinator.values()) == 2, "the epoch is known"
    message = "The leader epoch in the request is older than the epoch on the broker."
    assert coordinator.error_of(StateRead(KEY, 4)) == (Error.FENCED_LEADER_EPOCH, message)
    assert coordinator.error_of(write(leader_epoch=4)) == (Error.FENCED_LEADER_EPOCH, message)
    coordinator.run(write(leader_epoch=5))


def test_an_initialization_fences_earlier_state_epochs(coordinator: Coordinator) -> None:
    coordinator.run(StateRead(KEY, 5))
    coordinator.run(StateInitialization(KEY, 8, 3))
    assert coordinator.error_of(StateInitialization(KEY, 7))[0] is Error.FENCED_STATE_EPOCH
    assert coordinator.error_of(write(state_epoch=7, leader_epoch=5))[0] is Error.FENCED_STATE_EPOCH
    assert coordinator.error_of(write(state_epoch=8))[0] is Error.FENCED_LEADER_EPOCH
    assert coordinator.run(SummaryRead(KEY)) == StateSummary(8, 0, 3, 0)


@pytest.mark.parametrize(
    "command",
    [
        StateInitialization(KEY._replace(partition=-1), 1),
        StateInitialization(KEY, -1),
        StateRead(KEY._replace(partition=-1), 0),
        StateRead(KEY, -1),
        write(key=KEY._replace(partition=-1)),
        write(leader_epoch=-1),
        write(state_epoch=-1),
        StateDeletion(KEY._replace(partition=-1)),
        SummaryRead(KEY._replace(partition=-1)),
    ],
)
def test_negative_numbers_are_refused(coordinator: Coordinator, command: Any) -> None:
    error, message = coordinator.error_of(command)
    assert error is Error.INVALID_REQUEST
    assert message is not None and message.endswith("cannot be a negative number.")


@pytest.mark.parametrize("key", [KEY._replace(partition=2), KEY._replace(topic_id=b"?" * 16)])
def test_the_partition_must_exist(coordinator: Coordinator, key: ShareKey) -> None:
    for command in (StateInitialization(key, 1), StateDeletion(key), SummaryRead(key)):
        assert coordinator.error_of(command)[0] is Error.UNKNOWN_TOPIC_OR_PARTITION


def test_batches_that_cannot_be_combined_are_refused(coordinator: Coordinator) -> None:
    assert coordinator.error_of(write((9, 3, 2, 1), (1, 1, 2, 1)))[0] is Error.UNKNOWN_SERVER_ERROR
    coordinator.run(write((1, 1, 2, 1)))
    assert coordinator.error_of(write((9, 3, 2, 1)))[0] is Error.UNKNOWN_SERVER_ERROR


def test_a_deleted_state_leaves_a_tombstone_and_can_be_initialized_again(
    coordinator: Coordinator,
) -> None:
    coordinator.run(StateDeletion(KEY))
    assert coordinator.values()[-1] is None
    assert coordinator.error_of(StateRead(KEY, 0))[0] is Error.INVALID_REQUEST
    coordinator.run(StateInitialization(KEY, 0, 0))
    assert coordinator.values()[-1].snapshot_epoch == 0, "it starts anew"


def test_states_of_deleted_topics_are_deleted_in_portions() -> None:
    coordinator = Coordinator()
    for number in range(1_500):
        coordinator.run(StateInitialization(ShareKey(f"g{number}", DOOMED, 0), 0))
    coordinator.run(StateInitialization(KEY, 0))
    assert coordinator.run(TopicsDeletion(frozenset({DOOMED}))) is True
    assert coordinator.run(TopicsDeletion(frozenset({DOOMED}))) is False
    assert list(coordinator.state()) == [KEY]


def test_inactive_partitions_get_a_new_snapshot_once(coordinator: Coordinator) -> None:
    other = KEY._replace(group_id="other")
    coordinator.run(write((0, 5, 2, 1)))
    coordinator.clock.advance(INTERVAL_MS // 2)
    created_ms = coordinator.clock.now_ms() - INTERVAL_MS // 2
    coordinator.run(StateInitialization(other, 0))
    coordinator.clock.advance(INTERVAL_MS // 2)
    cold = coordinator.records()[-1]
    assert cold.key == KEY, "the other one was active"
    assert cold.value == ShareSnapshot(
        1, 1, 0, 0, 0, created_ms, created_ms + INTERVAL_MS, (StateBatch(0, 5, 2, 1),)
    )
    coordinator.clock.advance(INTERVAL_MS)
    assert {record.key for record in coordinator.records()[-2:]} == {other, KEY}
    count = len(coordinator.values())
    coordinator.clock.advance(10 * INTERVAL_MS)
    assert len(coordinator.values()) == count, "all are known to be inactive"


def test_snapshots_of_many_inactive_partitions_are_written_in_portions() -> None:
    coordinator = Coordinator()
    keys = [ShareKey(f"g{number}", TOPIC, 0) for number in range(3_000)]
    for key in keys:
        coordinator.run(StateInitialization(key, 0))
    count = len(coordinator.log.batches)
    coordinator.clock.advance(INTERVAL_MS + 10)
    cold = coordinator.log.batches[count:]
    assert len(cold) > 1
    assert max(map(len, cold)) < 1 << 18
    records = [record for batch in cold for record in coordinator.codec.decode(batch)]
    assert {record.key for record in records} == set(keys)
    assert len(records) == len(keys)


def test_a_refused_append_changes_nothing(coordinator: Coordinator) -> None:
    before = coordinator.state()
    coordinator.log.failure = KafkaError(Error.NOT_ENOUGH_REPLICAS)
    for command in (write((0, 5, 2, 1)), StateRead(KEY, 9), StateDeletion(KEY)):
        assert coordinator.error_of(command)[0] is Error.NOT_ENOUGH_REPLICAS
    assert coordinator.state() == before
    coordinator.log.failure = None
    coordinator.run(write((0, 5, 2, 1), leader_epoch=1))


def test_an_update_without_its_snapshot_is_replayed() -> None:
    """Pruning may remove the snapshot of an update that is followed by another snapshot."""
    log = MemoryLog()
    batches = (StateBatch(0, 3, 2, 1),)
    update = ShareRecord(KEY, ShareUpdate(4, 2, 7, 1, batches))
    log.append(ShareRecordCodec().encode([update], 0, None))
    coordinator = Coordinator(log)
    assert coordinator.run(SummaryRead(KEY)) == StateSummary(0, 2, 7, 1)
    assert coordinator.run(StateRead(KEY, 2)).batches == batches


def test_batches_are_compressed_with_the_configured_codec() -> None:
    config = ShareCoordinatorConfig(compression=Codec.LZ4)
    coordinator = Coordinator(config=config)
    coordinator.run(StateInitialization(KEY, 1, 0))
    assert read_header(coordinator.log.batches[0]).compression == Codec.LZ4
    assert Coordinator(coordinator.log).state() == coordinator.state()


def test_keys_have_the_hash_codes_of_java() -> None:
    # SharePartitionKey.getInstance("group", new Uuid(1, 2), 3).hashCode()
    key = ShareKey("group", (1).to_bytes(8) + (2).to_bytes(8), 3)
    assert share_key_hash(key) == -1237457570


_keys = st.builds(ShareKey, st.sampled_from("ab"), st.sampled_from((TOPIC, OTHER)), st.just(0))
_epochs = st.integers(0, 2)
_batches = st.lists(
    st.builds(
        lambda first, length, state, count: StateBatch(first, first + length, state, count),
        st.integers(0, 20),
        st.integers(0, 9),
        st.sampled_from((0, 2, 4)),
        st.integers(0, 3),
    ),
    max_size=3,
).map(tuple)
share_commands = st.one_of(
    st.builds(StateInitialization, _keys, _epochs, st.integers(-1, 9)),
    st.builds(StateRead, _keys, _epochs),
    st.builds(StateWrite, _keys, _epochs, _epochs, st.integers(-1, 20), _epochs, _batches),
    st.builds(StateWrite, _keys, st.just(2), st.just(2), st.just(-1), _epochs, _batches),
    st.builds(StateDeletion, _keys),
    st.builds(TopicsDeletion, st.just(frozenset({OTHER}))),
    st.integers(1, 2 * INTERVAL_MS),
)


@pytest.mark.long
@given(st.lists(share_commands, max_size=60))
def test_the_state_follows_from_the_records_alone(commands: list[Any]) -> None:
    coordinator = Coordinator()
    for command in commands:
        if isinstance(command, int):
            coordinator.clock.advance(command)
        else:
            coordinator.runtime.post(command)
    again = Coordinator(coordinator.log)
    assert again.state() == coordinator.state()
    short = MemoryLog()
    for record in coordinator.runtime.machine.snapshot():
        short.append(coordinator.codec.encode([record], 0, None))
    copy = Coordinator(short)
    assert copy.state() == coordinator.state()
    for command in commands:
        if isinstance(command, StateRead | StateWrite):
            outcomes = [_error_of(each, command) for each in (coordinator, again, copy)]
            assert len(set(outcomes)) == 1, "the same requests are fenced"


def _error_of(coordinator: Coordinator, command: Any) -> Error | None:
    try:
        coordinator.run(command)
    except KafkaError as error:
        return error.error
    return None


@pytest.mark.long
def test_the_memory_of_a_shard_does_not_grow_with_updates() -> None:
    """Consumers that acknowledge everything: the state is a window that moves on."""
    machine = ShareShard(ShareCoordinatorConfig(), Topics())
    keys = [ShareKey(f"g{number}", TOPIC, 0) for number in range(4)]
    for key in keys:
        machine.replay(ShareRecord(key, ShareSnapshot(0, 0, 0, 0, 0, 0, 0)))

    def work(first: int, last: int) -> int:
        for offset in range(first, last):
            for key in keys:
                start = max(offset - 50, 0)
                batch = StateBatch(offset, offset, 2, 1 + offset % 2)
                command = StateWrite(key, 0, 0, start, 0, (batch,))
                for record in machine.decide(command, None, 0).records:  # type: ignore[arg-type]
                    machine.replay(record)
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        early = work(0, 700)
        late = work(700, 2_000)
    finally:
        tracemalloc.stop()
    assert late < early * 1.05
