"""The plot: how many times better or worse each case is, with the spread of the runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.ticker import ScalarFormatter

from benchmarks.measure import CPU_PER_MB, CPU_PER_REQUEST, SMALLER_IS_BETTER
from benchmarks.report import Report, times
from benchmarks.run import Result

_BETTER, _WORSE = "#2a7f62", "#b5523b"


class Bar(NamedTuple):
    """How many times better the medians are, and the worst and best pair of runs."""

    ratio: float
    low: float
    high: float


def draw(report: Report, path: Path) -> None:
    """A row for each case: what its users see, and what it costs the broker."""
    rows = [
        (case, result)
        for case, result in zip(report.cases, report.results, strict=True)
        if case.chart is not None
    ]
    rows.reverse()
    figure, (seen, cost) = pyplot.subplots(
        1, 2, sharey=True, figsize=(13, 1.4 + 0.28 * len(rows)), width_ratios=(3, 2)
    )
    for at, (case, result) in enumerate(rows):
        _draw_bar(seen, at, _bar(report, result, case.chart or ""))
        cpu = next(
            (metric for metric in (CPU_PER_REQUEST, CPU_PER_MB) if metric in result.metrics()), ""
        )
        _draw_bar(cost, at, _bar(report, result, cpu))
    labels = [f"{case.name} [{case.chart}]" for case, _ in rows]
    seen.set_yticks(range(len(rows)), labels, fontsize=8)
    for axes, title in (
        (seen, "rate, latency or memory, as named"),
        (cost, "broker CPU for the same work"),
    ):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel(
            f"times better than {report.peers[1]} (line: range of the runs)", fontsize=8
        )
    figure.suptitle(
        f"{report.peers[0]} and {report.peers[1]} in turn, "
        f"{report.machine['cores']} cores, {report.machine['processor']}",
        fontsize=10,
    )
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def _bar(report: Report, result: Result, metric: str) -> Bar | None:
    ratio = times(report, result, metric)
    ours, theirs = (result.values(peer, metric) for peer in report.peers)
    runs = [mine / other for mine, other in zip(ours, theirs, strict=False) if mine and other]
    if not ratio or not runs:
        return None
    if metric in SMALLER_IS_BETTER:
        return Bar(1 / ratio, 1 / max(runs), 1 / min(runs))
    return Bar(ratio, min(runs), max(runs))


def _draw_bar(axes: Any, at: int, bar: Bar | None) -> None:
    if bar is None:
        return
    axes.barh(at, bar.ratio - 1, left=1, color=_BETTER if bar.ratio >= 1 else _WORSE)
    axes.plot((bar.low, bar.high), (at, at), color="black", linewidth=1)
    axes.annotate(
        f"{bar.ratio:.2g}",
        (max(bar.ratio, bar.high, 1), at),
        xytext=(4, -3),
        textcoords="offset points",
        fontsize=8,
    )
