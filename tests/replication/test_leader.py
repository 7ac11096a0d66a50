"""The leader's role: followers' positions, ISR, high watermark, and appends."""

from __future__ import annotations

from dataclasses import replace

from tests.in_process import batch
from tests.replication.replicas import LAG_MS, Replicas, error_of
from wirekafka.errors import Error
from wirekafka.protocol.records.control import Marker, encode_marker
from wirekafka.replication.partition.leader import Leader
from wirekafka.replication.partition.remote_replica import IsrMember, RemoteReplica
from wirekafka.replication.partition.replica import Leadership

EPOCH = 10


def leader_of(replicas: Replicas) -> Leader:
    return replicas.leader.leading()


def fetched(replicas: Replicas, broker: int, offset: int, broker_epoch: int = EPOCH) -> None:
    leader_of(replicas).follower_fetched(broker, offset, 0, broker_epoch, replicas.clock.now_ms())


# When a follower was caught up.


def test_a_follower_at_the_log_end_has_caught_up_now() -> None:
    follower = RemoteReplica(2)
    follower.fetched(5, 0, 5, 1_000)
    assert follower.caught_up_ms == 1_000
    follower.fetched(5, 0, 9, 2_000)
    assert follower.caught_up_ms == 1_000, "batches have come since"


def test_a_follower_at_the_log_end_of_its_last_fetch_had_caught_up_then() -> None:
    follower = RemoteReplica(2)
    follower.fetched(3, 0, 5, 1_000)
    assert follower.caught_up_ms == 0
    follower.fetched(5, 0, 8, 2_000)
    assert follower.caught_up_ms == 1_000
    follower.fetched(7, 0, 9, 3_000)
    assert follower.caught_up_ms == 1_000, "8 was the end at the fetch before"


def test_a_follower_that_is_always_a_little_behind_stays_in_the_isr() -> None:
    replicas = Replicas(2)
    for offset in range(20):
        replicas.append(b"v")
        replicas.clock.advance(LAG_MS // 2)
        fetched(replicas, 2, offset)
        assert leader_of(replicas).isr_change(replicas.clock.now_ms()) is None


# The ISR.


def test_a_follower_that_lags_is_to_be_removed_from_the_isr() -> None:
    replicas = Replicas()
    replicas.append(b"v")
    for broker in (2, 3):
        fetched(replicas, broker, 1)
    replicas.append(b"v")
    replicas.clock.advance(LAG_MS)
    fetched(replicas, 2, 2)
    assert leader_of(replicas).isr_change(replicas.clock.now_ms()) is None
    replicas.clock.advance(1)
    change = leader_of(replicas).isr_change(replicas.clock.now_ms())
    assert change is not None
    assert change.members == (IsrMember(1, -1), IsrMember(2, EPOCH))
    assert (change.leader_epoch, change.partition_epoch) == (0, 0)


def test_a_follower_with_everything_does_not_lag_however_long_it_is_silent() -> None:
    replicas = Replicas(2)
    replicas.append(b"v")
    fetched(replicas, 2, 1)
    replicas.clock.advance(10 * LAG_MS)
    assert leader_of(replicas).isr_change(replicas.clock.now_ms()) is None


def test_a_follower_at_the_high_watermark_is_to_be_added_to_the_isr() -> None:
    replicas = Replicas()
    replicas.set_isr(1, 3)
    for _ in range(4):
        replicas.append(b"v")
    fetched(replicas, 3, 3)
    fetched(replicas, 2, 2)
    assert replicas.leader.high_watermark == 3
    assert leader_of(replicas).isr_change(replicas.clock.now_ms()) is None
    fetched(replicas, 2, 3)
    change = leader_of(replicas).isr_change(replicas.clock.now_ms())
    assert change is not None and change.isr == (1, 3, 2)


def test_a_follower_below_the_leader_epochs_start_is_not_added() -> None:
    replicas = Replicas(2)
    replicas.set_isr(1)
    replicas.append(b"a")
    replicas.leader.set_high_watermark(0)
    replicas.elect(1, 1)
    replicas.leader.set_high_watermark(0)
    fetched(replicas, 2, 0)
    assert leader_of(replicas).isr_change(replicas.clock.now_ms()) is None
    fetched(replicas, 2, 1)
    assert leader_of(replicas).isr_change(replicas.clock.now_ms()) is not None


def test_a_broker_that_is_fenced_stopping_or_restarted_is_not_added() -> None:
    replicas = Replicas(2)
    replicas.set_isr(1)
    fetched(replicas, 2, 0)
    leader, now_ms = leader_of(replicas), replicas.clock.now_ms()
    assert leader.isr_change(now_ms) is not None
    replicas.brokers.stopping.add(2)
    assert leader.isr_change(now_ms) is None
    replicas.brokers.stopping.clear()
    replicas.brokers.epochs[2] = 11
    assert leader.isr_change(now_ms) is None
    fetched(replicas, 2, 0, broker_epoch=-1)
    assert leader.isr_change(now_ms) is not None, "an old version has no epoch to check"
    del replicas.brokers.epochs[2]
    assert leader.isr_change(now_ms) is None


def test_a_fetch_from_before_the_brokers_restart_is_refused_and_changes_nothing() -> None:
    replicas = Replicas(2)
    replicas.append(b"v")
    replicas.brokers.epochs[2] = 11
    assert error_of(lambda: fetched(replicas, 2, 1)) == Error.NOT_LEADER_OR_FOLLOWER
    assert leader_of(replicas).followers[2].end_offset == -1
    assert replicas.leader.high_watermark == 0
    fetched(replicas, 2, 1, broker_epoch=12)
    assert replicas.leader.high_watermark == 1


def test_one_isr_change_at_a_time_and_the_high_watermark_waits_for_added_replicas() -> None:
    replicas = Replicas()
    replicas.set_isr(1, 2)
    fetched(replicas, 3, 0)
    leader = leader_of(replicas)
    change = leader.isr_change(replicas.clock.now_ms())
    assert change is not None and change.isr == (1, 2, 3)
    assert leader.maximal_isr == {1, 2}, "computing it changes nothing"
    leader.propose(change)
    assert leader.maximal_isr == {1, 2, 3}
    replicas.clock.advance(2 * LAG_MS)
    replicas.append(b"v")
    assert leader.isr_change(replicas.clock.now_ms()) is None
    fetched(replicas, 2, 1)
    assert replicas.leader.high_watermark == 0
    leader.withdraw()
    assert replicas.leader.high_watermark == 1


def test_known_metadata_does_not_decide_a_proposal() -> None:
    replicas = Replicas()
    replicas.set_isr(1, 2)
    fetched(replicas, 3, 0)
    leader = leader_of(replicas)
    change = leader.isr_change(replicas.clock.now_ms())
    assert change is not None and change.isr == (1, 2, 3)
    leader.propose(change)
    replicas.leader.lead(replicas.leader.leadership)
    assert leader.maximal_isr == {1, 2, 3}, "the controller may have accepted it"
    replicas.set_isr(1, 2)
    assert leader.maximal_isr == {1, 2}


def test_the_high_watermark_waits_for_replicas_that_a_proposal_removes() -> None:
    replicas = Replicas()
    replicas.append(b"v")
    fetched(replicas, 2, 1)
    replicas.clock.advance(LAG_MS + 1)
    leader = leader_of(replicas)
    change = leader.isr_change(replicas.clock.now_ms())
    assert change is not None and change.isr == (1, 2)
    leader.propose(change)
    fetched(replicas, 2, 1)
    assert replicas.leader.high_watermark == 0
    replicas.set_isr(1, 2)
    assert replicas.leader.high_watermark == 1, "the controller has agreed"


def test_the_high_watermark_waits_for_a_follower_that_has_caught_up() -> None:
    replicas = Replicas()
    replicas.set_isr(1, 2)
    fetched(replicas, 3, 0)
    replicas.append(b"v")
    fetched(replicas, 2, 1)
    assert replicas.leader.high_watermark == 0
    replicas.clock.advance(LAG_MS + 1)
    replicas.append(b"v")
    fetched(replicas, 2, 2)
    assert replicas.leader.high_watermark == 2, "it has not been heard of since"


def test_an_assignment_adds_and_removes_followers() -> None:
    replicas = Replicas()
    leader = leader_of(replicas)
    fetched(replicas, 2, 0)
    replicas.leader.lead(
        replace(replicas.leadership, replicas=(1, 2, 4), isr=(1, 2), partition_epoch=5)
    )
    assert leader_of(replicas) is leader
    assert list(leader.followers) == [2, 4]
    assert leader.followers[2].end_offset == 0
    assert error_of(lambda: leader.check_follower(3, 0)) == Error.UNKNOWN_LEADER_EPOCH
    assert error_of(lambda: leader.check_follower(3, -1)) == Error.NOT_LEADER_OR_FOLLOWER


def test_older_metadata_changes_nothing() -> None:
    replicas = Replicas()
    old = replicas.leadership
    replicas.set_isr(1, 2)
    replicas.leader.lead(old)
    assert replicas.leader.isr == (1, 2)
    replicas.elect(2, 2)
    replicas[1].lead(old)
    assert not replicas[1].is_leader


def test_a_new_leader_epoch_gives_in_sync_replicas_time_to_fetch() -> None:
    replicas = Replicas()
    replicas.append(b"v")
    replicas.clock.advance(10 * LAG_MS)
    replicas.elect(1, 1, 2)
    leader = leader_of(replicas)
    assert leader.isr_change(replicas.clock.now_ms()) is None
    replicas.append(b"v")
    replicas.clock.advance(LAG_MS + 1)
    change = leader.isr_change(replicas.clock.now_ms())
    assert change is not None and change.isr == (1,)


def test_a_position_from_an_earlier_leader_epoch_is_dropped() -> None:
    """The follower may have been truncated by a leader in between that this broker missed."""
    replicas = Replicas(2)
    replicas.append(b"a")
    replicas.settle()
    replicas.append(b"b")
    replicas.replicate(2)
    replicas.replicate(2)
    replicas.elect(1, 1, 2)
    replicas.append(b"c")
    assert leader_of(replicas).followers[2].end_offset == -1
    replicas.set_isr(1)
    assert leader_of(replicas).isr_change(replicas.clock.now_ms()) is None, "until it fetches"
    replicas.replicate(2)
    replicas.replicate(2)
    change = leader_of(replicas).isr_change(replicas.clock.now_ms())
    assert change is not None and change.isr == (1, 2)


def test_leader_recovery_state_is_kept() -> None:
    replicas = Replicas(2)
    recovering = Leadership(
        leader_id=1,
        leader_epoch=4,
        partition_epoch=9,
        isr=(1,),
        replicas=(1, 2),
        leader_recovery_state=1,
    )
    replicas[1].lead(recovering)
    assert replicas[1].leadership.leader_recovery_state == 1


# min.insync.replicas.


def test_nothing_is_committed_below_min_insync_replicas() -> None:
    replicas = Replicas(min_insync_replicas=2)
    replicas.set_isr(1)
    replicas.append(b"v", acks=1)
    assert replicas.leader.high_watermark == 0
    fetched(replicas, 2, 1)
    replicas.set_isr(1, 2)
    assert replicas.leader.high_watermark == 1


def test_too_few_in_sync_refuse_clients_and_coordinators_alike() -> None:
    replicas = Replicas(min_insync_replicas=2)
    replicas.set_isr(1)
    leader = leader_of(replicas)
    marker = encode_marker(7, 0, Marker(True, 0, replicas.clock.now_ms()))
    for attempt in (
        lambda: replicas.append(b"v", acks=-1),
        lambda: replicas.leader.append(batch(b"group")),
        lambda: leader.append_marker(marker, 2),
    ):
        assert error_of(attempt) == Error.NOT_ENOUGH_REPLICAS
    assert replicas.leader.end_offset == 0
    assert leader.low_watermark == -1


def test_a_replica_about_to_be_added_counts_after_the_append() -> None:
    replicas = Replicas(min_insync_replicas=2)
    replicas.set_isr(1)
    fetched(replicas, 2, 0)
    leader = leader_of(replicas)
    assert leader.lacks_maximal_replicas
    change = leader.isr_change(replicas.clock.now_ms())
    assert change is not None
    leader.propose(change)
    assert leader.lacks_replicas and not leader.lacks_maximal_replicas


def test_a_new_configuration_takes_effect_at_once() -> None:
    replicas = Replicas(min_insync_replicas=2)
    replicas.set_isr(1)
    replicas.append(b"v")
    replicas.leader.configure(replicas.leader.log.config.changed(min_insync_replicas=1))
    assert replicas.leader.high_watermark == 1
    assert replicas.append(b"v", acks=-1) == 1


# State that waits for the high watermark.


def test_markers_and_coordinators_records_count_only_below_the_high_watermark() -> None:
    replicas = Replicas()
    leader, partition = leader_of(replicas), replicas.leader
    answered: list[str] = []
    end_offset = partition.append(batch(b"group"))
    partition.when_committed(end_offset, lambda: answered.append("group"))
    marker = encode_marker(7, 0, Marker(True, 0, replicas.clock.now_ms()))
    end_offset = leader.append_marker(marker, 2).end_offset
    partition.when_committed(end_offset, lambda: answered.append("marker"))
    fetched(replicas, 2, 2)
    assert answered == []
    fetched(replicas, 3, 1)
    assert answered == ["group"]
    fetched(replicas, 3, 2)
    assert answered == ["group", "marker"]


def test_a_transaction_is_stable_once_its_marker_is_committed() -> None:
    replicas = Replicas(2)
    leader, partition = leader_of(replicas), replicas.leader
    guard = object()
    leader.append_from_client(
        batch(b"t", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
        1,
        replicas.clock.now_ms(),
        guard,
    )
    leader.append_marker(encode_marker(7, 0, Marker(True, 0, replicas.clock.now_ms())), 0)
    fetched(replicas, 2, 1)
    assert (partition.high_watermark, partition.last_stable_offset) == (1, 0)
    fetched(replicas, 2, 2)
    assert (partition.high_watermark, partition.last_stable_offset) == (2, 2)


def test_callbacks_of_a_lost_leadership_are_dropped() -> None:
    replicas = Replicas()
    partition = replicas.leader
    answered: list[str] = []
    partition.when_committed(partition.append(batch(b"v")), lambda: answered.append("v"))
    replicas.elect(2, 2, 3)
    replicas.elect(1, 1)
    assert partition.high_watermark == 1
    assert answered == []


def test_the_high_watermark_waits_for_the_leaders_own_sync() -> None:
    replicas = Replicas(2, flush_messages=1)
    partition = replicas.leader
    partition.sync_later = lambda _: None
    replicas.append(b"v")
    fetched(replicas, 2, 1)
    assert partition.high_watermark == 0
    partition.log.flush()
    assert partition.synced()
    assert partition.high_watermark == 1


# Deleted records.


def test_the_low_watermark_is_the_smallest_start_of_the_live_replicas() -> None:
    replicas = Replicas()
    for _ in range(3):
        replicas.append(b"v")
    replicas.settle()
    leader = leader_of(replicas)
    replicas.leader.delete_records(2)
    assert leader.low_watermark == 0
    replicas.settle(2)
    assert (replicas[2].log.start_offset, leader.low_watermark) == (2, 0)
    del replicas.brokers.epochs[3]
    replicas.replicate(2)
    assert leader.low_watermark == 2


def test_recovered_records_count_as_synced_after_a_start() -> None:
    replicas = Replicas(1, flush_messages=1)
    partition = replicas.leader
    partition.sync_later = lambda _: None
    replicas.append(b"v")
    assert partition.high_watermark == 0
    replicas.elect(1, 1)
    assert partition.high_watermark == 1
