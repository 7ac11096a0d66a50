"""Lag in records and in time, and its history of an hour."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wirekafka.metrics.lag import (
    HISTORY_MS,
    Behind,
    EndOffsets,
    LagHistory,
    LagSample,
    behind,
    lag_of,
)

offsets = st.integers(min_value=0, max_value=1 << 40)


@given(position=offsets, end=offsets)
def test_lag_is_never_negative(position: int, end: int) -> None:
    assert lag_of(position, end) == (end - position if end > position else 0)
    assert behind(position, end, 500, 400).lag >= 0
    assert (behind(position, end, 500, 400).behind_ms or 0) >= 0


def test_a_reader_at_the_end_is_not_behind() -> None:
    assert behind(7, 7, None, 1000) == Behind(7, 7, 0)
    assert behind(9, 7, None, 1000).lag == 0


def test_a_reader_is_as_far_behind_as_its_next_record_is_old() -> None:
    assert behind(3, 7, 400, 1000) == Behind(3, 7, 600)
    assert behind(3, 7, None, 1000) == Behind(3, 7, None)


def test_the_time_of_a_record_lies_between_the_two_observations_around_it() -> None:
    ends = EndOffsets()
    ends.observe(1_000, 10)
    ends.observe(2_000, 20)
    assert ends.passed_ms(9) is None, "appended before the first observation"
    assert ends.passed_ms(10) == 1_100
    assert ends.passed_ms(19) == 2_000
    assert ends.passed_ms(20) is None, "not appended yet"


def test_records_after_an_idle_time_are_as_new_as_they_are() -> None:
    ends = EndOffsets()
    for second in range(100):
        ends.observe(second * 1_000, 10)
    ends.observe(100_000, 20)
    assert 99_000 < (ends.passed_ms(10) or 0) <= 100_000


def test_a_truncated_partition_begins_again() -> None:
    ends = EndOffsets()
    ends.observe(1_000, 10)
    ends.observe(2_000, 20)
    ends.observe(3_000, 5)
    ends.observe(4_000, 15)
    assert ends.passed_ms(4) is None
    assert ends.passed_ms(14) == 4_000


def test_an_hour_of_observations_stays_small_and_ordered() -> None:
    ends = EndOffsets()
    for second in range(3 * 3600):
        ends.observe(second * 1_000, 100 * second + 1)
    assert len(ends._times) <= 480
    now_s = 3 * 3600 - 1
    for ago_s in (1, 10, 60, 600, 3500):
        passed_ms = ends.passed_ms(100 * (now_s - ago_s))
        assert passed_ms is not None
        assert abs(passed_ms - (now_s - ago_s) * 1_000) <= 1_000


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 100_000), st.integers(-50, 1000)), min_size=1, max_size=60
    ),
    wanted=offsets,
)
def test_times_are_never_in_the_future(steps: list[tuple[int, int]], wanted: int) -> None:
    ends, now_ms, end = EndOffsets(), 0, 0
    for pause_ms, grown in steps:
        now_ms += pause_ms
        end = max(end + grown, 0)
        ends.observe(now_ms, end)
    for offset in (wanted, end, end - 1, end // 2):
        passed_ms = ends.passed_ms(offset)
        assert passed_ms is None or 0 <= passed_ms <= now_ms


def test_a_history_has_the_last_hour() -> None:
    history = LagHistory()
    for number in range(1000):
        history.note(LagSample(number * LagHistory.EVERY_MS, number, -1))
    samples = list(history.samples())
    assert samples[-1] == LagSample(9_990_000, 999, -1)
    assert samples[0].at_ms == samples[-1].at_ms - HISTORY_MS
    assert len(samples) == 361
    assert history.latest_ms == 9_990_000


def test_a_history_that_was_not_continued_ends_where_it_did() -> None:
    history = LagHistory()
    history.note(LagSample(1, 5, 100))
    history.note(LagSample(20 * HISTORY_MS, 6, 200))
    assert list(history.samples()) == [LagSample(20 * HISTORY_MS, 6, 200)]
    assert LagHistory().latest_ms == 0
