"""Runs many seeds: `python -m tests.simulation --seeds 50000`, or one to look at: `--show 17`.

With `--replication`, the seeds are of three replicas of a partition instead of a broker, with
`--quorum` of the voters and observers of the metadata quorum, with `--cluster` of whole clusters,
with `--tiered` of clusters whose topics are tiered.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.simulation.campaign import Campaign, Simulate
from tests.simulation.cluster.shrinking import shrunk
from tests.simulation.cluster.simulation import simulate as simulate_cluster
from tests.simulation.quorum.simulation import simulate as simulate_quorum
from tests.simulation.replication.simulation import simulate as simulate_replication
from tests.simulation.simulation import Result, simulate
from tests.simulation.tiered.simulation import simulate as simulate_tiered


def main() -> int:
    """0 when every seed held."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--failures", type=int, default=5, help="stop after so many failing seeds")
    parser.add_argument("--show", type=int, metavar="SEED", help="run one seed and print its trace")
    parser.add_argument("--replication", action="store_true", help="simulate three replicas")
    parser.add_argument("--quorum", action="store_true", help="simulate a quorum of controllers")
    parser.add_argument("--cluster", action="store_true", help="simulate a cluster of whole nodes")
    parser.add_argument("--tiered", action="store_true", help="simulate a cluster with a store")
    parser.add_argument(
        "--shrink", type=int, metavar="SEED", help="leave out faults of a failing cluster seed"
    )
    parser.add_argument(
        "--without",
        default="",
        metavar="N,N,...",
        help="with --cluster or --tiered and --show: without these faults",
    )
    options = parser.parse_args()
    if options.shrink is not None:
        return _shrink(options.shrink)
    chosen, option = simulate, ""
    if options.replication:
        chosen, option = simulate_replication, " --replication"
    elif options.quorum:
        chosen, option = simulate_quorum, " --quorum"
    elif options.cluster:
        left_out = [int(number) for number in options.without.split(",") if number]
        chosen, option = partial(simulate_cluster, left_out=left_out), " --cluster"
    elif options.tiered:
        left_out = [int(number) for number in options.without.split(",") if number]
        chosen, option = partial(simulate_tiered, left_out=left_out), " --tiered"
    if options.show is not None:
        return _show(chosen(options.show, keeps_trace=True))
    return _run(options, chosen, option)


def _run(options: argparse.Namespace, chosen: Simulate, option: str) -> int:
    console = Console()
    campaign = Campaign(
        range(options.first, options.first + options.seeds), options.processes, chosen
    )
    began = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("seeds", total=options.seeds)
        for result in campaign.results():
            progress.advance(task)
            if result.violations:
                console.print(
                    f"[red]seed {result.seed}[/red]: {result.violations[0]}", highlight=False
                )
            if len(campaign.failed) >= options.failures:
                break
    console.print(f"{campaign.summary()} in {time.monotonic() - began:.0f} s", highlight=False)
    if campaign.failed:
        console.print(
            f"failing seeds: {sorted(campaign.failed)}; look at one with"
            f" python -m tests.simulation{option} --show SEED",
            highlight=False,
        )
    return 1 if campaign.failed else 0


def _shrink(seed: int) -> int:
    left_out = shrunk(seed, print)
    if left_out is None:
        print(f"seed {seed} does not fail")
        return 0
    without = ",".join(map(str, sorted(left_out)))
    option = f" --without {without}" if without else ""
    print(f"look at it with python -m tests.simulation --cluster --show {seed}{option}")
    return 1


def _show(result: Result) -> int:
    for line in result.trace or ():
        print(line)
    for violation in result.violations:
        print(violation)
    print(f"seed {result.seed}: {len(result.violations)} violations, digest {result.digest}")
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
