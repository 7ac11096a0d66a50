"""The cost of creating, deleting and loading many partitions: `python -m benchmarks.partitions`.

    python -m benchmarks.partitions 2000 5000
    python -m benchmarks.partitions 5000 --alone

First the log directory by itself, in this process. Then wirekafka and Apache Kafka, each fresh for
each number: a topic is created, found again by a restart after a clean stop, and deleted.
Meanwhile another client produces to a topic of its own, one record in flight, acks=all; its round
trips are counted to the phase that has their middle. A creation is done when every partition has
its directory (the response may come before that), a deletion when none has, and the removal when
the files are gone: it begins after file.delete.delay.ms = 1000 and the broker's own interval.

ext4 looks at each inode freed within the last minute before it gives out a new one, which makes
creation ten times as dear where much has just been deleted: `--scratch` on a tmpfs does without.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection as Pipe
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

from benchmarks.driver import (
    ALL,
    CREATE_VERSION,
    Connection,
    RequestFailed,
    batch_of,
    check_produced,
    create_topic,
    produce_frame,
)
from benchmarks.interruption import until_interrupted
from benchmarks.measure import P50, P99, latencies
from benchmarks.peers import ApacheKafka, Peer, Target, Wirekafka
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.directories.log_directory import DirectoryIdentity, LogDirectory, NewLog
from wirekafka.log.files import RealDisk
from wirekafka.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from wirekafka.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

TOPIC = "many"
OTHER_TOPIC = "other"
DELETE_VERSION = 5
_QUIET_S = 2.0
_LIMIT_S = 120.0
_LOOK_S = 0.02


class Phase(NamedTuple):
    """A stretch of time, as `time.perf_counter` has it, and when its request was answered."""

    name: str
    start: float
    answered: float
    end: float


class RoundTrip(NamedTuple):
    """One Produce request: when it was sent, and the seconds to its response."""

    start: float
    seconds: float


def main() -> int:
    arguments = _parser().parse_args()
    return until_interrupted(lambda: _measure(arguments))


def _measure(arguments: argparse.Namespace) -> int:
    peers: list[Peer] = [Wirekafka()] if arguments.alone else [Wirekafka(), ApacheKafka()]
    for partitions in arguments.partitions:
        with tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch:
            print(f"{partitions} partitions, the log directory alone: µs each, ms for the slowest")
            for name, mean_us, worst_ms in log_directory_alone(Path(scratch) / "data", partitions):
                print(f"  {name:12} {mean_us:8.1f} {worst_ms:8.1f}", flush=True)
    for partitions in arguments.partitions:
        for peer in peers:
            with (
                tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch,
                peer.start(Path(scratch)) as target,
            ):
                _print_broker(peer.name, partitions, *through(target, partitions))
    return 0


# The log directory by itself.


def log_directory_alone(path: Path, partitions: int) -> Iterator[tuple[str, float, float]]:
    """Each operation's name, mean µs for a partition, and ms of the slowest call."""
    config = TopicConfig()
    news = [
        NewLog(topic=TOPIC, topic_id=bytes(range(16)), partition=index, config=config)
        for index in range(partitions)
    ]
    directory = _opened(path)
    directory.load(lambda _: config, 0)
    yield _timed("create", partitions, [lambda new=new: directory.create(new, 0) for new in news])
    yield _timed("clean stop", partitions, [lambda: directory.close_cleanly({}, 1)])
    directory = _opened(path)
    yield _timed("load", partitions, [lambda: directory.load(lambda _: config, 0)])
    yield _timed(
        "delete",
        partitions,
        [lambda key=key: directory.delete(key, 0) for key in list(directory.logs)],
    )
    yield _timed("remove", partitions, [lambda: directory.remove_deleted(1 << 60)])
    directory.close_cleanly({}, 2)


def _opened(path: Path) -> LogDirectory:
    directory = LogDirectory(RealDisk(), str(path))
    directory.claim(DirectoryIdentity("benchmark", 1, bytes(16)))
    return directory


def _timed(
    name: str, partitions: int, calls: Sequence[Callable[[], object]]
) -> tuple[str, float, float]:
    worst_s = 0.0
    start = before = time.perf_counter()
    for call in calls:
        call()
        now = time.perf_counter()
        worst_s, before = max(worst_s, now - before), now
    return name, (before - start) / partitions * 1e6, worst_s * 1e3


# Through a broker, while another client produces.


def through(target: Target, partitions: int) -> tuple[list[Phase], list[RoundTrip], float]:
    """The phases, the other client's round trips, and the seconds of a restart with all there."""
    assert target.data is not None
    create_topic(target.host, target.port, OTHER_TOPIC)
    with _producing(target) as trips:
        phases = [
            _phase("quiet", lambda: time.sleep(_QUIET_S), lambda: True),
            _phase(
                "create",
                lambda: _create(target, partitions),
                lambda: _directories(target.data)[0] == partitions,
            ),
        ]
    target.restart()
    with _producing(target) as later_trips:
        phases += [
            _phase("delete", lambda: _delete(target), lambda: not _directories(target.data)[0]),
            _phase("remove", lambda: None, lambda: not _directories(target.data)[1]),
        ]
    return phases, [*trips, *later_trips], target.start_s


def during(phase: Phase, trips: Sequence[RoundTrip]) -> list[float]:
    """The seconds of the round trips whose middle is in a phase."""
    return [
        trip.seconds for trip in trips if phase.start <= trip.start + trip.seconds / 2 < phase.end
    ]


def _phase(name: str, ask: Callable[[], None], is_done: Callable[[], bool]) -> Phase:
    start = time.perf_counter()
    ask()
    answered = time.perf_counter()
    while not is_done():
        if time.perf_counter() - start > _LIMIT_S:
            raise RequestFailed(f"{name}: not done after {_LIMIT_S:.0f} s")
        time.sleep(_LOOK_S)
    return Phase(name, start, answered, time.perf_counter())


def _directories(data: Path | None) -> tuple[int, int]:
    """How many partitions of the topic have a directory, and how many are being deleted.

    What the file system says asks nothing of the broker, whose other client is being timed.
    """
    assert data is not None
    names = [entry.name for entry in data.iterdir() if entry.name.startswith(f"{TOPIC}-")]
    live = sum(1 for name in names if re.fullmatch(rf"{TOPIC}-\d+", name))
    return live, len(names) - live


def _create(target: Target, partitions: int) -> None:
    kind = CreateTopicsRequest.CreatableTopic
    delay = kind.CreatableTopicConfig(name="file.delete.delay.ms", value="1000")
    request = CreateTopicsRequest(
        timeout_ms=60_000,
        topics=[kind(name=TOPIC, num_partitions=partitions, replication_factor=1, configs=[delay])],
    )
    with closing(Connection(target.host, target.port)) as connection:
        response = connection.ask(request, CreateTopicsResponse, CREATE_VERSION)
    if response.topics[0].error_code:
        raise RequestFailed(f"CreateTopics: error {response.topics[0].error_code}")


def _delete(target: Target) -> None:
    request = DeleteTopicsRequest(timeout_ms=60_000, topic_names=[TOPIC])
    with closing(Connection(target.host, target.port)) as connection:
        response = connection.ask(request, DeleteTopicsResponse, DELETE_VERSION)
    if response.responses[0].error_code:
        raise RequestFailed(f"DeleteTopics: error {response.responses[0].error_code}")


@contextmanager
def _producing(target: Target) -> Iterator[list[RoundTrip]]:
    """Another client, in a process of its own; the list is filled when the block is left."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    stopping = context.Event()
    process = context.Process(
        target=_produce, args=(target.host, target.port, stopping, sending), daemon=True
    )
    process.start()
    sending.close()
    trips: list[RoundTrip] = []
    try:
        receiving.recv()  # It has produced its first record.
        yield trips
        stopping.set()
        trips += [RoundTrip(*each) for each in receiving.recv()]
        process.join(_LIMIT_S)
    finally:
        process.kill()


def _produce(host: str, port: int, stopping: Event, results: Pipe) -> None:
    frame = produce_frame(OTHER_TOPIC, batch_of(1, 200), ALL)
    trips: list[tuple[float, float]] = []
    with closing(Connection(host, port)) as connection:
        check_produced(connection, frame)
        results.send("ready")
        while not stopping.is_set():
            start = time.perf_counter()
            connection.send(frame)
            connection.response()
            trips.append((start, time.perf_counter() - start))
    results.send(trips)


def _print_broker(
    name: str,
    partitions: int,
    phases: Sequence[Phase],
    trips: Sequence[RoundTrip],
    restart_s: float,
) -> None:
    print(f"{name}, {partitions} partitions: seconds; the other client's round trips in ms")
    print(f"  {'':12} {'answered':>9} {'done':>12} {'p50':>8} {'p99':>8} {'worst':>8}")
    for phase in phases:
        seconds = during(phase, trips) or [0.0]
        figures = latencies(seconds)
        print(
            f"  {phase.name:12} {phase.answered - phase.start:9.2f}"
            f" {phase.end - phase.start:12.2f} {figures[P50]:8.2f} {figures[P99]:8.2f}"
            f" {max(seconds) * 1e3:8.1f}"
        )
    print(f"  restart after a clean stop: ready in {restart_s:.2f} s", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.partitions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "partitions",
        nargs="*",
        type=int,
        default=[2000, 5000],
        help="how many partitions (default: 2000 5000)",
    )
    parser.add_argument("--alone", action="store_true", help="compare with nothing")
    parser.add_argument("--scratch", type=Path, help="where the data is kept meanwhile")
    return parser


if __name__ == "__main__":
    sys.exit(main())
