"""The cost of copying to remote storage, and what it does to producers, beside Apache Kafka.

    python -m benchmarks.tiered_copying                     # rounds of 1 GB, both brokers
    python -m benchmarks.tiered_copying --mb 2000 --rounds 5
    python -m benchmarks.tiered_copying --only wirekafka

Both brokers store segments in files, in the layout of Kafka's LocalTieredStorage. In each round, a
topic that was filled before is copied while nothing else happens, for the CPU. Then a client
produces single records at a fixed rate to a topic that is not tiered: first alone, then while
another topic is copied.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.driver import (
    LEADER,
    Connection,
    Pipeline,
    batch_of,
    check_produced,
    create_topic,
    produce_frame,
)
from benchmarks.measure import P50, P99, latencies
from benchmarks.peers import START_SCRIPT_JVM, Security, Target, Wirekafka, running
from compat_tests import apache_kafka, tiered
from wirekafka.protocol.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from wirekafka.protocol.list_offsets import ListOffsetsRequest, ListOffsetsResponse

_LATEST, _LATEST_TIERED = -1, -5
_SEGMENT_BYTES = 64 << 20
_RECORDS, _RECORD_BYTES = 100, 1_000
"""Of each batch of a topic that is copied."""
_TOPIC_RESOURCE = 2
_PAUSE_S = 0.05
_COPY_LIMIT_S = 300.0
_WARM_UP_S, _ALONE_S = 5.0, 3.0
_ALTER_VERSION, _OFFSETS_VERSION = 1, 9


@dataclass(slots=True)
class Found:
    """The figures of one broker."""

    alone_s: list[float] = field(default_factory=list)
    """The duration of each request of the client without copies."""
    copying_s: list[float] = field(default_factory=list)
    copied_mb: float = 0.0
    copy_cpu_s: float = 0.0
    copy_s: float = 0.0


class Client:
    """Produces single records at a fixed rate, one at a time."""

    def __init__(self, target: Target, topic: str, rate: float):
        self._connection = Connection(target.host, target.port)
        self._frame = produce_frame(topic, batch_of(1, _RECORD_BYTES), LEADER)
        self._every_s = 1 / rate
        create_topic(target.host, target.port, topic)
        check_produced(self._connection, self._frame)

    def run(self, seconds: float) -> list[float]:
        """Produce for some time; how long each request took, from when it was due."""
        took = []
        due = time.perf_counter()
        end = due + seconds
        while due < end:
            time.sleep(max(due - time.perf_counter(), 0))
            self._connection.send(self._frame)
            self._connection.response()
            took.append(time.perf_counter() - due)
            due += self._every_s
        return took


class Apache:
    """Apache Kafka with LocalTieredStorage."""

    name = "Apache Kafka"

    @contextmanager
    def start(self, directory: Path) -> Iterator[Target]:
        lines = "".join(f"{name}={value}\n" for name, value in _settings(directory).items())
        port, command = apache_kafka.prepare(directory, START_SCRIPT_JVM, lines)
        command = tiered.with_storage(command)
        target = Target(self.name, "127.0.0.1", port, data=directory / "data")
        with running(command, directory, target, dict(os.environ)) as up:
            yield up


class Own:
    """This broker, in the same layout."""

    name = Wirekafka.name

    @contextmanager
    def start(self, directory: Path) -> Iterator[Target]:
        options = [
            word
            for name, value in _settings(directory).items()
            for word in ("--set", f"{name}={value}")
        ]
        with Wirekafka(*options).start(directory, Security.NONE) as up:
            yield up


def measure(target: Target, megabytes: int, rounds: int, rate: float) -> Found:
    """All rounds of one broker."""
    found = Found()
    client = Client(target, "live", rate)
    client.run(_WARM_UP_S)
    _round(target, client, "warm-up", megabytes // 4, Found())
    for number in range(rounds):
        _round(target, client, f"old-{number}", megabytes, found)
    return found


def _round(target: Target, client: Client, name: str, megabytes: int, found: Found) -> None:
    connection = Connection(target.host, target.port)
    topic = f"{name}-alone"
    wanted = _fill(target, connection, topic, megabytes)
    began_s, cpu_s = time.perf_counter(), target.cpu_s()
    _alter(connection, topic, {"remote.storage.enable": "true"})
    while (copied := _offset(connection, topic, _LATEST_TIERED)) < wanted:
        time.sleep(_PAUSE_S)
        assert time.perf_counter() - began_s < _COPY_LIMIT_S, "it copies too slowly"
    found.copy_s += time.perf_counter() - began_s
    found.copy_cpu_s += target.cpu_s() - cpu_s
    found.copied_mb += copied * _RECORD_BYTES / 1e6

    topic = f"{name}-beside"
    wanted = _fill(target, connection, topic, megabytes)
    found.alone_s += client.run(_ALONE_S)
    _alter(connection, topic, {"remote.storage.enable": "true"})
    while _offset(connection, topic, _LATEST_TIERED) < wanted:
        found.copying_s += client.run(_PAUSE_S)
    connection.close()


def _fill(target: Target, connection: Connection, topic: str, megabytes: int) -> int:
    """Fill a new topic; returns an offset in its last closed segments."""
    create_topic(target.host, target.port, topic)
    settings = {"segment.bytes": str(_SEGMENT_BYTES), "local.retention.bytes": "-2"}
    _alter(connection, topic, settings)
    frame = produce_frame(topic, batch_of(_RECORDS, _RECORD_BYTES), LEADER)
    check_produced(connection, frame)
    pipeline = Pipeline([Connection(target.host, target.port)], frame, 4)
    left = megabytes * 1_000_000 // (_RECORDS * _RECORD_BYTES)
    while left > 0:
        left -= pipeline.run(0.1)
    pipeline.finish()
    os.sync()  # What is written back is not the copies'.
    return _offset(connection, topic, _LATEST) - 2 * _SEGMENT_BYTES // _RECORD_BYTES


def _alter(connection: Connection, topic: str, settings: Mapping[str, str]) -> None:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        resource.AlterableConfig(name=name, config_operation=0, value=value)
        for name, value in settings.items()
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=_TOPIC_RESOURCE, resource_name=topic, configs=configs)]
    )
    answer = connection.ask(request, IncrementalAlterConfigsResponse, _ALTER_VERSION)
    assert not answer.responses[0].error_code, answer.responses[0].error_message


def _offset(connection: Connection, topic: str, timestamp: int) -> int:
    kind = ListOffsetsRequest.Topic
    wanted = kind(name=topic, partitions=[kind.Partition(partition_index=0, timestamp=timestamp)])
    request = ListOffsetsRequest(replica_id=-1, topics=[wanted])
    answer = connection.ask(request, ListOffsetsResponse, _OFFSETS_VERSION)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def _settings(directory: Path) -> dict[str, str]:
    return {**tiered.settings(directory / "tier"), "log.retention.check.interval.ms": "300000"}


def _line(name: str, found: Found) -> str:
    alone, copying = latencies(found.alone_s), latencies(found.copying_s)
    return (
        f"{name:14} {found.copy_cpu_s * 1e3 / found.copied_mb:6.2f} ms of CPU for each MB, "
        f"{found.copied_mb / found.copy_s:5.0f} MB/s; produce without copies p50 {alone[P50]:.2f} "
        f"p99 {alone[P99]:.2f} ms, with p50 {copying[P50]:.2f} p99 {copying[P99]:.2f} ms "
        f"({copying[P99] / alone[P99]:.2f} times); {len(found.copying_s)} requests"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure both brokers, and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mb", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=500.0, help="requests of the client a second")
    parser.add_argument("--only", choices=[Own.name, Apache.name])
    given = parser.parse_args(arguments)
    for peer in (Own(), Apache()):
        if given.only in (None, peer.name):
            with tempfile.TemporaryDirectory() as scratch, peer.start(Path(scratch)) as target:
                found = measure(target, given.mb, given.rounds, given.rate)
                print(_line(peer.name, found), f"; {target.resident_mib():.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
