"""The benchmark of clusters: medians, ratios and goals."""

from __future__ import annotations

from benchmarks.clusters import DECISION, FIRST_RECORD, PROPORTIONAL, STOPPED, compared, table


def test_medians_are_compared_with_the_goals() -> None:
    ours = [
        {FIRST_RECORD: 1.0, PROPORTIONAL: 200.0, DECISION: 2.0, STOPPED: 1.0},
        {FIRST_RECORD: 9.0, PROPORTIONAL: 100.0, DECISION: 2.5, STOPPED: 1.0},
        {FIRST_RECORD: 2.0, PROPORTIONAL: 120.0, DECISION: 3.0, STOPPED: 1.0},
    ]
    theirs = [{FIRST_RECORD: 8.0, PROPORTIONAL: 800.0, DECISION: 2.0, STOPPED: 4.0}]
    rows = {row.name: row for row in compared(ours, theirs)}
    assert (rows[FIRST_RECORD].ours, rows[FIRST_RECORD].theirs) == (2.0, 8.0)
    assert rows[FIRST_RECORD].is_reached, "0.25 of the other's"
    assert rows[DECISION].is_reached is False
    assert rows[PROPORTIONAL].is_reached
    assert rows[STOPPED].is_reached is None, "there is no goal"
    text = table(iter(rows.values()))
    assert f"| {DECISION} | 2.50 | 2.00 | ×1.25 | ≤ ×1: missed |" in text


def test_without_a_comparison_only_the_memory_has_a_goal() -> None:
    rows = list(compared([{FIRST_RECORD: 1.0, PROPORTIONAL: 200.0}], ()))
    assert [(row.theirs, row.is_reached) for row in rows] == [(None, None), (None, False)]
    assert "| 1.00 |  |  | ≤ ×0.25 |" in table(iter(rows))
