"""Attacks nodes with many seeds: `python -m tests.attacks --seeds 50`, or one: `--show 17`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.attacks.campaign import Plan, Report, plans, run


def main() -> int:
    """0 when no attack succeeded."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--requests", type=int, default=40, help="for each version of an API")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int, metavar="SEED", help="run one seed")
    parser.add_argument("--keys", default="", metavar="N,N,...", help="by these APIs only")
    options = parser.parse_args()
    first, count = (options.first, options.seeds) if options.show is None else (options.show, 1)
    wanted = [
        plan for seed in range(first, first + count) for plan in plans(seed, options.requests)
    ]
    keys = frozenset(int(key) for key in options.keys.split(",") if key) or None
    return _run(wanted, keys, options.processes)


def _run(wanted: list[Plan], keys: frozenset[int] | None, processes: int) -> int:
    console = Console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    sent = failed = 0
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("attackers", total=len(wanted))
        for report in _reports(wanted, keys, processes):
            progress.advance(task)
            sent += report.sent
            failed += bool(report.violations)
            for violation in report.violations:
                console.print(violation, style="red", highlight=False, markup=False)
    console.print(f"{sent} requests of {len(wanted)} attackers, {failed} of them with success")
    return 1 if failed else 0


def _reports(wanted: list[Plan], keys: frozenset[int] | None, processes: int) -> Iterator[Report]:
    with ProcessPoolExecutor(processes, max_tasks_per_child=1) as pool:
        for done in as_completed([pool.submit(run, plan, keys) for plan in wanted]):
            yield done.result()


if __name__ == "__main__":
    sys.exit(main())
