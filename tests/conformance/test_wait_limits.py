"""What a broker does not do is waited for a few times, and hardly then."""

from __future__ import annotations

from wirekafka.conformance.wait_limits import WaitLimits


def test_the_usual_wait_ends_after_a_few_misses_of_the_same() -> None:
    limits = WaitLimits()
    for _ in range(2):
        limits.miss("leaders of")
    assert limits.of("leaders of", 30) == 30
    limits.miss("leaders of")
    assert limits.of("leaders of", 30) == 1
    assert limits.of("leaders of", 0.5) == 0.5
    assert limits.of("a coordinator of", 30) == 30
