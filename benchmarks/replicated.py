"""Replicated producing, catching up and failing over, beside Apache Kafka's brokers.

    python -m benchmarks.replicated produce --only "200 B, 1 "
    python -m benchmarks.replicated produce --per-s 300      # latencies at the same rate in both
    python -m benchmarks.replicated catch-up --megabytes 500
    python -m benchmarks.replicated failover --rounds 3
    python -m benchmarks.replicated memory --partitions 2000

Two clusters run side by side and take turns: three brokers of wirekafka and three of Apache Kafka,
each under one controller of Apache Kafka in a process of its own, whose CPU is not counted. Topics
have three replicas, min.insync.replicas is 2, and acks=all; everything else has its default. All
brokers and the client share the cores of the machine, so that a broker's CPU limits the rate of
the whole cluster.

Broker 1 leads every partition, unless the name of a case says that the leaders are spread: so the
CPU of brokers 2 and 3 is that of following. CPU is the user and system time of the brokers'
processes, by the operating system's accounts, for each MB (1e6 bytes of records) produced.
Without `--per-s`, each connection keeps requests of one record in flight, and latencies are those
at the full rate; with it, requests have due times, and each is timed from then to its response.
"""

from __future__ import annotations

import argparse
import os
import selectors
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL, SIGTERM
from statistics import median

from benchmarks.cluster_requests import (
    assign,
    cpu_s,
    create,
    in_sync,
    leaders,
    produced_to,
    resident_mib,
    until,
)
from benchmarks.driver import ALL, Connection, RequestFailed, batch_of, produce_frame
from benchmarks.interruption import until_interrupted
from benchmarks.measure import P50, P99, latencies
from benchmarks.peers import START_SCRIPT_JVM
from compat_tests.cluster import HOST, KAFKA, WIREKAFKA, Cluster, Node, Shape

Figures = dict[str, float]

RATE, MB_RATE = "requests/s", "MB/s"
FOLLOWER_CPU = "CPU of a follower, ms/MB"
LEADER_CPU = "CPU of the leader, ms/MB"
BROKERS_CPU = "CPU of all brokers, ms/MB"
CAUGHT_UP = "an empty replica catches up, MB/s"
CAUGHT_UP_CPU = "CPU of the replica that catches up, ms/MB"
KILLED = "without a leader after kill -9, s"
STOPPED = "without a leader after a clean stop, ms"
RESIDENT = "resident memory of a broker, MiB"

AT_LEAST: Mapping[str, float] = {RATE: 1, CAUGHT_UP: 1}
AT_MOST: Mapping[str, float] = {P99: 1, FOLLOWER_CPU: 0.6, KILLED: 1, STOPPED: 1}
"""The smallest and the largest wanted ratio to Apache Kafka's median."""
MEMORY_GOAL_MIB = 120

LEADING, FOLLOWING = 1, (2, 3)
_SETTINGS = {
    "min.insync.replicas": "2",
    # Leaders stay where a case has put them.
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "50",
    "transaction.state.log.num.partitions": "50",
}
_JVM_WARM_UP_S = 8.0
_FAILOVER_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Case:
    """Produce requests of one record each."""

    record_bytes: int
    partitions: int
    connections: int
    depth: int
    """The number of requests in flight on a connection."""
    is_spread: bool = False

    @property
    def name(self) -> str:
        size = f"{self.record_bytes // 1000} KB" if self.record_bytes >= 1000 else "200 B"
        count = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        return f"{size}, {count}{', leaders spread' if self.is_spread else ''}"

    @property
    def topic(self) -> str:
        return f"{self.record_bytes}-{self.partitions}{'-spread' if self.is_spread else ''}"


CASES = [
    Case(size, partitions, connections, depth, is_spread)
    for size in (200, 10_000)
    for partitions, connections, depth, is_spread in (
        (1, 4, 5, False),
        (50, 50, 1, False),
        (50, 50, 1, True),
    )
]


class Stream:
    """A connection that repeats one request, and times each response."""

    def __init__(self, node: Node, topic: str, partition: int, record_bytes: int):
        self._connection = Connection(HOST, node.port)
        self._frame = produce_frame(topic, batch_of(1, record_bytes), ALL, partition)
        # Correlation id, tags, one topic, its name, one partition, its index.
        self._error_at = 4 + 1 + 1 + 1 + len(topic) + 1 + 4
        self._due: deque[float] = deque()
        self._received = bytearray()

    def fileno(self) -> int:
        return self._connection.fileno()

    def close(self) -> None:
        self._connection.close()

    @property
    def in_flight(self) -> int:
        return len(self._due)

    def send(self, due: Sequence[float]) -> None:
        """Send so many requests, with the times at which they were due."""
        self._due.extend(due)
        self._connection.send(self._frame * len(due))

    def receive(self) -> list[float]:
        """Read once; the seconds of each request that was answered. Raises RequestFailed."""
        data = self._connection.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the broker hung up")
        received, now, found, at = self._received, time.perf_counter(), [], 0
        received += data
        while len(received) - at >= 4:
            end = at + 4 + int.from_bytes(received[at : at + 4], "big")
            if end > len(received):
                break
            error_at = at + 4 + self._error_at
            error = int.from_bytes(received[error_at : error_at + 2], "big", signed=True)
            if error:
                raise RequestFailed(f"Produce: error {error}")
            found.append(now - self._due.popleft())
            at = end
        del received[:at]
        return found


class Load:
    """The connections of a case."""

    def __init__(self, cluster: Cluster, case: Case):
        self._case = case
        node = cluster.nodes[LEADING]
        brokers = [each.id for each in cluster.brokers()]
        keys = [(case.topic, index) for index in range(case.partitions)]
        placed = None if case.is_spread else [brokers] * case.partitions
        until(lambda: create(node, case.topic, case.partitions, 3, placed))
        until(lambda: produced_to(cluster, keys))
        led_by = leaders(node, [case.topic])
        self._streams = [
            Stream(cluster.nodes[led_by[key]], *key, case.record_bytes)
            for key in (keys[number % case.partitions] for number in range(case.connections))
        ]
        self._selector = selectors.DefaultSelector()
        for stream in self._streams:
            self._selector.register(stream, selectors.EVENT_READ, stream)

    def close(self) -> None:
        self._selector.close()
        for stream in self._streams:
            stream.close()

    def full(self, seconds: float) -> list[float]:
        """Keep requests in flight for a time; the seconds of each that was answered in it."""
        found: list[float] = []
        begun = time.perf_counter()
        for stream in self._streams:
            stream.send([begun] * self._case.depth)
        while time.perf_counter() < begun + seconds:
            for stream, answered in self._answers(1.0):
                if answered:
                    stream.send([time.perf_counter()] * len(answered))
                    found += answered
        self._finish()
        return found

    def paced(self, seconds: float, per_s: int) -> list[float]:
        """Send a request at each due time, to the connections in turn; the seconds of each."""
        found: list[float] = []
        begun, sent, wanted = time.perf_counter(), 0, int(seconds * per_s)
        while sent < wanted:
            due = begun + sent / per_s
            if time.perf_counter() >= due:
                self._streams[sent % len(self._streams)].send([due])
                sent += 1
                continue
            for _, answered in self._answers(max(due - time.perf_counter(), 0)):
                found += answered
        return found + self._finish()

    def _finish(self) -> list[float]:
        found: list[float] = []
        while any(stream.in_flight for stream in self._streams):
            for _, answered in self._answers(1.0):
                found += answered
        return found

    def _answers(self, timeout_s: float) -> Iterator[tuple[Stream, list[float]]]:
        for key, _ in self._selector.select(timeout_s):
            yield key.data, key.data.receive()


def produce(cluster: Cluster, case: Case, seconds: float, per_s: int) -> Figures:
    """The figures of one run of a case."""
    with closing(Load(cluster, case)) as load:
        nodes = cluster.brokers()
        before, begun = [cpu_s([node]) for node in nodes], time.perf_counter()
        found = load.paced(seconds, per_s) if per_s else load.full(seconds)
        elapsed_s = time.perf_counter() - begun
        spent = [cpu_s([node]) - earlier for node, earlier in zip(nodes, before, strict=True)]
    megabytes = len(found) * case.record_bytes / 1e6
    ms_per_mb = {node.id: each * 1e3 / megabytes for node, each in zip(nodes, spent, strict=True)}
    figures = {} if per_s else {RATE: len(found) / elapsed_s, MB_RATE: megabytes / elapsed_s}
    figures |= {name: value for name, value in latencies(found).items() if name in (P50, P99)}
    figures[BROKERS_CPU] = sum(ms_per_mb.values())
    if not case.is_spread:
        figures[LEADER_CPU] = ms_per_mb[LEADING]
        figures[FOLLOWER_CPU] = sum(ms_per_mb[id] for id in FOLLOWING) / len(FOLLOWING)
    return figures


def catch_up(cluster: Cluster, megabytes: int, number: int) -> Figures:
    """Fill a partition of two replicas, and add a third one, on a broker that has nothing of it."""
    topic = f"filled-{number}"
    _replicate(cluster, topic, [1, 2])
    frame = produce_frame(topic, batch_of(16, 10_000), ALL)
    with closing(Connection(HOST, cluster.nodes[LEADING].port)) as connection:
        for _ in range(megabytes * 1_000_000 // 160_000):
            connection.send(frame)
            connection.response()
    behind = cluster.nodes[3]
    before, begun = cpu_s([behind]), time.perf_counter()
    assign(cluster.nodes[LEADING], topic, [1, 2, 3])
    until(lambda: 3 in in_sync(cluster.nodes[LEADING], topic))
    elapsed_s = time.perf_counter() - begun
    return {
        CAUGHT_UP: megabytes / elapsed_s,
        CAUGHT_UP_CPU: (cpu_s([behind]) - before) * 1e3 / megabytes,
    }


def fail_over(cluster: Cluster, number: int) -> Figures:
    """End the leader in both ways, and bring it back each time."""
    figures: Figures = {}
    for name, signal_sent, scale in ((STOPPED, SIGTERM, 1e3), (KILLED, SIGKILL, 1.0)):
        topic = f"moved-{number}-{signal_sent.name}"
        _replicate(cluster, topic, [1, 2, 3])
        process = cluster.nodes[LEADING].process
        assert process is not None
        figures[name] = scale * _longest_gap_s(
            cluster, topic, lambda process=process, sent=signal_sent: process.send_signal(sent)
        )
        process.wait(_FAILOVER_LIMIT_S)
        cluster.start(LEADING)
        until(lambda topic=topic: LEADING in in_sync(cluster.nodes[2], topic))
    return figures


def _replicate(cluster: Cluster, topic: str, replicas: Sequence[int]) -> None:
    """Create a topic of one partition, and wait until its replicas work."""
    until(lambda: create(cluster.nodes[2], topic, 1, len(replicas), [replicas]))
    until(lambda: produced_to(cluster, [(topic, 0)]))


def _longest_gap_s(cluster: Cluster, topic: str, end_leader: Callable[[], object]) -> float:
    """Produce one record after the other; the longest time from one acknowledgement to the next.

    It lasts until two seconds after a record was acknowledged by another leader.
    """
    led_by, longest_s = LEADING, 0.0
    begun = last = time.perf_counter()
    ended_at = moved_at = 0.0
    with ExitStack() as stack:
        stream: Stream | None = None
        while not moved_at or time.perf_counter() < moved_at + 2:
            if not ended_at and time.perf_counter() > begun + 1:
                end_leader()
                ended_at = time.perf_counter()
            if time.perf_counter() > begun + _FAILOVER_LIMIT_S:
                raise RequestFailed("no other leader")
            try:
                if stream is None:
                    led_by = leaders(cluster.nodes[2], [topic])[topic, 0]
                    stream = stack.enter_context(
                        closing(Stream(cluster.nodes[led_by], topic, 0, 200))
                    )
                stream.send([time.perf_counter()])
                while not stream.receive():
                    pass
            except (OSError, RequestFailed, KeyError):
                stream = None
                time.sleep(0.005)
                continue
            now = time.perf_counter()
            longest_s, last = max(longest_s, now - last), now
            if led_by != LEADING and not moved_at:
                moved_at = now
    return longest_s


def resident(cluster: Cluster, partitions: int) -> Figures:
    """Give each broker so many replicas, and produce to all of them."""
    keys = [("many", index) for index in range(partitions)]
    until(lambda: create(cluster.nodes[LEADING], "many", partitions, 3))
    until(lambda: produced_to(cluster, keys))
    until(lambda: produced_to(cluster, keys))
    return {RESIDENT: max(resident_mib(node) for node in cluster.brokers())}


# Turns, and their report.


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    if not any(arguments.only in case.name for case in CASES):
        names = "; ".join(case.name for case in CASES)
        parser.error(f"--only {arguments.only!r} is in the name of no case: {names}")
    # An installed package has its bytecode; a checkout that may not write it has not.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return until_interrupted(lambda: _measure(arguments))


def _measure(arguments: argparse.Namespace) -> int:
    print(f"load before: {os.getloadavg()[0]:.1f}", flush=True)
    engines = [WIREKAFKA] if arguments.alone else [WIREKAFKA, KAFKA]
    with ExitStack() as stack:
        clusters = {}
        for engine in engines:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.scratch))
            clusters[engine] = stack.enter_context(Cluster.laid_out(_shape(engine), Path(scratch)))
            clusters[engine].spawn(*clusters[engine].nodes)
        for cluster in clusters.values():
            cluster.await_in_service(*cluster.nodes)
        lines = ["| | | wirekafka | Apache Kafka | ratio | goal |", "|---|---|---|---|---|---|"]
        for name, once in _subjects(arguments):
            found: dict[str, list[Figures]] = {engine: [] for engine in engines}
            for number in range(arguments.rounds):
                for engine in engines:
                    found[engine].append(once(clusters[engine], number))
                    print(name, engine, _shown(found[engine][-1]), file=sys.stderr, flush=True)
            lines += rows(name, found[WIREKAFKA], found.get(KAFKA, ()))
    print("\n".join(lines))
    return 0


def _subjects(
    arguments: argparse.Namespace,
) -> Iterator[tuple[str, Callable[[Cluster, int], Figures]]]:
    match arguments.subject:
        case "produce":
            seconds, per_s = arguments.seconds, arguments.per_s
            for case in CASES:
                if arguments.only not in case.name:
                    continue

                def once(cluster: Cluster, number: int, case: Case = case) -> Figures:
                    if number == 0:  # Not counted: a JVM compiles frequently run code.
                        produce(cluster, case, _JVM_WARM_UP_S, 0)
                    return produce(cluster, case, seconds, per_s)

                yield case.name, once
        case "catch-up":
            yield (
                f"{arguments.megabytes} MB",
                (lambda cluster, number: catch_up(cluster, arguments.megabytes, number)),
            )
        case "failover":
            yield "1 partition", fail_over
        case _:
            name = f"{arguments.partitions} replicas"
            yield name, lambda cluster, _: resident(cluster, arguments.partitions)


def rows(name: str, ours: Sequence[Figures], theirs: Sequence[Figures]) -> Iterator[str]:
    """The medians of each figure of a subject, in Markdown, and whether the goal is reached."""
    for figure in ours[0]:
        own = median(each[figure] for each in ours)
        cells = [name, figure, f"{own:.2f}"]
        goal = ""
        if theirs:
            other = median(each[figure] for each in theirs)
            ratio = own / other
            cells += [f"{other:.2f}", f"×{ratio:.2f}"]
            if figure in AT_LEAST:
                reached = "reached" if ratio >= AT_LEAST[figure] else "missed"
                goal = f"≥ ×{AT_LEAST[figure]:g}: {reached}"
            elif figure in AT_MOST:
                reached = "reached" if ratio <= AT_MOST[figure] else "missed"
                goal = f"≤ ×{AT_MOST[figure]:g}: {reached}"
        else:
            cells += ["", ""]
        if figure == RESIDENT:
            goal = f"≤ {MEMORY_GOAL_MIB}: {'reached' if own <= MEMORY_GOAL_MIB else 'missed'}"
        yield f"| {' | '.join([*cells, goal])} |"


def _shape(engine: str) -> Shape:
    return Shape(brokers=(engine,) * 3, is_combined=False, settings=_SETTINGS, jvm=START_SCRIPT_JVM)


def _shown(figures: Figures) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in figures.items())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replicated",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("subject", choices=("produce", "catch-up", "failover", "memory"))
    parser.add_argument("--rounds", type=int, default=3, help="how many turns each has (3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run that produces")
    parser.add_argument("--only", default="", help="only cases with this in their name")
    parser.add_argument("--per-s", type=int, default=0, help="requests per second; 0: all it can")
    parser.add_argument("--megabytes", type=int, default=500, help="of an empty replica")
    parser.add_argument("--partitions", type=int, default=2_000, help="of three replicas each")
    parser.add_argument("--alone", action="store_true", help="compare with nothing")
    parser.add_argument("--scratch", type=Path, help="where the data is kept meanwhile")
    return parser


if __name__ == "__main__":
    sys.exit(main())
