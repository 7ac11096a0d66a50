"""Metrics and health while a broker recovers its logs, which blocks its event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.openmetrics import parser as openmetrics

from tests.in_process import batch
from wirekafka.config.address import Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.log.files import RealDisk, RealFile
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.server.monitoring.service import Monitoring
from wirekafka.server.node import Node, Platform

TOPIC, PARTITIONS = "flights", 3
HOST = "127.0.0.1"
LIMIT_S = 60
LOGS = "kafka_log_logmanager_remaininglogstorecover"
SEGMENTS = "kafka_log_logmanager_remainingsegmentstorecover"
STATE = "kafka_server_kafkaserver_brokerstate"


class HeldDisk(RealDisk):
    """Real files; the first read of one of them waits until the test goes on."""

    def __init__(self, held: str):
        super().__init__()
        self.held = held
        self.reached, self.released = threading.Event(), threading.Event()

    def open(self, path: str, size_bytes: int) -> RealFile:
        return HeldFile(self, path, size_bytes)


class HeldFile(RealFile):
    __slots__ = ()

    _disk: Any

    def pread(self, size_bytes: int, position: int) -> bytes:
        disk = self._disk
        if self.path == disk.held and not disk.reached.is_set():
            disk.reached.set()
            assert disk.released.wait(LIMIT_S)
        return super().pread(size_bytes, position)


async def leave_unclean(config: BrokerConfig) -> None:
    """Fill all partitions of a broker, and end it without a clean stop."""
    node = Node(config, Platform(recover=None))
    await node.start()
    topic = NewTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    assert await node.broker.controller_channel.create_topics([topic]) == {TOPIC: None}
    for index in range(PARTITIONS):
        node.broker.partition(TOPIC, index).append(batch(b"a record"))
    node.abort()


class Starting:
    """A broker that starts on a thread, and is held while it recovers its second log."""

    def __init__(self, data: Path):
        self.data = str(data)
        self._config = BrokerConfig.of(
            {"log.dirs": self.data, "listeners": f"PLAINTEXT://{HOST}:0"}
        )
        self.disk = HeldDisk(f"{data}/{TOPIC}-1/{0:020d}.log")
        self._addresses: queue.Queue[Address | None] = queue.Queue()
        self.has_started, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        self.address = self._addresses.get(timeout=LIMIT_S)
        assert self.disk.reached.wait(LIMIT_S)

    async def _run(self) -> None:
        await leave_unclean(self._config)
        monitoring = Monitoring(Address(HOST, 0))
        monitoring.start()
        self._addresses.put(monitoring.address)
        disk, measures = self.disk, monitoring.measures
        node = Node(self._config, Platform(recover=None, disk=lambda: disk, measures=measures))
        await node.start()
        monitoring.serving(node)
        self.has_started.set()
        await asyncio.to_thread(self._end.wait, LIMIT_S)
        monitoring.stopping()
        await node.stop()
        monitoring.stop()

    def stop(self) -> None:
        self.disk.released.set()
        self._end.set()
        self._thread.join(LIMIT_S)

    def status(self, path: str) -> int:
        try:
            with urlopen(f"http://{self.address}{path}", timeout=5) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code

    def values(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Each sample by its name and its labels."""
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        with urlopen(
            Request(f"http://{self.address}/metrics", headers=accept), timeout=5
        ) as answer:
            families = openmetrics.text_string_to_metric_families(answer.read().decode())
            return {
                (sample.name, frozenset(sample.labels.items())): sample.value
                for family in families
                for sample in family.samples
            }


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[Starting]:
    starting = Starting(tmp_path / "data")
    yield starting
    starting.stop()


def test_recovery_is_reported_while_it_blocks_the_event_loop(starting: Starting) -> None:
    directory = frozenset({("dir", starting.data)})
    thread = directory | {("threadNum", "0")}
    found = starting.values()
    # The first is open, the second is being scanned.
    assert found[LOGS, directory] == 2
    assert found[SEGMENTS, thread] == 1
    assert found[STATE, frozenset()] == 1
    assert ("process_cpu_seconds_total", frozenset()) in found
    assert (starting.status("/health/live"), starting.status("/health/ready")) == (200, 503)

    starting.disk.released.set()
    assert starting.has_started.wait(LIMIT_S)
    found = starting.values()
    assert found[STATE, frozenset()] == 3
    # As in Kafka, whose beans are removed after the recovery.
    assert not {LOGS, SEGMENTS} & {name for name, _ in found}
    assert starting.status("/health/ready") == 200
