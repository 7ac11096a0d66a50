"""Delays between retries."""

from __future__ import annotations

from wirekafka.runtime.backoff import Backoff


def test_the_delay_doubles_up_to_the_longest() -> None:
    backoff = Backoff(first_ms=100, longest_ms=5_000)
    assert [backoff.delay_ms(failures) for failures in (0, 1, 2, 5, 6, 10_000)] == [
        100,
        200,
        400,
        3_200,
        5_000,
        5_000,
    ]


def test_a_longest_delay_below_the_first_is_kept() -> None:
    assert Backoff(first_ms=100, longest_ms=30).delay_ms(0) == 30


def test_jitter_spreads_the_delays_around_their_middle() -> None:
    delays = [Backoff(100, 400, jitter=0.2).delay_ms(9) for _ in range(50)]
    assert all(320 <= delay_ms <= 480 for delay_ms in delays)
    assert len(set(delays)) > 25
