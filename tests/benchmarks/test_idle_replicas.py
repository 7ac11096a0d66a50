"""The benchmark of idle replicas: it measures all rounds on both sides."""

from __future__ import annotations

from pathlib import Path

from benchmarks.idle_replicas import costs


def test_all_rounds_are_measured_on_both_sides(tmp_path: Path) -> None:
    found = costs(tmp_path, 3, busy=(1, 2), rounds=2)
    assert list(found) == ["idle", "one busy partition", "2 busy partitions"]
    idle, *busy = found.values()
    assert idle.follower_ms > 0 and idle.leader_ms > 0 and not idle.produce_ms
    assert all(cost > 0 for round_costs in busy for cost in round_costs)
