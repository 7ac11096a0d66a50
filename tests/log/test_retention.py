"""Retention: which segments are deleted, and when their files are removed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.log.batches import (
    DIRECTORY,
    NOW_MS,
    append,
    batch,
    from_producer,
    new_log,
    read_all,
    reopened,
)
from tests.simulation.disk import SimulatedDisk
from wirekafka.log.log import Log

SIZE_BYTES = len(batch())
HOUR_MS = 3_600_000


def log_of(segments: int, disk: SimulatedDisk | None = None, **config: Any) -> Log:
    """Three batches a segment, segments an hour apart, the last one active."""
    log = new_log(disk, segment_bytes=3 * SIZE_BYTES, **{"retention_ms": -1, **config})
    for number in range(3 * segments):
        timestamp = NOW_MS + number // 3 * HOUR_MS
        append(log, batch(timestamp=timestamp), now_ms=timestamp)
    assert len(log.segments) == segments
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_nothing_is_deleted_without_limits() -> None:
    log = log_of(4)
    assert log.delete_old_segments(NOW_MS + 1000 * HOUR_MS) == 0


def test_segments_are_deleted_when_their_newest_record_is_too_old() -> None:
    log = log_of(4, retention_ms=2 * HOUR_MS)
    assert log.delete_old_segments(NOW_MS + 2 * HOUR_MS) == 0
    assert log.delete_old_segments(NOW_MS + 3 * HOUR_MS) == 1
    assert (bases(log), log.start_offset) == ([3, 6, 9], 3)


def test_the_active_segment_is_deleted_too_and_offsets_continue() -> None:
    log = log_of(3, retention_ms=HOUR_MS)
    assert log.delete_old_segments(NOW_MS + 100 * HOUR_MS) == 3
    assert (bases(log), log.start_offset, log.end_offset) == ([9], 9, 9)
    assert append(log, batch()).base_offset == 9


def test_an_empty_active_segment_is_kept() -> None:
    log = log_of(1, retention_ms=HOUR_MS)
    assert log.delete_old_segments(NOW_MS + 100 * HOUR_MS) == 1
    assert log.delete_old_segments(NOW_MS + 200 * HOUR_MS) == 0


def test_a_young_segment_keeps_older_ones_after_it() -> None:
    log = new_log(segment_bytes=SIZE_BYTES, retention_ms=HOUR_MS)
    for timestamp in (NOW_MS + 50 * HOUR_MS, NOW_MS, NOW_MS):
        append(log, batch(timestamp=timestamp), now_ms=NOW_MS + 50 * HOUR_MS)
    assert log.delete_old_segments(NOW_MS + 50 * HOUR_MS) == 0


def test_the_oldest_segments_are_deleted_while_the_rest_has_the_retained_size() -> None:
    log = log_of(4, retention_bytes=7 * SIZE_BYTES)
    assert log.delete_old_segments(NOW_MS) == 1
    assert bases(log) == [3, 6, 9]
    assert log.delete_old_segments(NOW_MS) == 0


def test_a_size_limit_of_zero_deletes_all_segments() -> None:
    log = log_of(2, retention_bytes=0)
    assert log.delete_old_segments(NOW_MS) == 2
    assert (log.start_offset, log.size_bytes) == (6, 0)


def test_segments_completely_below_the_start_are_deleted_under_every_policy() -> None:
    log = log_of(4, cleanup_policy=("compact",), retention_ms=1)
    log.advance_start(7)
    assert log.delete_old_segments(NOW_MS + 100 * HOUR_MS) == 2
    assert (bases(log), log.start_offset) == ([6, 9], 7)


def test_the_active_segment_is_kept_even_when_all_its_records_were_deleted() -> None:
    log = log_of(2)
    log.advance_start(6)
    assert log.delete_old_segments(NOW_MS) == 1
    assert (bases(log), log.start_offset) == ([3], 6)


def test_nothing_above_the_high_watermark_is_deleted() -> None:
    log = log_of(4, retention_ms=0)
    assert log.delete_old_segments(NOW_MS + 100 * HOUR_MS, high_watermark=5) == 1
    assert bases(log) == [3, 6, 9]


_HELD = {"wirekafka_table_mode": "key_value", "wirekafka_table_hold": True}


@pytest.mark.parametrize("limit", [{"retention_ms": HOUR_MS}, {"retention_bytes": 0}])
def test_retention_waits_for_the_table_of_a_topic(limit: dict[str, int]) -> None:
    log = log_of(4, **limit, **_HELD)
    late_ms = NOW_MS + 100 * HOUR_MS
    assert log.delete_old_segments(late_ms) == 0, "nothing is known of the table"
    log.released_offset = 7
    assert log.delete_old_segments(late_ms) == 2
    assert (bases(log), log.start_offset) == ([6, 9], 6)
    log.released_offset = 12
    assert log.delete_old_segments(late_ms) == 2


def test_records_that_a_client_deletes_do_not_wait_for_the_table() -> None:
    log = log_of(4, retention_ms=HOUR_MS, **_HELD)
    log.advance_start(7)
    assert log.delete_old_segments(NOW_MS + 100 * HOUR_MS) == 2
    assert (bases(log), log.start_offset) == ([6, 9], 7)


@pytest.mark.parametrize(
    "change", [{"wirekafka_table_hold": False}, {"wirekafka_table_mode": "off"}]
)
def test_retention_does_not_wait_any_more_once_the_topic_says_so(change: dict[str, Any]) -> None:
    log = log_of(4, retention_ms=HOUR_MS, **_HELD)
    log.config = log.config.changed(**change)
    assert log.delete_old_segments(NOW_MS + 100 * HOUR_MS) == 4


def test_deleted_files_are_kept_with_a_suffix_for_the_configured_delay() -> None:
    disk = SimulatedDisk()
    log = log_of(2, disk, retention_bytes=3 * SIZE_BYTES, file_delete_delay_ms=500)
    log.delete_old_segments(NOW_MS)
    names = [path.removeprefix(f"{DIRECTORY}/") for path in disk.files()]
    assert f"{0:020d}.log.deleted" in names and f"{0:020d}.log" not in names
    assert log.delete_retired(NOW_MS + 499) == NOW_MS + 500
    assert log.delete_retired(NOW_MS + 500) is None
    assert not any("deleted" in path for path in disk.files())


def test_files_marked_as_deleted_are_removed_by_a_restart() -> None:
    disk = SimulatedDisk()
    log = log_of(3, disk, retention_bytes=3 * SIZE_BYTES)
    log.delete_old_segments(NOW_MS)
    again = reopened(disk)
    assert (again.start_offset, again.end_offset) == (6, 9)
    assert not any("deleted" in path for path in disk.files())


@pytest.mark.parametrize("clean", [True, False])
def test_the_start_offset_and_epochs_survive_a_restart(clean: bool) -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    for number in range(10):
        append(log, batch(), epoch=number)
    log.advance_start(6)
    if clean:
        log.close()
    again = reopened(disk, clean=clean, start_offset=6)
    assert again.start_offset == 6 and len(read_all(again)) == 4
    assert again.end_offset_for_epoch(7) == (7, 8)
    assert again.epochs.entries[0] == (6, 6)


def test_producer_states_are_kept_after_all_their_records_were_deleted() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, segment_bytes=200, retention_bytes=0)
    for number in range(6):
        append(log, from_producer(7, number))
    log.delete_old_segments(NOW_MS)
    assert append(log, from_producer(7, 5)).duplicate
    again = reopened(disk, start_offset=6)
    assert append(again, from_producer(7, 5)).duplicate
    assert append(again, from_producer(7, 6)).base_offset == 6


def test_unread_segments_are_kept_where_the_topic_says_so() -> None:
    log = log_of(4, retention_ms=HOUR_MS, wirekafka_retention_keep_unread=True)
    late_ms = NOW_MS + 1000 * HOUR_MS
    assert log.delete_old_segments(late_ms) == 0, "nothing is known yet"
    log.unread_from = 7
    assert log.delete_old_segments(late_ms) == 2
    assert bases(log) == [6, 9]
    log.advance_start(11)
    assert log.delete_old_segments(late_ms) == 1, "clients may delete what is unread"


def test_the_table_and_the_groups_both_hold_a_segment() -> None:
    log = log_of(
        4,
        retention_ms=HOUR_MS,
        wirekafka_retention_keep_unread=True,
        wirekafka_table_hold=True,
        wirekafka_table_mode="key_value",
    )
    log.unread_from, log.released_offset = 9, 3
    assert log.delete_old_segments(NOW_MS + 1000 * HOUR_MS) == 1
    log.unread_from, log.released_offset = 3, 9
    assert log.delete_old_segments(NOW_MS + 1000 * HOUR_MS) == 0


def test_spare_segments_go_before_they_expire_up_to_an_offset() -> None:
    log = log_of(4)
    assert log.delete_spare_segments(5, NOW_MS, log.end_offset) == 1
    assert (bases(log), log.start_offset) == ([3, 6, 9], 3)
    assert [each.base_offset for each in log.spare_segments(8)] == [3], "the others are in use"
    assert log.delete_spare_segments(12, NOW_MS, 8) == 1
    assert log.delete_spare_segments(12, NOW_MS, 12) == 2
    assert (bases(log), log.start_offset, log.end_offset) == ([12], 12, 12)
    assert log.spare_segments(12) == [] and log.delete_spare_segments(12, NOW_MS, 12) == 0


def test_what_a_table_or_a_group_waits_for_is_not_spare() -> None:
    log = log_of(4, wirekafka_retention_keep_unread=True, **_HELD)
    log.unread_from, log.released_offset = 12, 7
    assert [each.base_offset for each in log.spare_segments(12)] == [0, 3]
    log.unread_from, log.released_offset = 3, 12
    assert [each.base_offset for each in log.spare_segments(12)] == [0]


def test_of_a_tiered_log_only_what_is_readable_elsewhere_is_spare() -> None:
    log = log_of(4, remote_storage_enable=True)
    assert log.remote is not None
    assert log.delete_spare_segments(12, NOW_MS, 12) == 0
    log.remote.copied_end_offset = log.remote.readable_end_offset = 7
    assert log.delete_spare_segments(12, NOW_MS, 12) == 2
    assert (bases(log), log.start_offset, log.first_offset) == ([6, 9], 6, 0)
