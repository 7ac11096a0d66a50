"""Growth: the rate of the last hour or of the last ten minutes, and the time that is left."""

from __future__ import annotations

from wirekafka.metrics.growth import SizeGrowth

MINUTE_MS = 60_000


def grown(*sizes: int, every_ms: int = MINUTE_MS) -> SizeGrowth:
    growth = SizeGrowth()
    for number, size_bytes in enumerate(sizes):
        growth.note(number * every_ms, size_bytes)
    return growth


def test_nothing_is_said_before_a_minute_has_passed() -> None:
    assert SizeGrowth().seconds_until(100) is None
    assert grown(0, 600, every_ms=MINUTE_MS - 1).bytes_per_s == 0
    assert grown(0, 600).bytes_per_s == 10


def test_the_time_left_is_the_room_by_the_rate() -> None:
    growth = grown(0, 600, 1200)
    assert growth.seconds_until(3600) == 360
    assert growth.seconds_until(0) == growth.seconds_until(-5) == 0
    assert grown(900, 600).seconds_until(3600) is None


def test_a_burst_counts_before_an_hour_has_passed() -> None:
    quiet = [0] * 60
    growth = grown(*quiet, *range(0, 6000, 600))
    assert growth.bytes_per_s == 5400 / 600


def test_a_slow_leak_is_not_hidden_by_a_quiet_moment() -> None:
    growth = grown(*range(0, 60 * 600, 600), *[60 * 600] * 15)
    assert growth.bytes_per_s > 7


def test_an_hour_later_the_growth_before_is_forgotten() -> None:
    growth = grown(0, 6000, *[6000] * 70)
    assert growth.bytes_per_s == 0


def test_a_clock_that_is_set_back_begins_anew() -> None:
    growth = grown(0, 600, 1200)
    growth.note(0, 1200)
    assert growth.bytes_per_s == 0
    growth.note(MINUTE_MS, 1260)
    assert growth.bytes_per_s == 1
