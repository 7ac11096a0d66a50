"""The benchmark of replication: cases, medians, ratios and goals."""

from __future__ import annotations

from benchmarks.measure import P99
from benchmarks.replicated import CASES, FOLLOWER_CPU, RATE, RESIDENT, rows


def test_each_case_has_a_topic_and_a_name_of_its_own() -> None:
    assert len({case.topic for case in CASES}) == len({case.name for case in CASES}) == len(CASES)
    assert CASES[0].name == "200 B, 1 partition"
    assert CASES[-1].name == "10 KB, 50 partitions, leaders spread"


def test_medians_are_compared_with_the_goals() -> None:
    ours = [{RATE: rate, P99: 4.0, FOLLOWER_CPU: 5.0} for rate in (900.0, 1_000.0, 5_000.0)]
    theirs = [{RATE: 1_000.0, P99: 3.0, FOLLOWER_CPU: 10.0}]
    assert list(rows("case", ours, theirs)) == [
        f"| case | {RATE} | 1000.00 | 1000.00 | ×1.00 | ≥ ×1: reached |",
        f"| case | {P99} | 4.00 | 3.00 | ×1.33 | ≤ ×1: missed |",
        f"| case | {FOLLOWER_CPU} | 5.00 | 10.00 | ×0.50 | ≤ ×0.6: reached |",
    ]


def test_memory_has_a_limit_of_its_own() -> None:
    [row] = rows("2000 replicas", [{RESIDENT: 121.0}], ())
    assert row == f"| 2000 replicas | {RESIDENT} | 121.00 |  |  | ≤ 120: missed |"
