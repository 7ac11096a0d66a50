"""Several brokers of one machine against one and Apache Kafka: `python -m benchmarks.cores`.

    python -m benchmarks.cores --seconds 5
    python -m benchmarks.cores --brokers 1 2 --alone --client-cores 4 5 6 7

Every subject serves the same requests from the same prepared sockets, in processes of their own:
each connection has one partition, and is with the broker that leads it. All brokers together have
the cores that `--client-cores` leaves; without it, the clients share all cores with them, and
rates show what is left for the brokers. CPU is that of all processes of a subject, controller and
parent included, for each request or MB (1e6 bytes of records). Each case is run once before it
counts.

Below the measured rows are estimates for machines with more cores: what the cores would serve if
each were busy at the measured CPU, and clients ran elsewhere.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import median

import psutil

from benchmarks import report
from benchmarks.driver import (
    Connection,
    batch_of,
    check_produced,
    create_topic,
    fetch_frame,
    produce_frame,
)
from benchmarks.interruption import until_interrupted
from benchmarks.peers import ApacheKafka
from wirekafka.protocol.metadata import MetadataRequest, MetadataResponse

READY = "wirekafka ready: "
METADATA_VERSION = 9
MEASURED_CORES = (4, 8, 16)
_ONE, _MANY = 1, 75
"""Records of 200 bytes in a small batch, and in that of a busy client."""
_RECORD_BYTES = 200
_FETCH_BYTES = 1 << 20
_FILLED_BATCHES = 100
_WARM_UP_S = 1.5
_PREPARED_S = 60
_READ_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Work:
    """What the connections of a case do."""

    name: str
    records: int = 0
    """In each Produce request; 0 if nothing is produced."""
    depth: int = 1
    """The number of Produce requests in flight on a connection."""
    fetches: bool = False
    """Whether the topic is read; if it is produced to as well, by every other connection."""


@dataclass(frozen=True, slots=True)
class Case:
    """A work on so many partitions and connections."""

    work: Work
    partitions: int
    connections: int

    @property
    def name(self) -> str:
        return f"{self.work.name}, {self.partitions} partitions, {self.connections} connections"


PRODUCE_SMALL = Work("produce single records", records=_ONE, depth=5)
PRODUCE_LARGE = Work("produce 16 KB", records=_MANY, depth=4)
CONSUME = Work("consume", fetches=True)
MIXED = Work("produce and consume 16 KB", records=_MANY, depth=4, fetches=True)
CASES = [
    Case(work, partitions, connections)
    for work in (PRODUCE_SMALL, PRODUCE_LARGE, CONSUME, MIXED)
    for partitions, connections in ((4, 8), (64, 64))
]


@dataclass(frozen=True, slots=True)
class Figures:
    """One run: rates of all connections together, and the CPU of all processes of the subject."""

    requests_per_s: float
    mb_per_s: float
    cores: float
    """The CPU seconds that the subject used in each second."""
    client_cores: float

    @property
    def us_per_request(self) -> float:
        return self.cores / self.requests_per_s * 1e6

    @property
    def ms_per_mb(self) -> float:
        return self.cores / self.mb_per_s * 1e3


class Subject:
    """Running brokers: any one's address, and the first of their processes."""

    def __init__(self, name: str, address: tuple[str, int], process: psutil.Process):
        self.name = name
        self.address = address
        self.process = process

    def cpu_s(self) -> float:
        """User and system time so far of all its processes."""
        every = [self.process, *self.process.children(recursive=True)]
        times = [each.cpu_times() for each in every]
        return float(sum(each.user + each.system for each in times))


@contextmanager
def wirekafka(brokers: int, directory: Path) -> Iterator[Subject]:
    """One broker as `serve` runs it, or several by `--brokers`."""
    command = [sys.executable, "-m", "wirekafka", "serve", "--data", str(directory / "data")]
    command += ["--listen", "127.0.0.1:0", "--log-level", "error"]
    command += ["--brokers", str(brokers)] if brokers > 1 else []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, process_group=0
    ) as process:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().removeprefix(READY).split(",")[0].rpartition(":")
        name = "wirekafka" if brokers == 1 else f"wirekafka, {brokers} brokers"
        subject = Subject(name, (host, int(port)), psutil.Process(process.pid))
        try:
            yield subject
        finally:
            every = [*subject.process.children(recursive=True), subject.process]
            for each in every:
                with suppress(psutil.NoSuchProcess):
                    each.kill()


@contextmanager
def apache_kafka(directory: Path) -> Iterator[Subject]:
    """One broker of Apache Kafka."""
    with ApacheKafka().start(directory) as target:
        assert target.process is not None
        yield Subject(target.name, (target.host, target.port), target.process)


# The load, in processes of its own.


class Stream:
    """A connection that repeats one request, and counts responses without decoding them."""

    def __init__(self, address: tuple[str, int], frame: bytes, depth: int, buffer: memoryview):
        self._connection = Connection(*address)
        self._frame = frame
        self._depth = depth
        self._buffer = buffer
        self._head = b""
        self._left = 0

    def fileno(self) -> int:
        return self._connection.fileno()

    def close(self) -> None:
        self._connection.close()

    def begin(self) -> None:
        self._connection.send(self._frame * self._depth)

    def receive(self) -> tuple[int, int]:
        """Read once, and repeat what was answered; returns responses and bytes."""
        size = self._connection.socket.recv_into(self._buffer)
        if not size:
            raise ConnectionError("the broker hung up")
        at = done = 0
        while at < size:
            if self._left:
                step = min(self._left, size - at)
                self._left -= step
                at += step
                done += not self._left
                continue
            step = min(4 - len(self._head), size - at)
            self._head += bytes(self._buffer[at : at + step])
            at += step
            if len(self._head) == 4:
                self._left = int.from_bytes(self._head, "big")
                self._head = b""
        if done:
            self._connection.send(self._frame * done)
        return done, size


@dataclass(frozen=True, slots=True)
class Counts:
    """What one process of clients has counted within the measured time."""

    produced: int
    fetched: int
    fetched_bytes: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Request:
    """What one connection repeats, and to whom."""

    address: tuple[str, int]
    frame: bytes
    depth: int
    is_fetch: bool


def run_clients(requests: Sequence[Request], cores: Sequence[int], pipe: Pipe) -> None:
    """Connect, begin, and count between the two times that the pipe delivers."""
    if cores:
        os.sched_setaffinity(0, cores)
    buffer = memoryview(bytearray(_READ_BYTES))
    selector = selectors.DefaultSelector()
    for each in requests:
        stream = Stream(each.address, each.frame, each.depth, buffer)
        selector.register(stream, selectors.EVENT_READ, each.is_fetch)
    pipe.send("connected")
    start, end = pipe.recv()
    for key in selector.get_map().values():
        key.fileobj.begin()  # type: ignore[union-attr]
    counts = {False: [0, 0], True: [0, 0]}
    cpu_s = 0.0
    is_counting = False
    while (now := time.monotonic()) < end:
        if not is_counting and now >= start:
            is_counting, cpu_s = True, time.process_time()
            counts = {False: [0, 0], True: [0, 0]}
        for key, _ in selector.select(0.1):
            done, size_bytes = key.fileobj.receive()  # type: ignore[union-attr]
            counted = counts[key.data]
            counted[0] += done
            counted[1] += size_bytes
    (produced, _), (fetched, fetched_bytes) = counts[False], counts[True]
    pipe.send(Counts(produced, fetched, fetched_bytes, time.process_time() - cpu_s))


def measure(subject: Subject, case: Case, seconds: float, cores: Sequence[int]) -> Figures:
    """Run a case once; the clients are in as many processes as they have cores."""
    requests = prepared(subject, case)
    processes = len(cores) or os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    running = []
    for number in range(processes):
        here, there = context.Pipe()
        arguments = (requests[number::processes], list(cores), there)
        process = context.Process(target=run_clients, args=arguments, daemon=True)
        process.start()
        running.append((process, here))
    try:
        for _, pipe in running:
            assert pipe.poll(_PREPARED_S) and pipe.recv() == "connected"
        start = time.monotonic() + _WARM_UP_S
        for _, pipe in running:
            pipe.send((start, start + seconds))
        time.sleep(max(start - time.monotonic(), 0))
        cpu_s, begun = subject.cpu_s(), time.monotonic()
        time.sleep(max(start + seconds - time.monotonic(), 0))
        used_s, elapsed_s = subject.cpu_s() - cpu_s, time.monotonic() - begun
        counts: list[Counts] = [pipe.recv() for _, pipe in running]
    finally:
        for process, _ in running:
            process.kill()
    produced = sum(each.produced for each in counts)
    produced_bytes = produced * case.work.records * _RECORD_BYTES
    size_bytes = produced_bytes + sum(each.fetched_bytes for each in counts)
    return Figures(
        requests_per_s=(produced + sum(each.fetched for each in counts)) / seconds,
        mb_per_s=size_bytes / 1e6 / seconds,
        cores=used_s / elapsed_s,
        client_cores=sum(each.cpu_s for each in counts) / seconds,
    )


def prepared(subject: Subject, case: Case) -> list[Request]:
    """Create the topic of a case, fill it if it is read, and return what each connection sends."""
    work = case.work
    topic = f"{work.name.replace(' ', '-')}-{case.partitions}"
    is_new = create_topic(*subject.address, topic, case.partitions)
    leaders = leaders_of(subject.address, topic, case.partitions)
    large = batch_of(_MANY, _RECORD_BYTES)
    for partition, address in leaders.items() if is_new else ():
        with closing(Connection(*address)) as connection:
            frame = produce_frame(topic, large, -1, partition)
            check_produced(connection, frame)
            for _ in range(_FILLED_BATCHES if work.fetches else 0):
                check_produced(connection, frame)
    batch = batch_of(work.records or 1, _RECORD_BYTES)
    found = []
    for number in range(case.connections):
        # A connection that only fetches is beside one that produces to the same partition.
        is_mixed = bool(work.fetches and work.records)
        partition = (number // 2 if is_mixed else number) % case.partitions
        is_fetch = work.fetches and (number % 2 == 1 or not is_mixed)
        frame = (
            fetch_frame(topic, 0, _FETCH_BYTES, partition)
            if is_fetch
            else produce_frame(topic, batch, 1, partition)
        )
        found.append(Request(leaders[partition], frame, 1 if is_fetch else work.depth, is_fetch))
    return found


def leaders_of(address: tuple[str, int], topic: str, partitions: int) -> dict[int, tuple[str, int]]:
    """The address of each partition's leader, once all have one."""
    deadline = time.monotonic() + _PREPARED_S
    request = MetadataRequest(topics=[MetadataRequest.Topic(name=topic)])
    with closing(Connection(*address)) as connection:
        while time.monotonic() < deadline:
            answer = connection.ask(request, MetadataResponse, METADATA_VERSION)
            brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
            found = {
                each.partition_index: brokers[each.leader_id]
                for each in answer.topics[0].partitions
                if each.leader_id in brokers
            }
            if len(found) == partitions:
                return found
            time.sleep(0.05)
    raise TimeoutError(f"not all partitions of {topic} have a leader")


# Runs and their report.


@dataclass(frozen=True, slots=True)
class Row:
    """The runs of one subject in one case."""

    case: str
    subject: str
    brokers: int
    """The number of cores that its brokers can use; 0 for all, as Apache Kafka's does."""
    runs: Sequence[Figures]

    def middle(self, figure: str) -> float:
        return median(getattr(run, figure) for run in self.runs)


def estimate(row: Row, cores: int) -> float:
    """The requests/s if so many cores were busy at the measured CPU per request.

    A wirekafka has as many brokers as there are cores; a broker of Apache Kafka uses all cores.
    """
    return cores / (row.middle("us_per_request") / 1e6)


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The measured rows, in Markdown."""
    yield "| Case | Subject | requests/s | MB/s | CPU µs/request | CPU ms/MB | brokers' cores |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        yield (
            f"| {row.case} | {row.subject} | {row.middle('requests_per_s'):,.0f} "
            f"| {row.middle('mb_per_s'):,.0f} | {row.middle('us_per_request'):.1f} "
            f"| {row.middle('ms_per_mb'):.3f} | {row.middle('cores'):.2f} |"
        )


def estimates(rows: Sequence[Row]) -> Iterator[str]:
    """What more cores would serve, in Markdown; single brokers of wirekafka are left out."""
    shown = " | ".join(f"{cores} cores" for cores in MEASURED_CORES)
    yield f"| Estimated requests/s, not measured | Subject | {shown} |"
    yield "|---|---|" + "---|" * len(MEASURED_CORES)
    largest = max(row.brokers for row in rows)
    for row in rows:
        if row.brokers in (0, largest):
            cells = " | ".join(f"{estimate(row, cores):,.0f}" for cores in MEASURED_CORES)
            yield f"| {row.case} | {row.subject} | {cells} |"


def main() -> int:
    arguments = _parser().parse_args()
    return until_interrupted(lambda: _measure(arguments))


def _measure(arguments: argparse.Namespace) -> int:
    machine = report.machine() | {"load before": f"{os.getloadavg()[0]:.1f}"}
    cases = [case for case in CASES if arguments.only in case.name]
    subjects: list[tuple[int, Callable[[Path], object]]] = [
        (count, lambda path, count=count: wirekafka(count, path)) for count in arguments.brokers
    ]
    if not arguments.alone:
        subjects.append((0, apache_kafka))
    found: dict[tuple[str, int], Row] = {}
    own = sorted(os.sched_getaffinity(0) - set(arguments.client_cores))
    for turn in range(arguments.turns):
        for brokers, start in subjects:
            with tempfile.TemporaryDirectory(dir=arguments.scratch) as directory:
                before = os.sched_getaffinity(0)
                os.sched_setaffinity(0, own)  # The brokers inherit it.
                with start(Path(directory)) as subject:  # type: ignore[attr-defined]
                    os.sched_setaffinity(0, before)
                    for case in cases:
                        # Not counted: a JVM compiles frequently run code.
                        print(f"{turn + 1}: warming up, {subject.name}", file=sys.stderr)
                        measure(subject, case, arguments.seconds, arguments.client_cores)
                    for case in cases:
                        print(f"{turn + 1}: {case.name}: {subject.name}", file=sys.stderr)
                        run = measure(subject, case, arguments.seconds, arguments.client_cores)
                        earlier = found.get((case.name, brokers))
                        runs = [*(earlier.runs if earlier else ()), run]
                        found[case.name, brokers] = Row(case.name, subject.name, brokers, runs)
    rows = [found[case.name, brokers] for case in cases for brokers, _ in subjects]
    machine["load after"] = f"{os.getloadavg()[0]:.1f}"
    text = "\n".join(
        (
            f"{', '.join(f'{name} {value}' for name, value in machine.items())}; brokers on"
            f" cores {own}, clients on {arguments.client_cores or 'the same'};"
            f" {arguments.turns} turns of {arguments.seconds} s, medians.",
            "",
            *table(rows),
            "",
            *estimates(rows),
        )
    )
    print(text)
    if arguments.output:
        arguments.output.write_text(text + "\n")
        stored = {"machine": machine, "rows": [asdict(row) for row in rows]}
        arguments.output.with_suffix(".json").write_text(json.dumps(stored, indent=1) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cores",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--brokers", nargs="+", type=int, default=[1, 2, 4], metavar="N")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run")
    parser.add_argument("--turns", type=int, default=3, help="how often each has its turn")
    parser.add_argument("--only", default="", help="only cases with this in their name")
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka")
    parser.add_argument(
        "--client-cores",
        nargs="*",
        type=int,
        default=[],
        metavar="CORE",
        help="cores for the clients alone; the brokers have the others (default: all share all)",
    )
    parser.add_argument("--scratch", type=Path, help="where the data is kept meanwhile")
    parser.add_argument("--output", type=Path, help="a .md file; a .json is written beside it")
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
