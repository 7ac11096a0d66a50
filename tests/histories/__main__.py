"""Real processes, killed and paused: `python -m tests.histories --operations 5000000 --seed 1`.

`--kills 100` kills the broker with `kill -9` 100 times and does nothing else; with `--set
log.flush.interval.messages=1` the broker syncs records before it acknowledges them.

The clients run in a process of their own: librdkafka (2.16.0) can end it with a failed assertion
(`txn_req_cnt > 0`), for instance when a producer is destroyed while its transaction begins. The
history is lost then, and the run starts again.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.histories.real_run import Plan, Run

_TRIES = 5


def main(words: Sequence[str]) -> int:
    """Returns 0 if there is no violation."""
    options = _parser().parse_args(words)
    if options.directory is not None:
        return _campaign(options)
    for _ in range(_TRIES):
        status = _in_a_process_of_its_own(words)
        if status != -signal.SIGABRT:
            break
        print("librdkafka has aborted, and its history is lost: starting again", flush=True)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--operations", type=int, help="the number of operations (50,000)")
    parser.add_argument("--kills", type=int, help="the number of kills, without pauses")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="a setting of the broker's",
    )
    parser.add_argument("--transaction-timeout-ms", type=int, default=30_000)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    return parser


def _in_a_process_of_its_own(words: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="wirekafka-histories-") as directory:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.histories", *words, "--directory", directory],
            start_new_session=True,
        )
        try:
            return process.wait()
        finally:
            with suppress(ProcessLookupError):  # The broker may outlive aborted clients.
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _campaign(options: argparse.Namespace) -> int:
    plan = Plan(
        seed=options.seed,
        operations=options.operations or (50_000 if options.kills is None else 0),
        kills=options.kills,
        settings=options.set,
        transaction_timeout_ms=options.transaction_timeout_ms,
    )
    console = Console()
    began = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        counted, total = (
            ("operations", plan.operations) if plan.kills is None else ("kills", plan.kills)
        )
        task = progress.add_task(counted, total=total)
        run = Run(options.directory, plan)
        stage = run.run(lambda count: progress.update(task, completed=count))
    for violation in run.violations[:20]:
        console.print(f"[red]{violation}[/red]", highlight=False)
    print(
        f"{stage.history.count():,} operations, {run.acknowledged:,} acknowledged writes,"
        f" {run.kills} kills, {run.pauses} pauses,"
        f" {len(run.violations)} violations in {time.monotonic() - began:.0f} s"
    )
    return 1 if run.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
