"""How long a rebalance waits; tests/transcripts has the other tests of rebalances."""

from pathlib import Path

import pytest

from tests.coordinator.machine_backend import MachineBackend
from tests.coordinator.transcript import Play, Scenario

SLOW_FIRST = """
    a -> join range v=3 rebalance={first} session=1800000
    a <- joined 1 range as a leads a
    b -> join range v=3 rebalance={second} session=1800000
    {just_before} ms later
    group is PreparingRebalance
    20 ms later
    b <- joined 2 range as b leads b
"""


@pytest.mark.parametrize(("first", "second"), [(20_000, 5_000), (5_000, 20_000)])
def test_a_rebalance_waits_the_largest_rebalance_timeout(first: int, second: int) -> None:
    text = SLOW_FIRST.format(first=first, second=second, just_before=20_000 - 10)
    lines = [(number, line.strip()) for number, line in enumerate(text.strip().splitlines(), 1)]
    Play(MachineBackend()).run(Scenario("largest", Path(__file__), lines))


def test_the_first_rebalance_waits_the_initial_delay() -> None:
    lines = [
        "a -> join range v=3",
        "2990 ms later",
        "group is PreparingRebalance",
        "20 ms later",
        "a <- joined 1 range as a leads a",
    ]
    Play(MachineBackend(initial_rebalance_delay_ms=3000)).run(
        Scenario("initial", Path(__file__), list(enumerate(lines)))
    )
