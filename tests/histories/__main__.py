"""`python -m tests.histories --operations 5000000 --seed 1`: real processes, killed and paused."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.histories.real_run import Run


def main() -> int:
    """0 when there is no violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--operations", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    console = Console()
    began = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with (
        tempfile.TemporaryDirectory(prefix="wirekafka-histories-") as directory,
        Progress(*columns, console=console) as progress,
    ):
        task = progress.add_task("operations", total=options.operations)
        run = Run(Path(directory), options.operations, options.seed)
        stage = run.run(lambda count: progress.update(task, completed=count))
    for violation in run.violations[:20]:
        console.print(f"[red]{violation}[/red]", highlight=False)
    console.print(
        f"{stage.history.count():,} operations, {run.kills} kills, {run.pauses} pauses,"
        f" {len(run.violations)} violations in {time.monotonic() - began:.0f} s",
        highlight=False,
    )
    return 1 if run.violations else 0


if __name__ == "__main__":
    sys.exit(main())
