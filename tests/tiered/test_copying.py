"""Which segments are copied, what their copies have, and what may be deleted afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiered.tiered_log import CONFIG, NOW_MS, TieredLog
from wirekafka.log.epochs import EpochEntry, decode_epochs
from wirekafka.tiered.copying import candidates, epochs_between
from wirekafka.tiered.expiry import LocalLog, expired


@pytest.fixture
def tiered(tmp_path: Path) -> TieredLog:
    found = TieredLog(tmp_path)
    found.append(40)
    return found


def test_the_closed_segments_below_the_last_stable_offset_are_copied(tiered: TieredLog) -> None:
    log = tiered.log
    closed = [each.base_offset for each in log.segments][:-1]
    found = candidates(log, CONFIG, -1, log.end_offset, NOW_MS)
    assert [each.segment.base_offset for each in found] == closed
    assert [each.end_offset for each in found] == [*closed[1:], log.segments.active.base_offset]
    assert len(candidates(log, CONFIG, -1, found[1].end_offset, NOW_MS)) == 2
    assert len(candidates(log, CONFIG, found[0].end_offset, log.end_offset, NOW_MS)) == (
        len(found) - 1
    )


def test_a_segment_is_copied_once_it_lags_behind(tiered: TieredLog) -> None:
    log, segments = tiered.log, tiered.log.segments
    now_ms = NOW_MS + log.end_offset
    second_age_ms = now_ms - segments[1].largest().timestamp
    newer_bytes = sum(each.size_bytes for each in segments[2:])

    def due(lag_ms: int, lag_bytes: int) -> int:
        config = CONFIG.changed(remote_copy_lag_ms=lag_ms, remote_copy_lag_bytes=lag_bytes)
        return len(candidates(log, config, -1, log.end_offset, now_ms))

    everything = len(segments) - 1
    assert due(0, -1) == due(-1, 0) == everything
    assert due(-1, -1) == 0, "the local retention is unlimited"
    assert (due(second_age_ms, -1), due(second_age_ms + 1, -1)) == (2, 1)
    assert (due(-1, newer_bytes), due(-1, newer_bytes + 1)) == (2, 1)


def test_a_segment_with_timestamps_in_the_future_is_copied_at_once(tiered: TieredLog) -> None:
    config = CONFIG.changed(remote_copy_lag_ms=10, remote_copy_lag_bytes=-1)
    assert candidates(tiered.log, config, -1, tiered.log.end_offset, NOW_MS - 1)


def test_a_copy_has_the_epochs_up_to_its_end(tmp_path: Path) -> None:
    tiered = TieredLog(tmp_path)
    for epoch in (1, 4, 6):
        tiered.epoch = epoch
        tiered.append(13)
    tiered.copy()
    first = next(iter(tiered.states))
    assert first.epochs[0] == EpochEntry(1, 0)
    for segment in tiered.states:
        assert segment.epochs[0].start_offset == segment.start_offset
        [index] = [
            data
            for key, data in tiered.store.objects.items()
            if f"/{segment.start_offset:020d}-" in key and key.endswith("_checkpoint")
        ]
        entries = tiered.log.epochs.entries
        expected = [each for each in entries if each.start_offset < segment.end_offset]
        assert decode_epochs(index) == expected


def test_the_epochs_of_a_range_begin_with_the_range() -> None:
    entries = [EpochEntry(0, 0), EpochEntry(2, 10), EpochEntry(3, 20)]
    assert epochs_between(entries, 5, 15) == ((0, 5), (2, 10))
    assert epochs_between(entries, 10, 20) == ((2, 10),)
    assert epochs_between(entries, 12, 30) == ((2, 12), (3, 20))


def test_a_missing_producer_snapshot_is_rebuilt(tiered: TieredLog) -> None:
    segments = tiered.log.segments
    path = Path(tiered.log.directory) / f"{segments[1].base_offset:020d}.snapshot"
    written = path.read_bytes()
    path.unlink()
    assert tiered.log.producer_snapshot(segments[1].base_offset) == written


def test_local_segments_go_only_when_they_are_readable_in_remote_storage(tiered: TieredLog) -> None:
    log = tiered.log
    log.config = CONFIG.changed(local_retention_bytes=1)
    assert log.delete_old_segments(NOW_MS) == 0
    tiered.copy()
    count = log.delete_old_segments(NOW_MS)
    assert count == len(tiered.states) > 3
    assert log.start_offset == log.segments[0].base_offset > 0
    assert (log.first_offset, log.epochs.entries[0].start_offset) == (0, 0)


def test_what_follows_a_truncation_stays_until_it_is_copied_itself(tiered: TieredLog) -> None:
    """Copies of the records that were cut off say nothing about those in their place."""
    log = tiered.log
    tiered.copy()
    offset = log.segments[2].base_offset
    log.truncate_to(offset, NOW_MS)
    tiered.append(40)
    log.config = CONFIG.changed(local_retention_bytes=1)
    log.delete_old_segments(NOW_MS)
    assert 0 < log.start_offset <= offset


def test_a_topic_that_no_longer_copies_keeps_the_total_retention_locally(tiered: TieredLog) -> None:
    log = tiered.log
    log.config = CONFIG.changed(
        local_retention_bytes=1, retention_bytes=4_000, remote_log_copy_disable=True
    )
    assert log.delete_old_segments(NOW_MS) > 0
    assert 4_000 <= log.size_bytes < 6_000


def test_records_deleted_by_a_client_go_without_a_copy(tiered: TieredLog) -> None:
    log = tiered.log
    offset = log.segments[2].base_offset
    log.advance_start(offset)
    assert log.delete_old_segments(NOW_MS) == 2
    assert (log.first_offset, log.start_offset) == (offset, offset)


def test_what_is_over_the_retention_is_deleted_oldest_first(tiered: TieredLog) -> None:
    tiered.copy()
    log = tiered.log
    local = LocalLog(
        epochs=log.epochs.entries, start_offset=0, end_offset=log.end_offset, newer_bytes=500
    )
    first, second, *_, last = tiered.states
    total = sum(each.size_bytes for each in tiered.states) + 500

    def deleted(**options: int) -> tuple[int, list[int]]:
        found = expired(tiered.states, CONFIG.changed(**options), local, NOW_MS + 10_000)
        return found.start_offset, [each.start_offset for each in found.segments]

    assert deleted() == (0, [])
    assert deleted(retention_bytes=total) == (0, [])
    assert deleted(retention_bytes=total - first.size_bytes + 1) == (0, [])
    assert deleted(retention_bytes=total - first.size_bytes) == (first.end_offset, [0])
    by_time = 10_000 - (second.max_timestamp_ms - NOW_MS) - 1
    assert deleted(retention_ms=by_time) == (second.end_offset, [0, second.start_offset])
    assert deleted(retention_ms=0)[0] == last.end_offset


def test_remote_segments_wait_for_the_table_of_their_topic(tiered: TieredLog) -> None:
    tiered.copy()
    log = tiered.log
    _, second, third, *_ = tiered.states
    config = CONFIG.changed(retention_ms=0)

    def deleted(start_offset: int, held_from: int | None) -> int:
        local = LocalLog(
            epochs=log.epochs.entries,
            start_offset=start_offset,
            end_offset=log.end_offset,
            newer_bytes=0,
            held_from=held_from,
        )
        return len(expired(tiered.states, config, local, NOW_MS + 10_000).segments)

    assert deleted(0, None) > 3
    assert deleted(0, -1) == 0
    assert deleted(0, second.end_offset) == 2
    assert deleted(0, third.end_offset - 1) == 2
    assert deleted(second.end_offset, -1) == 2, "a client has deleted these records"


def test_local_segments_that_remote_storage_has_do_not_wait_for_the_table(
    tiered: TieredLog,
) -> None:
    log = tiered.log
    log.config = CONFIG.changed(
        local_retention_bytes=1, wirekafka_table_mode="key_value", wirekafka_table_hold=True
    )
    assert log.delete_old_segments(NOW_MS) == 0
    tiered.copy()
    assert log.delete_old_segments(NOW_MS) > 0
    assert log.first_offset == 0
    log.config = log.config.changed(remote_log_copy_disable=True, retention_ms=0)
    readable_end = log.start_offset
    assert log.delete_old_segments(NOW_MS + 10_000) == 0
    assert log.start_offset == readable_end


def test_segments_of_leaders_whose_epochs_are_forgotten_are_deleted(tiered: TieredLog) -> None:
    tiered.copy()
    local = LocalLog(epochs=(EpochEntry(5, 0),), start_offset=0, end_offset=100, newer_bytes=0)
    assert len(expired(tiered.states, CONFIG, local, NOW_MS).segments) == len(tiered.states)
