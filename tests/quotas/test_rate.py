"""Rates over windows, with the numbers of Kafka's `Rate` (11 windows of 1 s unless stated)."""

from __future__ import annotations

from random import Random

import pytest

from wirekafka.quotas.rate import LONGEST_MS, Rate, Windows

ELEVEN = Windows(11, 1000)
NOW_MS = 1_700_000_000_000


def rate(limit: float = 100, windows: Windows = ELEVEN, longest_ms: int = LONGEST_MS) -> Rate:
    return Rate(windows, limit, longest_ms)


def test_all_windows_but_one_count_as_elapsed_from_the_start() -> None:
    measured = rate()
    assert measured.record(1000, NOW_MS) == 0
    assert measured.per_second(NOW_MS) == 100
    assert measured.record(1, NOW_MS) == 10  # 1 over 1000, which takes 10 ms at 100 per second.


def test_the_part_of_a_window_that_has_passed_counts_too() -> None:
    measured = rate()
    measured.record(1000, NOW_MS)
    assert measured.record(50, NOW_MS + 500) == 0
    assert measured.per_second(NOW_MS + 500) == 1050 / 10.5


def test_after_the_throttle_time_the_rate_is_the_limit() -> None:
    measured = rate()
    throttle_ms = measured.record(1700, NOW_MS)
    assert throttle_ms == 7000
    # Idle time passes within the whole windows that counted as elapsed already.
    assert measured.per_second(NOW_MS + throttle_ms) == 170
    assert measured.record(0, NOW_MS + 10_999) == round((1700 / 10.999 - 100) / 100 * 10_999)


def test_a_window_is_dropped_its_full_time_after_its_last_record() -> None:
    measured = rate()
    measured.record(600, NOW_MS)
    measured.record(400, NOW_MS + 999)
    assert measured.per_second(NOW_MS + 11_998) == pytest.approx(1000 / 11.998)
    assert measured.per_second(NOW_MS + 11_999) == 0


def test_windows_begin_with_records() -> None:
    measured = rate()
    measured.record(500, NOW_MS)
    measured.record(500, NOW_MS + 1500)  # The first window ended at 1000; this one begins here.
    measured.record(500, NOW_MS + 2400)  # Still in the second.
    assert measured.per_second(NOW_MS + 11_500) == pytest.approx(1000 / 10)


@pytest.mark.parametrize("seconds", [5, 11, 33])
def test_a_steady_rate_is_measured_as_it_is(seconds: int) -> None:
    measured = rate(limit=10_000)
    for at_ms in range(0, seconds * 1000, 10):
        measured.record(10, NOW_MS + at_ms)
    at_ms = NOW_MS + seconds * 1000 - 1
    expected = 1000 if seconds > 10 else 1000 * seconds / 10.5
    assert measured.per_second(at_ms) == pytest.approx(expected, rel=0.06)


def test_a_client_that_waits_as_asked_gets_its_limit() -> None:
    measured, now_ms, total = rate(limit=1000), 0, 0
    while now_ms < 120_000:
        throttle_ms = measured.record(700, NOW_MS + now_ms)
        total += 700
        now_ms += throttle_ms + 1
    # The start allows ten windows at once.
    assert total == pytest.approx(1000 * 120, rel=0.1)


def test_what_is_taken_back_is_not_counted() -> None:
    measured = rate()
    measured.record(900, NOW_MS)
    assert measured.record(200, NOW_MS) == 1000
    measured.take_back(200, NOW_MS)
    assert measured.per_second(NOW_MS) == 90
    assert measured.record(100, NOW_MS) == 0


def test_a_new_limit_takes_effect_at_once_on_what_was_counted() -> None:
    measured = rate()
    measured.record(1000, NOW_MS)
    measured.limit = 50
    assert measured.record(0, NOW_MS) == 10_000
    measured.limit = 200
    assert measured.record(0, NOW_MS) == 0


def test_a_throttle_time_is_bounded() -> None:
    assert rate(limit=1, longest_ms=1000).record(1_000_000, NOW_MS) == 1000
    assert rate(limit=0.001).record(1e18, NOW_MS) == LONGEST_MS


def test_one_window_is_averaged_over_at_least_a_millisecond() -> None:
    measured = rate(limit=100, windows=Windows(1, 1000))
    assert measured.record(1, NOW_MS) == 9  # 1000 per second, ten times the limit, over 1 ms.
    assert measured.record(1, NOW_MS + 100) == 0


def test_a_clock_that_is_set_back_does_no_harm() -> None:
    measured = rate()
    measured.record(1000, NOW_MS)
    assert measured.record(1, NOW_MS - 60_000) > 0
    assert measured.record(1, NOW_MS) > 0


def test_a_rate_that_was_idle_starts_anew() -> None:
    measured = rate()
    measured.record(5000, NOW_MS)
    assert measured.record(1000, NOW_MS + 11_000) == 0
    assert measured.per_second(NOW_MS + 11_000) == 100


def test_there_is_ample_room_until_the_margin_is_touched_or_the_window_ends() -> None:
    measured = Rate(ELEVEN, 10, LONGEST_MS, 30)  # 100 in ten windows.
    assert measured.ample_until_ms <= NOW_MS
    measured.record(70, NOW_MS)
    assert measured.ample_until_ms == NOW_MS + 1000 and measured.ample == 0
    measured.record(1, NOW_MS)
    assert measured.ample_until_ms <= NOW_MS
    measured.limit = 20
    assert measured.ample_until_ms == NOW_MS + 1000 and measured.ample == 99


@pytest.mark.parametrize("seed", range(20))
def test_adding_equals_recording(seed: int) -> None:
    """At any times, with any amounts, and where both are mixed."""
    random = Random(seed)
    recorded, added = (Rate(Windows(3, 1000), 100) for _ in range(2))
    now_ms = NOW_MS
    for _ in range(2000):
        now_ms += random.choice((0, 1, 40, 400, 900, 5000 if random.random() < 0.02 else 3))
        amount = random.choice((1, 5, 20, 90))
        expected = recorded.record(amount, now_ms)
        add = added.record if random.random() < 0.1 else added.add
        assert add(amount, now_ms) == expected
        if random.random() < 0.1:
            assert added.per_second(now_ms) == recorded.per_second(now_ms)
