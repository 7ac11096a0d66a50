"""The benchmark of many partitions: its log directories and its counts."""

from __future__ import annotations

from pathlib import Path

from benchmarks.partitions import Phase, RoundTrip, during, log_directory_alone


def test_a_log_directory_is_filled_stopped_loaded_and_emptied(tmp_path: Path) -> None:
    left = {}
    for name, mean_us, worst_ms in log_directory_alone(tmp_path / "data", 7):
        left[name] = sorted(entry.name for entry in (tmp_path / "data").glob("many-*"))
        assert mean_us > 0 and worst_ms > 0
    assert list(left) == ["create", "clean stop", "load", "delete", "remove"]
    assert left["create"] == left["load"] == [f"many-{index}" for index in range(7)]
    assert len(left["delete"]) == 7 and all(name.endswith("-delete") for name in left["delete"])
    assert left["remove"] == []


def test_a_round_trip_counts_to_the_phase_that_has_its_middle() -> None:
    trips = [RoundTrip(0.5, 0.2), RoundTrip(0.9, 0.4), RoundTrip(1.8, 0.1), RoundTrip(1.9, 0.6)]
    assert during(Phase("create", 1.0, 1.5, 2.0), trips) == [0.4, 0.1]
