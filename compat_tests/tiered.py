"""Brokers of both kinds with tiered storage, in the layout of Apache Kafka's LocalTieredStorage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import wirekafka
from compat_tests.apache_kafka import (
    SMALL_CLEANER,
    SMALL_JVM,
    handover,
    java_command,
    prepare,
    running,
)
from compat_tests.java_programs import STORAGE_SHIM
from compat_tests.wire import Wire
from tests import kafka_jars
from tests.ports import free_ports
from wirekafka.protocol.list_offsets import ListOffsetsRequest

LOCAL_TIERED_STORAGE = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING = -1, -2, -3, -4, -5, -6


def settings(tier: Path) -> dict[str, str]:
    """The options of a broker of either kind that tiers topics in a directory."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": LOCAL_TIERED_STORAGE,
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rsm.config.dir": str(tier),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "remote.log.manager.task.interval.ms": "200",
        "log.retention.check.interval.ms": "200",
        "log.initial.task.delay.ms": "200",
    }


@contextmanager
def tiered_kafka(
    directory: Path, tier: Path, more: Mapping[str, str] = {}, jvm: Sequence[str] = SMALL_JVM
) -> Iterator[str]:
    """Yields HOST:PORT of a new Apache Kafka broker that tiers topics in a directory."""
    directory.mkdir(exist_ok=True)
    port, command = prepare(directory, jvm, _lines({**settings(tier), **more}))
    with running(with_storage(command), directory, port) as bootstrap:
        yield bootstrap


@contextmanager
def tiered_kafka_on(
    data: Sequence[Path], scratch: Path, tier: Path, more: Mapping[str, str] = {}
) -> Iterator[str]:
    """Yields HOST:PORT of Apache Kafka on directories that another broker has left."""
    scratch.mkdir(exist_ok=True)
    port, _ = free_ports(2)
    printed = handover(*data, port=port)
    assert printed.returncode == 0, printed.stderr
    properties = scratch / "server.properties"
    given = dict(line.split("=", 1) for line in printed.stdout.splitlines() if "=" in line)
    properties.write_text(_lines({**given, **settings(tier), **more}))
    command = [*java_command(scratch), *SMALL_JVM, "kafka.Kafka", str(properties)]
    with running(with_storage(command), scratch, port) as bootstrap:
        yield bootstrap


@contextmanager
def tiered_wirekafka(directory: Path, tier: Path, more: Mapping[str, str] = {}) -> Iterator[str]:
    """Yields HOST:PORT of wirekafka, on a new or an existing directory."""
    with wirekafka.Broker(directory, config={**settings(tier), **more}) as broker:
        yield broker.bootstrap_servers


def storage_classes() -> str:
    """The class path of LocalTieredStorage, without Kafka's own classes."""
    shim = kafka_jars.compiled([STORAGE_SHIM], kafka_jars.kafka_jars())
    return f"{shim}:{kafka_jars.class_path(kafka_jars.local_tier_jars())}"


def with_storage(command: Sequence[str]) -> list[str]:
    """A broker's command with LocalTieredStorage on its class path."""
    found = list(command)
    found[found.index("-cp") + 1] += f":{storage_classes()}"
    return found


def offset(bootstrap: str, topic: str, timestamp: int, *, isolation: int = 0) -> tuple[int, ...]:
    """Error, timestamp, offset and leader epoch of a topic's first partition (ListOffsets)."""
    kind = ListOffsetsRequest.Topic
    partition = kind.Partition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[kind(name=topic, partitions=[partition])],
        timeout_ms=10_000,
    )
    wire = Wire.to(bootstrap)
    try:
        found = wire.ask(request, 11).topics[0].partitions[0]
    finally:
        wire.close()
    return found.error_code, found.timestamp, found.offset, found.leader_epoch


def _lines(settings: Mapping[str, str]) -> str:
    return SMALL_CLEANER + "".join(f"{name}={value}\n" for name, value in settings.items())
