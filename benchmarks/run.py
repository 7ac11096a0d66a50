"""Runs the cases, alternating between freshly started brokers, and keeps all figures."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.cases import Case, Plan
from benchmarks.measure import RESIDENT, SMALLER_IS_BETTER, Metrics
from benchmarks.peers import Peer, Target

Progress = Callable[[str], None]

_MUCH = 1.1


@dataclass(slots=True)
class Result:
    """Every run of one case, by peer, in order; and errors."""

    case: str
    runs: dict[str, list[Metrics]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    """The duration of the case with its warm-up; 0 if it was not recorded."""
    load: float = 0.0
    """The machine's load over the last minute, as the case ended."""
    commit: str = ""
    """The commit of the sources that were measured."""

    def metrics(self) -> list[str]:
        """The names of the figures, in the order they were given."""
        return list(
            dict.fromkeys(name for runs in self.runs.values() for run in runs for name in run)
        )

    def median(self, peer: str, metric: str) -> float | None:
        values = self.values(peer, metric)
        return median(values) if values else None

    def values(self, peer: str, metric: str) -> list[float]:
        return [run[metric] for run in self.runs.get(peer, ()) if metric in run]


class Runner:
    """Runs one case after the other against all peers; data goes to `scratch`."""

    def __init__(
        self, peers: Sequence[Peer], plan: Plan, scratch: Path | None, report_progress: Progress
    ):
        self._peers = peers
        self._plan = plan
        self._scratch = scratch
        self._report_progress = report_progress

    def run(self, case: Case) -> Result:
        """Run A B A B ...; a peer that fails is skipped for the rest of the case."""
        began = time.monotonic()
        result = Result(case.name, {peer.name: [] for peer in self._peers})
        with ExitStack() as stack:
            targets = (
                self._begin(case, result) if case.is_fresh else self._warm(case, result, stack)
            )
            turns = self._plan.alternations
            for turn in range(min(turns, case.most_turns or turns)):
                for peer in self._peers:
                    if peer.name in result.errors:
                        continue
                    self._report_progress(f"{case.name}: {peer.name}, {turn + 1}")
                    self._measure(case, peer, targets.get(peer.name), result)
        result.seconds, result.load = round(time.monotonic() - began), os.getloadavg()[0]
        return result

    def _begin(self, case: Case, result: Result) -> dict[str, Target]:
        """Start each once, so that code and jars are compiled, cached and in memory."""
        for peer in self._peers:
            self._report_progress(f"{case.name}: starting {peer.name} once")
            try:
                with _started(peer, self._scratch, case):
                    pass
            except Exception as error:
                result.errors[peer.name] = _text(error)
        return {}

    def _warm(self, case: Case, result: Result, stack: ExitStack) -> dict[str, Target]:
        targets = {}
        for peer in self._peers:
            self._report_progress(f"{case.name}: warming up {peer.name}")
            try:
                target = stack.enter_context(_started(peer, self._scratch, case))
                self._until_steady(case, target)
                targets[peer.name] = target
            except Exception as error:
                result.errors[peer.name] = _text(error)
        return targets

    def _until_steady(self, case: Case, target: Target) -> None:
        """Run a case until it gets no faster, since a JVM compiles frequently run code."""
        before = None
        for _ in range(min(self._plan.most_warm_ups, case.most_warm_ups)):
            figure = case.measure(target, self._plan.warm_up_s).get(case.chart or "")
            if figure is None or (before and not _is_much_better(case.chart, figure / before)):
                break
            before = figure

    def _measure(self, case: Case, peer: Peer, target: Target | None, result: Result) -> None:
        seconds = max(self._plan.seconds, case.least_s)
        try:
            if target is not None:
                metrics = case.measure(target, seconds)
                memory = target.resident_mib()
            else:
                with _started(peer, self._scratch, case) as fresh:
                    metrics = case.measure(fresh, seconds)
                    memory = fresh.resident_mib()
        except Exception as error:
            result.errors[peer.name] = _text(error)
            return
        result.runs[peer.name].append(metrics | ({RESIDENT: memory} if memory else {}))


@contextmanager
def _started(peer: Peer, scratch: Path | None, case: Case) -> Iterator[Target]:
    directory = Path(tempfile.mkdtemp(prefix="benchmark-", dir=scratch))
    try:
        with peer.start(directory, case.security) as target:
            yield target
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _is_much_better(metric: str | None, ratio: float) -> bool:
    return ratio < 1 / _MUCH if metric in SMALLER_IS_BETTER else ratio > _MUCH


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
