"""What a broker does not do is waited for a few times, and hardly then."""

from __future__ import annotations

from wirekafka.conformance.patience import WaitLimits


def test_the_usual_wait_ends_after_a_few_misses_of_the_same() -> None:
    patience = WaitLimits()
    for _ in range(2):
        patience.miss("leaders of")
    assert patience.of("leaders of", 30) == 30
    patience.miss("leaders of")
    assert patience.of("leaders of", 30) == 1
    assert patience.of("leaders of", 0.5) == 0.5
    assert patience.of("a coordinator of", 30) == 30
