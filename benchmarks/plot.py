"""The plot: how many times better or worse each case is, with the spread of the runs."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

from benchmarks.measure import SMALLER_IS_BETTER
from benchmarks.report import Report, times

_BETTER, _WORSE = "#2a7f62", "#b5523b"


def draw(report: Report, path: Path) -> None:
    """One bar a case, on a logarithmic scale; right of 1 is better."""
    bars = []
    for case, result in zip(report.cases, report.results, strict=True):
        ratio = times(report, result, case.chart) if case.chart else None
        if case.chart is None or not ratio:
            continue
        runs = [mine / other for mine, other in zip(
            *(result.values(peer, case.chart) for peer in report.peers), strict=False) if other]
        if case.chart in SMALLER_IS_BETTER:
            ratio, runs = 1 / ratio, [1 / run for run in runs if run]
        bars.append((f"{case.name} [{case.chart}]", ratio, min(runs), max(runs)))
    bars.reverse()
    figure, axes = pyplot.subplots(figsize=(10, 1.2 + 0.28 * len(bars)))
    for at, (_, ratio, low, high) in enumerate(bars):
        axes.barh(at, ratio - 1, left=1, color=_BETTER if ratio >= 1 else _WORSE)
        axes.plot((low, high), (at, at), color="black", linewidth=1)
        axes.annotate(f"{ratio:.2g}", (max(ratio, high, 1), at), xytext=(4, -3),
                      textcoords="offset points", fontsize=8)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(bars)), [name for name, *_ in bars], fontsize=8)
    axes.set_xlabel(f"times better than {report.peers[1]} (line: range of the runs)")
    axes.set_title(f"{report.peers[0]} and {report.peers[1]} in turn, "
                   f"{report.machine['cores']} cores, {report.machine['processor']}", fontsize=10)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
