"""The benchmark of idle replicas: it measures both rounds on both sides."""

from __future__ import annotations

from pathlib import Path

from benchmarks.idle_replicas import costs


def test_both_rounds_are_measured_on_both_sides(tmp_path: Path) -> None:
    found = costs(tmp_path, 3, rounds=2)
    assert list(found) == ["idle", "one busy partition"]
    assert all(cost > 0 for round_costs in found.values() for cost in round_costs)
