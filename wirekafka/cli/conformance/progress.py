"""How far a run is: a bar on a terminal, or else a line every few seconds, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from wirekafka.cli.output import note
from wirekafka.conformance.run import CaseResult

_EVERY_S = 5.0


@contextmanager
def progress(total: int) -> Iterator[Callable[[CaseResult], None]]:
    """Yields a function that is called with each result."""
    if sys.stderr.isatty():
        with _bar(total) as advance:
            yield advance
    else:
        yield _Lines(total)


class _Lines:
    def __init__(self, total: int) -> None:
        self._total, self._done, self._different = total, 0, 0
        self._next = time.monotonic() + _EVERY_S

    def __call__(self, result: CaseResult) -> None:
        self._done += 1
        self._different += result.outcome == "different"
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_S
            note(f"{self._done} of {self._total} cases, {self._different} different")


@contextmanager
def _bar(total: int) -> Iterator[Callable[[CaseResult], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    parts = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    with Progress(*parts, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("cases", total=total)
        different = 0

        def advance(result: CaseResult) -> None:
            nonlocal different
            different += result.outcome == "different"
            bar.update(task, advance=1, description=f"cases, {different} different")

        yield advance
