"""The follower's role: the leader's bytes, its high watermark, and truncation to its log."""

from __future__ import annotations

import random

import pytest

from tests.in_process import batch
from tests.log.batches import reopened
from tests.log.cleaning import clean
from tests.replication.replicas import LAG_MS, Replicas, error_of
from wirekafka.codec.batch import with_prefix
from wirekafka.errors import Error
from wirekafka.protocol.records.control import Marker, encode_marker
from wirekafka.replication.partition.follower import LeaderData
from wirekafka.replication.partition.reading import ReadRange, ReadResult


def test_followers_hold_the_leaders_bytes() -> None:
    replicas = Replicas(segment_bytes=500)
    for number in range(20):
        replicas.append(b"v%d" % number, b"w" * number)
    replicas.settle()
    assert len(replicas.stored(1)) == 20
    assert replicas.stored(1) == replicas.stored(2) == replicas.stored(3)


def test_a_follower_learns_the_high_watermark_from_before_its_own_fetch() -> None:
    replicas = Replicas(2)
    replicas.append(b"v")
    data = replicas.replicate(2)
    assert data.high_watermark == 0 and replicas[2].high_watermark == 0
    data = replicas.replicate(2)
    assert replicas.leader.high_watermark == 1, "this fetch says that it has the batch"
    assert data.high_watermark == 0 and replicas[2].high_watermark == 0
    replicas.replicate(2)
    assert replicas[2].high_watermark == 1


def test_a_followers_high_watermark_is_at_most_its_log_end() -> None:
    replicas = Replicas(2)
    replicas.set_isr(1)
    for number in range(3):
        replicas.append(b"%d" % number)
    size_bytes = len(replicas.stored(1)[0])
    data = replicas.replicate(2, max_bytes=size_bytes)
    assert data.high_watermark == 3
    assert (replicas[2].log.end_offset, replicas[2].high_watermark) == (1, 1)


def test_a_partition_limit_within_a_sealed_segment_skips_no_batch() -> None:
    replicas = Replicas(2, segment_bytes=600)
    for number in range(12):
        replicas.append(b"%d" % number, b"x" * 100)
    assert len(replicas.leader.log.segments) > 2
    size_bytes = len(replicas.stored(1)[0])
    for max_bytes in (1, size_bytes - 1, size_bytes + 1, 2 * size_bytes + 10):
        end_offset = replicas[2].log.end_offset
        replicas.replicate(2, max_bytes=max_bytes)
        assert replicas[2].log.end_offset > end_offset
        assert replicas.stored(2) == replicas.stored(1)[: len(replicas.stored(2))]
    limited = ReadRange(offset=0, max_bytes=size_bytes - 1, at_least_one=False, to_log_end=True)
    found = replicas.leader.read(limited)
    assert isinstance(found, ReadResult) and found.records is not None
    assert found.records.size_bytes == 0, "not even from the next segment"


def test_the_leaders_log_start_is_followed() -> None:
    replicas = Replicas(2)
    for _ in range(5):
        replicas.append(b"v")
    replicas.settle()
    replicas.leader.delete_records(3)
    replicas.replicate(2)
    assert replicas[2].log.start_offset == 3


def test_a_new_leader_deduplicates_batches_that_it_got_as_a_follower() -> None:
    replicas = Replicas(2)
    for sequence in range(5):
        replicas.append(b"%d" % sequence, producer_id=7, producer_epoch=0, base_sequence=sequence)
    replicas.settle()
    replicas.elect(2, 2, 1)
    for sequence in range(5):
        assert (
            replicas.append(
                b"%d" % sequence, producer_id=7, producer_epoch=0, base_sequence=sequence
            )
            == sequence
        )
    assert replicas.leader.end_offset == 5
    gap = lambda: replicas.append(b"x", producer_id=7, producer_epoch=0, base_sequence=9)  # noqa: E731
    assert error_of(gap) == Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_transactions_are_open_stable_and_aborted_on_followers_too() -> None:
    replicas = Replicas(2)
    leader = replicas.leader.leading()
    records = batch(b"t", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    leader.append_from_client(records, 1, replicas.clock.now_ms(), object())
    replicas.settle()
    assert (replicas[2].high_watermark, replicas[2].last_stable_offset) == (1, 0)
    leader.append_marker(encode_marker(7, 0, Marker(False, 0, replicas.clock.now_ms())), 0)
    replicas.settle()
    assert replicas[2].last_stable_offset == 2
    assert replicas[2].log.aborted_transactions(0, 2) == replicas[1].log.aborted_transactions(0, 2)
    assert len(replicas[2].log.aborted_transactions(0, 2)) == 1


def test_records_that_the_new_leader_does_not_have_are_truncated() -> None:
    replicas = Replicas()
    replicas.append(b"committed")
    replicas.settle()
    replicas.append(b"lost")
    replicas.append(b"lost too")
    replicas.elect(2, 2, 3)
    replicas.append(b"new")
    replicas.settle()
    assert replicas.stored(1) == replicas.stored(2) == replicas.stored(3)
    assert len(replicas.stored(1)) == 2


def test_truncation_comes_before_the_high_watermark_is_known() -> None:
    """KAFKA-14704: records that are to be truncated must not be seen as committed."""
    replicas = Replicas()
    replicas.append(b"a")
    replicas.settle()
    replicas.append(b"lost")
    replicas.elect(2, 2, 3)
    replicas.append(b"new")
    replicas.append(b"newer")
    replicas.settle(3)
    assert replicas[1].high_watermark == 1
    replicas.set_isr(2, 3)
    data = replicas.replicate(1)
    assert data.diverging == (0, 1) and data.high_watermark == 3
    assert (replicas[1].log.end_offset, replicas[1].high_watermark) == (1, 1)
    replicas.settle()
    assert replicas[1].high_watermark == 3


def test_an_epoch_without_batches_is_dropped_by_a_follower() -> None:
    replicas = Replicas()
    replicas.append(b"a")
    replicas.settle()
    replicas.elect(3, 3, 1, 2)
    replicas.elect(2, 2, 1, 3)
    assert replicas[3].follower is not None
    assert replicas[3].follower.last_fetched_epoch == 1
    replicas.append(b"b")
    replicas.settle()
    assert replicas[3].follower.last_fetched_epoch == 2
    assert replicas.stored(3) == replicas.stored(2)


def test_logs_that_diverge_over_several_epochs_are_truncated_in_steps() -> None:
    """KIP-279: neither log may know the other's epochs."""
    replicas = Replicas()
    replicas.append(b"common")
    replicas.settle()
    for leader, value in ((1, b"one"), (2, b"two"), (1, b"one again"), (2, b"two again")):
        replicas.elect(leader, leader)
        replicas.append(value)
    replicas.elect(3, 3)
    replicas.append(b"three")
    replicas.settle()
    assert replicas.stored(1) == replicas.stored(2) == replicas.stored(3)
    assert len(replicas.stored(1)) == 2


def test_a_fast_failover_to_a_leader_without_the_epoch_in_between_leaves_no_divergence() -> None:
    """KAFKA-6361: the records of an epoch that the next leader never saw are truncated."""
    replicas = Replicas()
    replicas.append(b"a")
    replicas.settle()
    replicas.elect(2, 2, 3)
    replicas.append(b"only on 2")
    replicas.append(b"only on 2 too")
    replicas.elect(3, 3, 1)
    replicas.append(b"b")
    replicas.append(b"c")
    replicas.append(b"d")
    replicas.settle()
    assert replicas.stored(1) == replicas.stored(2) == replicas.stored(3)
    assert len(replicas.stored(2)) == 4


def test_the_epoch_last_fetched_is_that_of_the_log_after_responses_without_records() -> None:
    """KAFKA-15510: otherwise the leader would report a divergence where there is none."""
    replicas = Replicas(2)
    replicas.append(b"a")
    replicas.settle()
    replicas.append(b"lost")
    replicas.elect(2, 2)
    replicas.append(b"b")
    replicas.elect(2, 2)
    follower = replicas[1].follower
    assert follower is not None and follower.last_fetched_epoch == 0
    assert replicas.replicate(1).diverging is not None
    assert follower.last_fetched_epoch == 0
    replicas.replicate(1)
    assert follower.last_fetched_epoch == 1
    assert not replicas.replicate(1).records
    assert follower.last_fetched_epoch == 1
    assert replicas.replicate(1).diverging is None
    assert replicas.stored(1) == replicas.stored(2)


def test_a_truncation_is_checkpointed_before_the_next_append() -> None:
    replicas = Replicas()
    replicas.append(b"a")
    replicas.settle()
    replicas.append(b"lost")
    replicas.elect(2, 2, 3)
    replicas.append(b"b")
    ends: list[int] = []
    replicas[1].truncated = lambda: ends.append(replicas[1].log.end_offset)
    replicas.settle()
    assert ends == [1]


def test_compaction_on_a_follower_keeps_the_newest_batch_of_each_producer() -> None:
    """It becomes the leader after a restart, and recognizes a retry."""
    replicas = Replicas(2, cleanup_policy=("compact",), segment_bytes=700)
    for sequence in range(8):
        replicas.append(b"x" * 60, producer_id=7, producer_epoch=0, base_sequence=sequence)
        replicas.append(b"y" * 60)  # Of the same key.
    replicas.settle()
    assert clean(replicas.disks[2], replicas[2].log) is not None
    assert len(replicas.stored(2)) < len(replicas.stored(1))
    for name in replicas.disks[2].files():
        if name.endswith(".snapshot"):
            replicas.disks[2].unlink(name)
    config = replicas[2].log.config
    log = reopened(replicas.disks[2], config=config)
    producer = log.producers.get(7)
    assert producer is not None and producer.last_sequence == 7


def test_a_response_to_an_outdated_request_is_ignored() -> None:
    replicas = Replicas()
    replicas.append(b"a")
    data = replicas.fetch(3)
    replicas.elect(2, 2, 3)
    follower = replicas[3].follower
    assert follower is not None and not follower.take(data, replicas.clock.now_ms())
    assert replicas[3].log.end_offset == 0
    replicas.append(b"b")
    data = replicas.fetch(3)
    assert follower.take(data, replicas.clock.now_ms())
    assert not follower.take(data, replicas.clock.now_ms()), "it came twice"
    assert replicas.stored(3) == replicas.stored(2)


def test_batches_of_an_epoch_above_the_leaders_are_ignored() -> None:
    replicas = Replicas(2)
    replicas.append(b"a")
    later = b"".join(with_prefix(batch(b"b"), 1, 7))
    data = replicas.fetch(2)
    follower = replicas[2].follower
    assert follower is not None
    follower.take(
        LeaderData(
            leader_epoch=0,
            fetch_offset=0,
            records=bytes(data.records) + later,
            high_watermark=2,
            start_offset=0,
        ),
        replicas.clock.now_ms(),
    )
    assert replicas.stored(2) == replicas.stored(1)
    assert replicas[2].high_watermark == 1


def test_a_broken_batch_is_refused_with_nothing_appended() -> None:
    replicas = Replicas(2)
    replicas.append(b"a")
    replicas.append(b"b")
    data = replicas.fetch(2)
    broken = bytearray(data.records)
    broken[-1] ^= 1
    follower = replicas[2].follower
    assert follower is not None
    spoiled = LeaderData(
        leader_epoch=0, fetch_offset=0, records=broken, high_watermark=2, start_offset=0
    )
    assert error_of(lambda: follower.take(spoiled, 0)) == Error.CORRUPT_MESSAGE
    assert (replicas[2].log.end_offset, replicas[2].high_watermark) == (0, 0)


def test_a_replica_that_was_away_longer_than_the_retention_starts_over() -> None:
    replicas = Replicas(2, segment_bytes=200)
    replicas.append(b"old", producer_id=7, producer_epoch=0, base_sequence=0)
    replicas.settle()
    replicas.set_isr(1)
    replicas.clock.advance(2 * LAG_MS)
    for number in range(5):
        replicas.append(b"x" * 60 + b"%d" % number)
    replicas.leader.delete_records(4)
    leader_log, follower = replicas.leader.log, replicas[2].follower
    assert follower is not None
    assert error_of(lambda: replicas.fetch(2)) == Error.OFFSET_OUT_OF_RANGE
    follower.return_to_range(leader_log.start_offset, leader_log.end_offset, 0)
    assert (replicas[2].log.start_offset, replicas[2].high_watermark) == (4, 4)
    replicas.settle()
    assert replicas.stored(2) == replicas.stored(1)[-len(replicas.stored(2)) :]
    assert replicas[2].log.end_offset == 6


def test_new_replica_can_be_elected_before_it_has_learned_a_high_watermark() -> None:
    """KAFKA-9491: it must not lead with a high watermark below the start of its log."""
    replicas = Replicas()
    replicas.set_isr(1, 3)
    replicas.clock.advance(2 * LAG_MS)
    for _ in range(4):
        replicas.append(b"deleted")
    replicas.settle(3)
    replicas.leader.delete_records(4)
    replicas.replicate(3)
    new = replicas[2].follower
    assert new is not None
    assert error_of(lambda: replicas.fetch(2)) == Error.OFFSET_OUT_OF_RANGE
    new.return_to_range(4, 4, 0)
    replicas.fetch(2)  # The response is still on its way.
    replicas.set_isr(1, 2, 3)
    replicas.elect(2, 1, 2, 3)
    assert replicas[2].high_watermark == replicas[2].log.start_offset == 4
    replicas.append(b"a")
    replicas.settle()
    assert [replicas[broker].high_watermark for broker in (1, 2, 3)] == [5, 5, 5]


def test_a_replica_that_is_longer_than_its_leader_is_truncated() -> None:
    replicas = Replicas(2)
    for _ in range(3):
        replicas.append(b"v")
    replicas.settle()
    follower = replicas[2].follower
    assert follower is not None
    follower.return_to_range(0, 2, 0)
    assert (replicas[2].log.end_offset, replicas[2].high_watermark) == (2, 2)


def test_a_new_replica_of_a_log_that_starts_within_a_batch_gets_all_of_the_batch() -> None:
    replicas = Replicas(2)
    replicas.set_isr(1)
    replicas.append(b"a", b"b", b"c")
    replicas.leader.delete_records(2)
    follower = replicas[2].follower
    assert follower is not None
    follower.return_to_range(2, 3, 0)
    replicas.settle()
    assert replicas.stored(2) == replicas.stored(1)
    assert replicas[2].log.start_offset == 2


def test_a_response_larger_than_a_segment_is_split_into_several() -> None:
    replicas = Replicas(2)
    replicas[2].configure(replicas[2].log.config.changed(segment_bytes=400))
    for number in range(10):
        replicas.append(b"x" * 50 + b"%d" % number)
    replicas.replicate(2)
    assert replicas.stored(2) == replicas.stored(1)
    assert all(each.size_bytes <= 400 for each in replicas[2].log.segments)


def test_a_follower_syncs_as_configured_by_flush_messages() -> None:
    replicas = Replicas(2, flush_messages=2)
    replicas.append(b"a")
    replicas.replicate(2)
    assert replicas[2].log.recovery_point == 0
    replicas.append(b"b")
    replicas.replicate(2)
    assert replicas[2].log.recovery_point == 2 and not replicas[2].awaits_sync


def test_a_restarted_follower_begins_with_the_checkpointed_high_watermark() -> None:
    replicas = Replicas(2)
    for _ in range(3):
        replicas.append(b"v")
    replicas.settle()
    replicas.append(b"uncommitted")
    replicas.replicate(2)
    checkpoint = replicas[2].high_watermark
    replicas[2].log.close()
    replicas[2].log = reopened(replicas.disks[2], clean=True)
    replicas[2].follower = None
    replicas[2].restore_high_watermark(checkpoint)
    replicas.set_isr(1, 2)
    assert (replicas[2].high_watermark, replicas[2].log.end_offset) == (3, 4)
    replicas.settle()
    assert replicas[2].high_watermark == 4


def test_a_new_leader_learns_later_what_was_committed() -> None:
    """KIP-207."""
    replicas = Replicas()
    replicas.append(b"a")
    for broker in (2, 3):
        replicas.replicate(broker)
        replicas.replicate(broker)
    assert (replicas[1].high_watermark, replicas[2].high_watermark) == (1, 0)
    replicas.elect(2, 2, 3)
    assert error_of(replicas[2].check_available) == Error.OFFSET_NOT_AVAILABLE
    replicas.replicate(3)
    replicas[2].check_available()
    assert replicas[2].high_watermark == 1


@pytest.mark.parametrize("seed", range(25))
def test_committed_records_stay_and_replicas_agree_in_random_histories(seed: int) -> None:
    """Elections within the ISR, lag, and ISR changes at random, over three replicas."""
    chosen = random.Random(seed)
    replicas = Replicas(min_insync_replicas=2, segment_bytes=700)
    acknowledged: dict[int, bytes] = {}
    pending: dict[int, bytes] = {}
    for number in range(200):
        match chosen.randrange(6):
            case 0 | 1:
                value = b"%d" % number
                if len(replicas.leadership.isr) >= 2:
                    pending[replicas.append(value, acks=-1)] = value
            case 2 | 3:
                others = [each for each in (1, 2, 3) if each != replicas.leadership.leader_id]
                replicas.replicate(chosen.choice(others), max_bytes=chosen.choice((1, 300, 9999)))
            case 4:
                replicas.clock.advance(chosen.choice((10, 20_000)))
                change = replicas.leader.leading().isr_change(replicas.clock.now_ms())
                if change is not None:
                    replicas.set_isr(*change.isr)
            case 5 if len(replicas.leadership.isr) >= 2 and chosen.random() < 0.4:
                replicas.elect(chosen.choice(replicas.leadership.isr), *replicas.leadership.isr)
                pending.clear()  # Waiting requests get an error response.
        for offset in [each for each in pending if each < replicas.leader.high_watermark]:
            acknowledged[offset] = pending.pop(offset)
        for broker in (1, 2, 3) if number % 10 == 0 else ():
            assert replicas[broker].high_watermark <= replicas[broker].log.end_offset
            assert replicas.committed(1).startswith(replicas.committed(broker)) or (
                replicas.committed(broker).startswith(replicas.committed(1))
            )
    replicas.set_isr(*replicas.partitions)
    replicas.settle()
    assert replicas.stored(1) == replicas.stored(2) == replicas.stored(3)
    stored = replicas.stored(1)
    assert acknowledged, "the history tests nothing"
    for offset, value in acknowledged.items():
        assert value in stored[offset], (offset, value)


def test_a_gap_where_a_segment_begins_is_not_taken_for_lost_records() -> None:
    """The leader was compacted once, and its topic's policy has changed since."""
    replicas = Replicas(2, segment_bytes=300)
    replicas.append(b"v" * 150)
    replicas.settle()
    follower = replicas[2].follower
    assert follower is not None
    sent = batch(b"v" * 150, timestamp=replicas.clock.now_ms())
    late = b"".join(with_prefix(sent, 9, 0))
    data = LeaderData(
        leader_epoch=0, fetch_offset=1, records=late, high_watermark=10, start_offset=0
    )
    assert follower.take(data, replicas.clock.now_ms())
    assert len(replicas[2].log.segments) == 2
    log = reopened(replicas.disks[2], config=replicas[2].log.config)
    assert (log.start_offset, log.end_offset) == (0, 10)
