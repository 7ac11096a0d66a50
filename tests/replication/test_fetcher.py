"""A fetcher's requests, sessions and errors, between replicas under a manual clock."""

from __future__ import annotations

import logging

import pytest

from tests.log.batches import reopened
from tests.replication.replicas import Replicas
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.fetching.fetcher import FetchedPartition, Fetcher
from wirekafka.replication.fetching.fetcher_session import FollowedKey, PartitionFetch, Plan
from wirekafka.replication.fetching.throttle import ReplicationThrottle
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.replica import PartitionIdentity

BACKOFF_MS = 1_000


class Following:
    """A fetcher of broker 2 for several partitions that broker 1 leads."""

    def __init__(self, count: int = 1, **config: int):
        self.all: dict[FollowedKey, Replicas] = {}
        self.limit: int | None = None
        self.throttle = ReplicationThrottle(2, lambda: self.limit, 11, 1000)
        self.fetcher = Fetcher(lambda: BACKOFF_MS, self.throttle)
        for number in range(count):
            replicas = Replicas(2, **config)
            for partition in replicas.partitions.values():
                partition.topic_id = bytes([number + 1] * 16)
            self.all[bytes([number + 1] * 16), 0] = replicas
        self.now_ms = replicas.clock.now_ms()
        for replicas in self.all.values():
            self.fetcher.follow(replicas[2], self.now_ms)

    @property
    def only(self) -> Replicas:
        [replicas] = self.all.values()
        return replicas

    @property
    def key(self) -> FollowedKey:
        [key] = self.all
        return key

    def plan(self) -> Plan:
        plan = self.fetcher.plan(self.now_ms)
        assert plan is not None
        return plan

    def fetched(self, key: FollowedKey, **changes: object) -> FetchedPartition:
        """The leader's response for one partition, as the follower stands."""
        data = self.all[key].fetch(2)
        values: dict[str, object] = {
            "error": 0,
            "high_watermark": data.high_watermark,
            "start_offset": data.start_offset,
            "diverging": data.diverging,
            "records": data.records,
        }
        return FetchedPartition(**(values | changes))  # type: ignore[arg-type]

    def take(self, key: FollowedKey, **changes: object) -> None:
        self.fetcher.take(key, self.fetched(key, **changes), self.now_ms)

    def fail(self, error: Error, key: FollowedKey | None = None) -> None:
        failed = FetchedPartition(
            error=error, high_watermark=-1, start_offset=-1, diverging=None, records=b""
        )
        self.fetcher.take(key or self.key, failed, self.now_ms)


def test_a_full_request_is_followed_by_incremental_ones_with_what_changed() -> None:
    following = Following(3)
    first = following.plan()
    assert (first.session_id, first.session_epoch, first.forgotten) == (0, 0, [])
    assert dict(first.wanted) == {key: PartitionFetch(0, 0, -1, 0) for key in following.all}
    following.fetcher.accept(77)
    key = next(iter(following.all))
    following.all[key].append(b"v")
    following.take(key)
    assert following.plan() == (77, 1, {key: PartitionFetch(0, 1, 0, 0)}, [])
    following.fetcher.accept(77)
    assert following.plan() == (77, 2, {}, []), "nothing has changed, the session goes on"


def test_partitions_join_and_leave_a_session() -> None:
    following = Following(2)
    one, two = following.all
    following.fetcher.forget(following.all[two][2])
    assert set(following.plan().wanted) == {one}
    following.fetcher.accept(5)
    following.fetcher.follow(following.all[two][2], following.now_ms)
    following.fetcher.forget(following.all[one][2])
    plan = following.plan()
    assert (set(plan.wanted), plan.forgotten) == ({two}, [one])
    following.fetcher.accept(5)
    following.fetcher.forget(following.all[two][2])
    assert following.plan().forgotten == [two]
    following.fetcher.accept(0)
    assert following.fetcher.plan(following.now_ms) is None
    assert len(following.fetcher) == 0


@pytest.mark.parametrize(
    ("error", "session_id"),
    [
        (Error.FETCH_SESSION_ID_NOT_FOUND, 0),
        (Error.INVALID_FETCH_SESSION_EPOCH, 5),
        (Error.FETCH_SESSION_TOPIC_ID_ERROR, 5),
        (None, 5),
    ],
)
def test_a_lost_session_is_replaced_by_a_full_request(error: Error | None, session_id: int) -> None:
    following = Following(2)
    following.plan()
    following.fetcher.accept(5)
    following.plan()
    if error is None:
        following.fetcher.interrupt()
    else:
        following.fetcher.refuse(error)
    plan = following.plan()
    assert (plan.session_id, plan.session_epoch) == (session_id, 0)
    assert set(plan.wanted) == set(following.all)


def test_a_leader_without_room_for_sessions_gets_full_requests_in_turns() -> None:
    following = Following(2)
    one, two = following.all
    following.plan()
    following.fetcher.accept(0)
    following.all[one].append(b"v")
    following.take(one)
    plan = following.plan()
    assert (plan.session_id, plan.session_epoch) == (0, 0)
    assert list(plan.wanted) == [two, one], "the one that got data comes last"


def test_session_epochs_wrap_to_one() -> None:
    following = Following()
    following.plan()
    following.fetcher.accept(5)
    following.fetcher._session._epoch = 0x7FFFFFFF
    assert following.plan().session_epoch == 0x7FFFFFFF
    following.fetcher.accept(5)
    assert following.plan().session_epoch == 1


def test_a_corrupt_batch_delays_only_its_partition() -> None:
    following = Following(2)
    one, two = following.all
    for key in following.all:
        following.all[key].append(b"value")
    following.plan()
    following.fetcher.accept(5)
    broken = bytearray(following.fetched(one).records)
    broken[-1] ^= 1
    following.take(one, records=bytes(broken))
    following.take(two)
    assert [following.all[key][2].log.end_offset for key in (one, two)] == [0, 1]
    plan = following.plan()
    assert (set(plan.wanted), plan.forgotten) == ({two}, [one])
    following.fetcher.accept(5)
    assert following.fetcher.next_retry_ms(following.now_ms) == following.now_ms + BACKOFF_MS
    following.now_ms += BACKOFF_MS
    assert one in following.plan().wanted
    following.fetcher.accept(5)
    following.take(one)
    assert following.all[one][2].log.end_offset == 1


@pytest.mark.parametrize(
    "error",
    [
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.UNKNOWN_LEADER_EPOCH,
        Error.UNKNOWN_TOPIC_ID,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.INCONSISTENT_TOPIC_ID,
        Error.KAFKA_STORAGE_ERROR,
        Error.UNKNOWN_SERVER_ERROR,
    ],
)
def test_errors_of_the_leader_are_retried_later(error: Error) -> None:
    following = Following()
    following.plan()
    following.fetcher.accept(5)
    following.fail(error)
    assert following.plan().forgotten == [following.key]
    following.fetcher.accept(0)
    assert following.fetcher.plan(following.now_ms + BACKOFF_MS - 1) is None
    assert following.fetcher.plan(following.now_ms + BACKOFF_MS) is not None


def test_a_fenced_partition_waits_for_a_new_leader_epoch() -> None:
    following = Following()
    following.plan()
    following.fetcher.accept(5)
    following.fail(Error.FENCED_LEADER_EPOCH)
    following.plan()
    following.fetcher.accept(0)
    following.now_ms += 100 * BACKOFF_MS
    assert following.fetcher.plan(following.now_ms) is None
    assert following.fetcher.next_retry_ms(following.now_ms) is None
    following.only.set_isr(1)
    following.fetcher.follow(following.only[2], following.now_ms)
    assert following.fetcher.plan(following.now_ms) is None, "the epoch is the same"
    following.only.elect(1, 1, 2)
    following.fetcher.follow(following.only[2], following.now_ms)
    assert following.plan().wanted[following.key].leader_epoch == 1


def test_errors_of_ordinary_leader_changes_are_not_logged_as_errors(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for error in (Error.FENCED_LEADER_EPOCH, Error.NOT_LEADER_OR_FOLLOWER, Error.CORRUPT_MESSAGE):
        following = Following()
        following.plan()
        following.fetcher.accept(5)
        with caplog.at_level(logging.INFO):
            following.fail(error)
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO", "ERROR"]


def test_a_new_leader_epoch_ends_a_delay() -> None:
    following = Following()
    following.plan()
    following.fetcher.accept(0)
    following.fail(Error.UNKNOWN_LEADER_EPOCH)
    assert following.fetcher.plan(following.now_ms) is None
    following.only.elect(1, 1, 2)
    following.fetcher.follow(following.only[2], following.now_ms)
    assert following.plan().wanted


def test_a_response_to_an_earlier_epoch_changes_nothing() -> None:
    following = Following()
    following.only.append(b"v")
    following.plan()
    following.fetcher.accept(5)
    late = following.fetched(following.key)
    following.only.elect(1, 1, 2)
    following.fetcher.take(following.key, late, following.now_ms)
    following.fetcher.follow(following.only[2], following.now_ms)
    following.fetcher.take(following.key, late, following.now_ms)
    assert following.only[2].log.end_offset == 0
    following.plan()
    following.fetcher.accept(5)
    following.take(following.key)
    assert following.only[2].log.end_offset == 1


def test_a_partition_out_of_range_waits_for_the_leaders_offsets() -> None:
    following = Following()
    following.plan()
    following.fetcher.accept(5)
    following.fail(Error.OFFSET_OUT_OF_RANGE)
    assert following.fetcher.out_of_range() == [following.only[2]]
    assert following.fetcher.out_of_range() == []
    following.fetcher.return_to_range(following.only[2], 7, 9, following.now_ms)
    assert following.plan().wanted[following.key] == PartitionFetch(0, 7, -1, 7)


def test_unknown_offsets_of_the_leader_are_requested_again_later() -> None:
    following = Following()
    following.plan()
    following.fetcher.accept(0)
    following.fail(Error.OFFSET_OUT_OF_RANGE)
    [partition] = following.fetcher.out_of_range()
    error = KafkaError(Error.UNKNOWN_LEADER_EPOCH)
    following.fetcher.fail(partition, error, following.now_ms)
    assert following.fetcher.plan(following.now_ms) is None
    assert following.fetcher.plan(following.now_ms + BACKOFF_MS) is not None


def test_a_divergence_is_truncated_and_fetched_again() -> None:
    following = Following()
    replicas = following.only
    replicas.append(b"common")
    replicas.settle()
    replicas.elect(2, 2)
    replicas.append(b"lost")
    replicas.elect(1, 1)
    replicas.append(b"kept")
    following.fetcher.follow(replicas[2], following.now_ms)
    assert following.plan().wanted[following.key] == PartitionFetch(2, 2, 1, 0)
    following.fetcher.accept(5)
    following.take(following.key)
    assert following.plan().wanted[following.key] == PartitionFetch(2, 1, 0, 0)
    following.fetcher.accept(5)
    following.take(following.key)
    assert replicas.stored(2) == replicas.stored(1)


def test_throttled_partitions_wait_while_they_lag() -> None:
    following = Following(2)
    one, two = following.all
    follower = following.all[one][2]
    follower.log.config = follower.log.config.changed(
        follower_replication_throttled_replicas=("0:2",)
    )
    for key in following.all:
        following.all[key].append(b"v")
    following.limit = 1
    following.plan()
    following.fetcher.accept(5)
    following.take(one)
    following.take(two)
    assert following.throttle.rate(following.now_ms) == len(following.all[one].stored(1)[0])
    assert set(following.plan().wanted) == {one, two}, "neither lags"
    following.fetcher.accept(5)
    following.take(one, high_watermark=9)
    following.take(two, high_watermark=9)
    plan = following.plan()
    assert (dict(plan.wanted), plan.forgotten) == ({}, [one]), "only one of them is throttled"
    following.fetcher.accept(5)
    following.now_ms += BACKOFF_MS
    assert following.plan().wanted == {}
    following.fetcher.accept(5)
    following.limit = None
    following.now_ms += BACKOFF_MS
    assert set(following.plan().wanted) == {one}


def test_a_required_sync_comes_before_the_next_fetch() -> None:
    following = Following(flush_messages=1)
    replicas = following.only
    replicas[2].sync_later = lambda partition: None
    ready: list[bool] = []
    following.fetcher.on_ready = lambda: ready.append(True)
    replicas.append(b"v")
    following.plan()
    following.fetcher.accept(5)
    following.take(following.key)
    assert replicas[2].awaits_sync
    assert following.plan().forgotten == [following.key]
    following.fetcher.accept(0)
    assert not ready and following.fetcher.plan(following.now_ms) is None
    replicas[2].log.flush()
    replicas[2].synced()
    assert ready == [True]
    assert following.plan().wanted[following.key].fetch_offset == 1


def test_a_sync_missed_by_a_crash_precedes_the_first_fetch() -> None:
    """Otherwise the log would never be synced, and the partition never fetched again."""
    following = Following(flush_messages=1)
    replicas = following.only
    replicas.append(b"v")
    replicas.replicate(2)
    log = reopened(replicas.disks[2], config=replicas[2].log.config)
    assert (log.end_offset, log.recovery_point) == (1, 0)
    restarted = Partition(PartitionIdentity("topic", bytes(16), 0), log, 2, replicas.clock)
    restarted.follow(replicas.leadership)
    fetcher = Fetcher(lambda: BACKOFF_MS, ReplicationThrottle(2, lambda: None, 11, 1_000))
    fetcher.follow(restarted, following.now_ms)
    assert restarted.awaits_sync
    plan = fetcher.plan(following.now_ms)
    assert plan is not None
    assert [position.fetch_offset for position in plan.wanted.values()] == [1]
    assert log.recovery_point == 1


def test_a_log_start_moved_by_retention_is_reported_within_a_second() -> None:
    following = Following()
    replicas = following.only
    replicas.append(b"v")
    following.plan()
    following.fetcher.accept(5)
    following.take(following.key)
    following.plan()
    following.fetcher.accept(5)
    replicas[2].log.advance_start(1)
    following.now_ms += 1_000
    assert following.plan().wanted[following.key].log_start_offset == 1


def test_idle_partitions_are_reviewed_in_turn() -> None:
    following = Following(150)
    for replicas in following.all.values():
        replicas.append(b"v")
        replicas.replicate(2)
    following.plan()
    following.fetcher.accept(5)
    for replicas in following.all.values():
        replicas[2].log.advance_start(1)
    reported = []
    for _ in range(3):
        following.now_ms += 1_000
        reported.append(len(following.plan().wanted))
        following.fetcher.accept(5)
    assert reported == [100, 50, 0]


def test_a_log_without_leader_epochs_is_truncated_to_its_high_watermark() -> None:
    following = Following()
    replicas = following.only
    replicas.append(b"a")
    replicas.settle()
    replicas.append(b"b")
    replicas.replicate(2)
    replicas[2].log.epochs.clear()
    replicas.elect(1, 1, 2)
    following.fetcher.follow(replicas[2], following.now_ms)
    assert following.plan().wanted[following.key] == PartitionFetch(1, 1, -1, 0)
