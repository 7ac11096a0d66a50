"""`python -m benchmarks`: compares wirekafka and Apache Kafka, and writes benchmarks/results.

python -m benchmarks --quick
python -m benchmarks --only consume
python -m benchmarks --against kfake=127.0.0.1:9099
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import memory, report
from benchmarks.cases import PLANS, Case, Plan, Suite
from benchmarks.interruption import until_interrupted
from benchmarks.peers import ApacheKafka, Peer, Running, Wirekafka
from benchmarks.run import Result, Runner

RESULTS = Path(__file__).resolve().parent / "results"


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.redraw:
        _write(report.load(arguments.redraw), arguments.redraw.parent, arguments.redraw.stem)
        return 0
    plan = _plan(arguments)
    cases = plan.cases()
    if arguments.alternations:
        cases = [replace(case, most_turns=None) for case in cases]
    if arguments.seconds:
        cases = [replace(case, least_s=0) for case in cases]
    if not cases:
        print(f"no case has {plan.only!r} in its name", file=sys.stderr)
        return 2
    return until_interrupted(lambda: _measure(arguments, plan, cases))


def _measure(arguments: argparse.Namespace, plan: Plan, cases: Sequence[Case]) -> int:
    peers = _peers(arguments)
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description:60}"),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    started = time.monotonic()
    results: list[Result] = []
    name = arguments.name or plan.suite.name.lower()
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=len(cases))
        runner = Runner(
            peers, plan, arguments.scratch, lambda text: progress.update(bar, description=text)
        )
        if not arguments.untouched:
            progress.update(bar, description="touching the memory that is free")
            memory.touch()
        for case in cases:
            result = runner.run(case)
            result.commit = report.machine().get("commit", "")
            results.append(result)
            progress.advance(bar)
            for line in report.summary(case, result):
                console.print(line, highlight=False)
            # After every case, so that an interrupted run keeps its results.
            whole = report.Report(
                machine=report.machine(),
                plan=plan,
                peers=[peer.name for peer in peers],
                seconds=time.monotonic() - started,
                cases=cases[: len(results)],
                results=results,
            )
            if plan.only or len(results) < len(cases):
                whole = report.combined(whole, arguments.output / f"{name}.json")
            _write(whole, arguments.output, name)
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    print(f"{len(results)} cases in {minutes} min {seconds} s: {arguments.output / name}.md")
    return int(any(result.errors for result in results))


def _write(whole: report.Report, directory: Path, name: str) -> None:
    """The results as JSON and as a table, and as a plot where there are two peers."""
    report.write(whole, directory, name)
    if len(whole.peers) > 1:
        from benchmarks import plot  # matplotlib takes its time

        plot.draw(whole, directory / f"{name}.svg")


def _plan(arguments: argparse.Namespace) -> Plan:
    suite = Suite.QUICK if arguments.quick else Suite.FULL if arguments.full else Suite.USUAL
    plan = replace(PLANS[suite], only=arguments.only)
    if arguments.alternations:
        plan = replace(plan, alternations=arguments.alternations)
    if arguments.seconds:
        plan = replace(plan, seconds=arguments.seconds)
    return plan


def _peers(arguments: argparse.Namespace) -> list[Peer]:
    ours: Peer = Running(arguments.ours) if arguments.ours else Wirekafka()
    if arguments.alone:
        return [ours]
    return [ours, Running(arguments.against) if arguments.against else ApacheKafka()]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="the main cases, in four minutes")
    length.add_argument("--full", action="store_true", help="every case, longer and more often")
    parser.add_argument(
        "--only", default="", help="only cases with this in their name; results of others are kept"
    )
    parser.add_argument("--alternations", type=int, help="how often each broker has its turn")
    parser.add_argument("--seconds", type=float, help="how long each run takes")
    parser.add_argument(
        "--against",
        metavar="NAME=HOST:PORT",
        help="compare with this running broker instead of Apache Kafka",
    )
    parser.add_argument(
        "--ours",
        metavar="NAME=HOST:PORT",
        help="compare this running broker instead of a new wirekafka",
    )
    parser.add_argument("--alone", action="store_true", help="measure, but compare with nothing")
    parser.add_argument("--scratch", type=Path, help="where brokers keep their data meanwhile")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where results go")
    parser.add_argument(
        "--redraw",
        type=Path,
        metavar="JSON",
        help="measure nothing; write table and plot of earlier results again",
    )
    parser.add_argument(
        "--untouched", action="store_true", help="do not touch the memory that is free before all"
    )
    parser.add_argument("--name", help="of the results' files (default: the mode's)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
