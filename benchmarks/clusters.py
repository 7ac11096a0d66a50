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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

from benchmarks.driver import (
    ALL,
    CREATE_VERSION,
    PRODUCE_VERSION,
    TOPIC_ALREADY_EXISTS,
    Connection,
    RequestFailed,
    batch_of,
    check_produced,
    produce_frame,
)
from benchmarks.interruption import until_interrupted
from benchmarks.peers import START_SCRIPT_JVM
from compat_tests.cluster import HOST, KAFKA, WIREKAFKA, Cluster, Node, Shape
from compat_tests.quorums import await_leader
from wirekafka.apis.create_topics import CreateTopicsRequest, CreateTopicsResponse
from wirekafka.apis.metadata import MetadataRequest, MetadataResponse
from wirekafka.apis.produce import ProduceRequest, ProduceResponse

Figures = dict[str, float]
Key = tuple[str, int]
"""A partition: topic and index."""

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

_METADATA_VERSION = 9
_TOPIC, _MANY = "first", "many"
_LIMIT_S = 600.0
_LOOK_S = 0.01
_WORK_S = 3.0
_AT_A_TIME = 500
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
    _until(lambda: _create(cluster.nodes[1], _TOPIC, 1, 3))
    _until(lambda: _produced_to(cluster, [(_TOPIC, 0)]))


def _work(cluster: Cluster) -> None:
    """Produce to the topic for a while, one request in flight, acks=all."""
    leader = cluster.nodes[_leaders(cluster.nodes[1], [_TOPIC])[_TOPIC, 0]]
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
            _until(lambda: _create(node, f"after-{node.id}", 1, 1))
            return time.perf_counter() - begun

        done, _ = wait(
            [pool.submit(decided, node) for node in survivors], _LIMIT_S, FIRST_COMPLETED
        )
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
    cpu, begun = _cpu_s(nodes), time.perf_counter()
    for topic, size in sizes.items():
        _until(lambda topic=topic, size=size: _create(nodes[0], topic, size, 3))
    _until(lambda: all(_directories(node) == count for node in nodes))
    _until(lambda: all(len(_leaders(node, topics)) == count for node in nodes))
    figures = {
        CREATED: time.perf_counter() - begun,
        CREATE_CPU: _cpu_s(nodes) - cpu,
        PROPORTIONAL: _memory_mib(cluster),
    }
    active = await_leader(cluster).leader
    failing = next(node.id for node in nodes if node.id != active)
    led = [key for key, id in _leaders(nodes[0], topics).items() if id == failing]
    survivors = [node for node in nodes if node.id != failing]
    cpu = _cpu_s(survivors)
    cluster.kill(failing)
    begun = time.perf_counter()
    _until(lambda: failing not in set(_leaders(survivors[0], topics).values()))
    _until(lambda: _produced_to(cluster, led))
    figures[FAILED_OVER] = time.perf_counter() - begun
    figures[FAIL_OVER_CPU] = _cpu_s(survivors) - cpu
    return figures


# Requests; each is false, or raises OSError or RequestFailed, until it succeeds.


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.perf_counter() + _LIMIT_S
    while True:
        with suppress(OSError, RequestFailed):
            if holds():
                return
        if time.perf_counter() > deadline:
            raise RequestFailed(f"not within {_LIMIT_S:.0f} s")
        time.sleep(_LOOK_S)


def _create(node: Node, name: str, partitions: int, replicas: int) -> bool:
    request = CreateTopicsRequest(
        timeout_ms=60_000,
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=name, num_partitions=partitions, replication_factor=replicas
            )
        ],
    )
    with closing(Connection(HOST, node.port)) as connection:
        response = connection.ask(request, CreateTopicsResponse, CREATE_VERSION)
    return response.topics[0].error_code in (0, TOPIC_ALREADY_EXISTS)


def _leaders(node: Node, topics: Sequence[str]) -> dict[Key, int]:
    """The leader of each partition, as one node knows it; without those that have none."""
    request = MetadataRequest(topics=[MetadataRequest.Topic(name=topic) for topic in topics])
    with closing(Connection(HOST, node.port)) as connection:
        response = connection.ask(request, MetadataResponse, _METADATA_VERSION)
    return {
        (topic.name, each.partition_index): each.leader_id
        for topic in response.topics
        for each in topic.partitions
        if each.leader_id >= 0
    }


def _produced_to(cluster: Cluster, partitions: Sequence[Key]) -> bool:
    """Whether a record is acknowledged in each of the partitions, by all of its replicas."""
    running = next(node for node in cluster.nodes.values() if node.is_running)
    leaders = _leaders(running, sorted({topic for topic, _ in partitions}))
    by_leader: dict[tuple[int, str], list[int]] = {}
    for topic, index in partitions:
        by_leader.setdefault((leaders.get((topic, index), -1), topic), []).append(index)
    return all(
        id in cluster.nodes and _are_acknowledged(cluster.nodes[id], topic, indexes)
        for (id, topic), indexes in by_leader.items()
    )


def _are_acknowledged(leader: Node, topic: str, indexes: Sequence[int]) -> bool:
    records = batch_of(1, 200)
    data = ProduceRequest.TopicProduceData
    with closing(Connection(HOST, leader.port)) as connection:
        for first in range(0, len(indexes), _AT_A_TIME):
            wanted = [
                data.PartitionProduceData(index=index, records=records)
                for index in indexes[first : first + _AT_A_TIME]
            ]
            request = ProduceRequest(
                acks=ALL, timeout_ms=30_000, topic_data=[data(name=topic, partition_data=wanted)]
            )
            response = connection.ask(request, ProduceResponse, PRODUCE_VERSION)
            if any(each.error_code for each in response.responses[0].partition_responses):
                return False
    return True


# The nodes' directories and processes.


def _directories(node: Node) -> int:
    return sum(1 for entry in node.data.iterdir() if entry.name.startswith(f"{_MANY}-"))


def _processes(nodes: Sequence[Node]) -> list[psutil.Process]:
    return [psutil.Process(node.process.pid) for node in nodes if node.process is not None]


def _cpu_s(nodes: Sequence[Node]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in _processes(nodes))


def _memory_mib(cluster: Cluster) -> float:
    """Proportional: pages that the nodes share, as those of the interpreter, count once."""
    processes = _processes(list(cluster.nodes.values()))
    return float(sum(process.memory_full_info().pss for process in processes)) / (1 << 20)


def _resident_mib(cluster: Cluster) -> float:
    processes = _processes(list(cluster.nodes.values()))
    return float(sum(process.memory_info().rss for process in processes)) / (1 << 20)


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
