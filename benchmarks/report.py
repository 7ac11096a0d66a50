"""Results as JSON and as a Markdown table."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from benchmarks.cases import CASES, PLANS, Case, Goal, Plan, Suite
from benchmarks.measure import RATIO, WITH_IDLE
from benchmarks.run import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One whole run. Ours is the first of the peers."""

    machine: dict[str, str]
    plan: Plan
    peers: Sequence[str]
    seconds: float
    """The total duration, possibly the sum of several runs."""
    cases: Sequence[Case]
    results: Sequence[Result]


def load(path: Path) -> Report:
    """The report stored in a .json file, without cases that no longer exist."""
    stored = json.loads(path.read_text())
    found = {result["case"]: Result(**result) for result in stored["results"]}
    cases = [case for case in CASES if case.name in found]
    plan = replace(
        PLANS[Suite.USUAL], alternations=stored["alternations"], seconds=stored["seconds_per_run"]
    )
    return Report(
        machine=stored["machine"],
        plan=plan,
        peers=stored["peers"],
        seconds=stored["seconds"],
        cases=cases,
        results=[found[case.name] for case in cases],
    )


def combined(report: Report, path: Path) -> Report:
    """The report, with what `path` (.json) has of other cases between the same peers."""
    if not path.exists() or (earlier := load(path)).peers != list(report.peers):
        return report
    found = {result.case: result for result in (*earlier.results, *report.results)}
    cases = [case for case in CASES if case.name in found]
    results = [found[case.name] for case in cases]
    commits = dict.fromkeys(result.commit for result in results if result.commit)
    return replace(
        earlier,
        seconds=sum(result.seconds for result in results),
        cases=cases,
        results=results,
        machine=report.machine | ({"commit": ", ".join(commits)} if commits else {}),
    )


def write(report: Report, directory: Path, name: str) -> None:
    """Write `name`.json and `name`.md; `plot.draw` makes `name`.svg."""
    directory.mkdir(parents=True, exist_ok=True)
    unfinished = directory / f"{name}.json.unfinished"
    unfinished.write_text(
        json.dumps(
            {
                "machine": report.machine,
                "alternations": report.plan.alternations,
                "seconds_per_run": report.plan.seconds,
                "seconds": round(report.seconds),
                "peers": list(report.peers),
                "results": [asdict(result) for result in report.results],
            },
            indent=1,
        )
        + "\n"
    )
    unfinished.replace(directory / f"{name}.json")
    (directory / f"{name}.md").write_text("\n".join(_markdown(report, name)) + "\n")


def summary(case: Case, result: Result) -> Iterator[str]:
    """A few lines for the terminal."""
    yield f"[bold]{case.name}[/bold]: {result.seconds:.0f} s"
    ours, *others = result.runs
    for metric in result.metrics():
        cells = [f"{peer} {_cell(result, peer, metric)}" for peer in (ours, *others)]
        times = _times(result, ours, others[0], metric) if others else None
        cells.append(f"× {times:.2f}" if times else "")
        cells.extend(
            _verdict(goal, result, (ours, *others)) for goal in case.goals if goal.metric == metric
        )
        yield f"  {metric:26} {'   '.join(cells)}"
    for peer, error in result.errors.items():
        yield f"  [red]{peer}: {error}"


def machine() -> dict[str, str]:
    """A description of the machine."""
    found = {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": platform.platform(),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') >> 30} GiB",
        "python": platform.python_version(),
    }
    for package in ("uvloop", "confluent-kafka"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    try:
        java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
        found["java"] = java.stderr.splitlines()[0]
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parent,
        )
        found["commit"] = commit.stdout.strip()
    except (OSError, IndexError):
        pass
    return found


def times(report: Report, result: Result, metric: str) -> float | None:
    """Our median over the other's."""
    return _times(result, report.peers[0], report.peers[1], metric)


def _markdown(report: Report, name: str) -> Iterator[str]:
    yield f"# {' and '.join(report.peers)}, in turn"
    yield ""
    yield "; ".join(f"{key} {value}" for key, value in report.machine.items()) + "."
    yield (
        f"Medians of up to {report.plan.alternations} runs (fewer where one takes long) of"
        f" {report.plan.seconds:g} s or more, and their range; × is the first over the second."
        f" Absolute goals are judged by the best run, ratios by medians. Load is the machine's,"
        f" over the minute in which the case ended: what runs by itself comes to one or two."
        + (f" The whole took {report.seconds / 60:.0f} minutes." if report.seconds else "")
    )
    if len(report.peers) > 1:
        yield ""
        yield f"![Ratios]({name}.svg)"
    yield ""
    yield "| Goal of | Figure | | |"
    yield "|---|---|---|---|"
    for case, result in zip(report.cases, report.results, strict=True):
        yield from _goals(case, result, report.peers)
    yield ""
    yield f"| Case | Figure | {' | '.join(report.peers)} | × | Goal | Load | Runs | Took |"
    yield f"|---|---|{'---|' * len(report.peers)}---|---|---|---|---|"
    for case, result in zip(report.cases, report.results, strict=True):
        yield from _rows(case, result, report.peers)


def _goals(case: Case, result: Result, peers: Sequence[str]) -> Iterator[str]:
    for goal in case.goals:
        cell = _cell(result, peers[0], goal.metric)
        ratio = _times(result, peers[0], peers[1], goal.metric) if len(peers) == 2 else None
        yield (
            f"| {case.name} | {goal.metric} | {cell}{f', × {ratio:.2f}' if ratio else ''} |"
            f" {_verdict(goal, result, peers)} |"
        )


def _rows(case: Case, result: Result, peers: Sequence[str]) -> Iterator[str]:
    label = case.name
    load = f"{result.load:.1f}" if result.load else ""
    runs = str(max(map(len, result.runs.values())))
    took = f"{result.seconds:.0f} s" if result.seconds else ""
    for metric in result.metrics():
        cells = [_cell(result, peer, metric) for peer in peers]
        ratio = _times(result, peers[0], peers[1], metric) if len(peers) == 2 else None
        goals = "; ".join(
            _verdict(goal, result, peers) for goal in case.goals if goal.metric == metric
        )
        yield (
            f"| {label} | {metric} | {' | '.join(cells)} |"
            f" {f'{ratio:.2f}' if ratio else ''} | {goals} | {load} | {runs} | {took} |"
        )
        label = load = runs = took = ""
    for peer, error in result.errors.items():
        yield f"| {label} | failed | {peer}: {error} | | | | | | |"


def _verdict(goal: Goal, result: Result, peers: Sequence[str]) -> str:
    values = result.values(peers[0], goal.metric)
    if values and goal.metric in (RATIO, WITH_IDLE):
        values = [median(values)]
    # Absolute bounds are for an idle machine, to which the best run is closest.
    most, least = max(values, default=None), min(values, default=None)
    ratio = _times(result, peers[0], peers[1], goal.metric) if len(peers) > 1 else None
    verdicts = []
    for bound, is_least, reached, sign in (
        (goal.at_least, True, most, "≥ "),
        (goal.at_most, False, least, "≤ "),
        (goal.times_at_least, True, ratio, "≥ ×"),
        (goal.times_at_most, False, ratio, "≤ ×"),
    ):
        if bound is None or reached is None:
            continue
        is_met = reached >= bound if is_least else reached <= bound
        verdicts.append(f"{sign}{bound:.4g} {'reached' if is_met else '**missed**'}")
    return ", ".join(verdicts)


def _times(result: Result, ours: str, theirs: str, metric: str) -> float | None:
    mine, other = result.median(ours, metric), result.median(theirs, metric)
    return mine / other if mine is not None and other else None


def _cell(result: Result, peer: str, metric: str) -> str:
    values = result.values(peer, metric)
    middle = result.median(peer, metric)
    if middle is None:
        return "–"
    return f"{_figure(middle)} ({_figure(min(values))}–{_figure(max(values))})"


def _figure(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return found[1] if found else platform.machine()
