"""Clusters of three combined nodes beside Apache Kafka's: `python -m benchmarks.clusters`.

    python -m benchmarks.clusters --rounds 5                 # starts, memory, failovers, stops
    python -m benchmarks.clusters --partitions 10000 --rounds 1
    python -m benchmarks.clusters --alone                    # no comparison

wirekafka and Apache Kafka take turns; medians are compared. Apache Kafka's directories are
formatted before, and its JVM has the options of its start script. In each round, a new cluster is
started until a record is acknowledged by all three replicas, works for a while, loses its active
controller by SIGKILL until a survivor has created a topic, gets it back, and is stopped with
SIGTERM to all nodes at once, until the last has ended.

With `--partitions`, topics of at most 5,000 partitions with three replicas are created, until each
of the nodes has all directories and knows all leaders. Then a broker that leads a third, and is not
the active controller, is killed, until a record is acknowledged in each partition that it led; that
includes its session, broker.session.timeout.ms = 9 s in both.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.cluster_requests import (
    LIMIT_S,
    cpu_s,
    create,
    leaders,
    processes,
    produced_to,
    until,
)
from benchmarks.driver import ALL, Connection, batch_of, check_produced, produce_frame
from benchmarks.interruption import until_interrupted
from benchmarks.peers import START_SCRIPT_JVM
from compat_tests.cluster import HOST, KAFKA, WIREKAFKA, Cluster, Node, Shape
from compat_tests.quorums import await_leader

Figures = dict[str, float]

FIRST_RECORD = "start to first acknowledged record, s"
PROPORTIONAL = "memory of three nodes, PSS, MiB"
RESIDENT = "memory of three nodes, sum of RSS, MiB"
WORKED = "the same after some work, PSS, MiB"
DECISION = "kill -9 of the active controller to the next decision, s"
STOPPED = "SIGTERM to all until the last has ended, s"
CREATED = "created, s"
CREATE_CPU = "created, CPU s of all nodes"
FAILED_OVER = "kill -9 of a broker to its leaderships in service elsewhere, s"
FAIL_OVER_CPU = "the same, CPU s of the survivors"

GOALS: Mapping[str, float] = {FIRST_RECORD: 0.25, DECISION: 1, CREATED: 1, FAILED_OVER: 1}
"""The largest wanted ratio to Apache Kafka's median."""
MEMORY_GOAL_MIB = 180

_TOPIC, _MANY = "first", "many"
_WORK_S = 3.0
_TOPIC_SIZE = 5_000
"""Apache Kafka refuses more than 10,000 records in one request."""


class Row(NamedTuple):
    """The medians of one figure."""

    name: str
    ours: float
    theirs: float | None
    goal: float | None
    is_reached: bool | None


def main() -> int:
    arguments = _parser().parse_args()
    # An installed package has its bytecode; a checkout that may not write it has not.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return until_interrupted(lambda: _measure(arguments))


def _measure(arguments: argparse.Namespace) -> int:
    engines = [WIREKAFKA] if arguments.alone else [WIREKAFKA, KAFKA]
    found: dict[str, list[Figures]] = {engine: [] for engine in engines}
    for number in range(arguments.rounds):
        for engine in engines:
            with tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch:
                figures = one_round(engine, Path(scratch), arguments.partitions)
            found[engine].append(figures)
            load = os.getloadavg()[0]
            print(f"round {number + 1}, {engine}, load {load:.1f}:", flush=True)
            for name, value in figures.items():
                print(f"  {name}: {value:.2f}", flush=True)
    print(table(compared(found[WIREKAFKA], found.get(KAFKA, ()))))
    return 0


def compared(ours: Sequence[Figures], theirs: Sequence[Figures]) -> Iterator[Row]:
    """The medians of each figure, and whether its goal is reached."""
    for name in ours[0]:
        own = median(each[name] for each in ours)
        other = median(each[name] for each in theirs) if theirs else None
        goal, is_reached = GOALS.get(name), None
        if goal is not None and other is not None:
            is_reached = own <= goal * other
        elif name in (PROPORTIONAL, WORKED):
            goal, is_reached = None, own < MEMORY_GOAL_MIB
        yield Row(name, own, other, goal, is_reached)


def table(rows: Iterator[Row]) -> str:
    """A Markdown table of the medians."""
    lines = ["| | wirekafka | Apache Kafka | ratio | goal |", "|---|---|---|---|---|"]
    for row in rows:
        theirs = "" if row.theirs is None else f"{row.theirs:.2f}"
        ratio = "" if not row.theirs else f"×{row.ours / row.theirs:.2f}"
        goal = "" if row.goal is None else f"≤ ×{row.goal:g}"
        if row.name in (PROPORTIONAL, WORKED):
            goal = f"< {MEMORY_GOAL_MIB}"
        reached = {True: ": reached", False: ": missed", None: ""}[row.is_reached]
        lines.append(f"| {row.name} | {row.ours:.2f} | {theirs} | {ratio} | {goal}{reached} |")
    return "\n".join(lines)


def one_round(engine: str, scratch: Path, partitions: int) -> Figures:
    """The figures of one new cluster."""
    shape = Shape(brokers=(engine,) * 3, controllers=3, jvm=START_SCRIPT_JVM)
    with Cluster.laid_out(shape, scratch) as cluster:
        begun = time.perf_counter()
        cluster.spawn(*cluster.nodes)
        _first_record(cluster)
        figures = {FIRST_RECORD: time.perf_counter() - begun}
        if partitions:
            return _with_partitions(cluster, partitions)
        time.sleep(1)
        figures |= {PROPORTIONAL: _memory_mib(cluster), RESIDENT: _resident_mib(cluster)}
        _work(cluster)
        figures[WORKED] = _memory_mib(cluster)
        figures[DECISION] = _next_decision(cluster)
        cluster.start(*(id for id, node in cluster.nodes.items() if not node.is_running))
        figures[STOPPED] = _stopped_together(cluster)
    return figures


# Each figure.


def _first_record(cluster: Cluster) -> None:
    """Return when all three nodes have a record that was just sent."""
    until(lambda: create(cluster.nodes[1], _TOPIC, 1, 3))
    until(lambda: produced_to(cluster, [(_TOPIC, 0)]))


def _work(cluster: Cluster) -> None:
    """Produce to the topic for a while, one request in flight, acks=all."""
    leader = cluster.nodes[leaders(cluster.nodes[1], [_TOPIC])[_TOPIC, 0]]
    frame = produce_frame(_TOPIC, batch_of(10, 200), ALL)
    deadline = time.perf_counter() + _WORK_S
    with closing(Connection(HOST, leader.port)) as connection:
        while time.perf_counter() < deadline:
            check_produced(connection, frame)


def _next_decision(cluster: Cluster) -> float:
    """Seconds from the end of the active controller to a topic that was created after it."""
    active = await_leader(cluster).leader
    survivors = [node for node in cluster.nodes.values() if node.id != active]
    with ThreadPoolExecutor(len(survivors)) as pool:
        cluster.kill(active)
        begun = time.perf_counter()

        def decided(node: Node) -> float:
            until(lambda: create(node, f"after-{node.id}", 1, 1))
            return time.perf_counter() - begun

        done, _ = wait([pool.submit(decided, node) for node in survivors], LIMIT_S, FIRST_COMPLETED)
        return min(each.result() for each in done)


def _stopped_together(cluster: Cluster) -> float:
    begun = time.perf_counter()
    cluster.stop(*cluster.nodes)
    return time.perf_counter() - begun


def _with_partitions(cluster: Cluster, count: int) -> Figures:
    nodes = list(cluster.nodes.values())
    sizes = {
        f"{_MANY}-{first}": min(_TOPIC_SIZE, count - first)
        for first in range(0, count, _TOPIC_SIZE)
    }
    topics = list(sizes)
    cpu, begun = cpu_s(nodes), time.perf_counter()
    for topic, size in sizes.items():
        until(lambda topic=topic, size=size: create(nodes[0], topic, size, 3))
    until(lambda: all(_directories(node) == count for node in nodes))
    until(lambda: all(len(leaders(node, topics)) == count for node in nodes))
    figures = {
        CREATED: time.perf_counter() - begun,
        CREATE_CPU: cpu_s(nodes) - cpu,
        PROPORTIONAL: _memory_mib(cluster),
    }
    active = await_leader(cluster).leader
    failing = next(node.id for node in nodes if node.id != active)
    led = [key for key, id in leaders(nodes[0], topics).items() if id == failing]
    survivors = [node for node in nodes if node.id != failing]
    cpu = cpu_s(survivors)
    cluster.kill(failing)
    begun = time.perf_counter()
    until(lambda: failing not in set(leaders(survivors[0], topics).values()))
    until(lambda: produced_to(cluster, led))
    figures[FAILED_OVER] = time.perf_counter() - begun
    figures[FAIL_OVER_CPU] = cpu_s(survivors) - cpu
    return figures


def _directories(node: Node) -> int:
    return sum(1 for entry in node.data.iterdir() if entry.name.startswith(f"{_MANY}-"))


def _memory_mib(cluster: Cluster) -> float:
    """Proportional: pages that the nodes share, as those of the interpreter, count once."""
    every = processes(list(cluster.nodes.values()))
    return float(sum(process.memory_full_info().pss for process in every)) / (1 << 20)


def _resident_mib(cluster: Cluster) -> float:
    every = processes(list(cluster.nodes.values()))
    return float(sum(process.memory_info().rss for process in every)) / (1 << 20)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.clusters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="how many turns each has (default: 3)"
    )
    parser.add_argument("--partitions", type=int, default=0, help="how many; 0: the other figures")
    parser.add_argument("--alone", action="store_true", help="compare with nothing")
    parser.add_argument("--scratch", type=Path, help="where the data is kept meanwhile")
    return parser


if __name__ == "__main__":
    sys.exit(main())
