"""A cluster and its mirror: both brokers can be killed, and their batches are compared."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, await_accepting, prepare, started
from tests.eventually import eventually
from wirekafka.client.client import Client, CliError
from wirekafka.client.fetcher import NAMED, FetchLimits, fetch_request
from wirekafka.codec.batch import batches
from wirekafka.protocol.fetch import FetchResponse

REFRESH = ("wirekafka.mirror.refresh.ms=300",)
"""The mirror's settings in tests."""


class MortalKafka:
    """An Apache Kafka that is killed and started again at the same address on the same data."""

    def __init__(self, directory: Path, settings: str = "", jars: Path | None = None):
        """`jars` select another release."""
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self.port, self._command = prepare(directory, SMALL_JVM, SMALL_CLEANER + settings, jars)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the process, and wait until it serves clients.

        Kafka 3.3 accepts connections before it is registered at its controller, and librdkafka
        looks only once where the controller is.
        """
        self._process = started(self._command, self._directory)
        await_accepting(self._process, self._directory, self.port)
        eventually(self._is_registered, timeout_s=60)

    def _is_registered(self) -> bool:
        try:
            with Client(self.bootstrap) as client:
                return bool(client.metadata([]).brokers)
        except CliError:
            return False

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End the process, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()


def batches_of(bootstrap: str, topic: str, partition: int = 0, start: int = 0) -> list[bytes]:
    """All batches of a partition up to its high watermark, as a consumer gets them."""
    found: list[bytes] = []
    with Client(bootstrap) as client:
        place = (topic, partition)
        [position] = client.offsets([place], -2).values()
        position = max(position, start)
        [end] = client.offsets([place], -1).values()
        [led] = [
            each for each in client.topic(topic).partitions if each.partition_index == partition
        ]
        limits = FetchLimits(committed_only=False, wait_ms=100, partition_bytes=16 << 20)
        while position < end:
            request = fetch_request(topic, {partition: position}, limits)
            response = client.node(led.leader_id).send(request, FetchResponse, most=NAMED)
            [data] = response.responses[0].partitions
            assert not data.error_code, data.error_code
            records = data.records or b""
            whole = list(batches(records))
            if not whole:
                break
            for at, header in whole:
                found.append(bytes(records[at : at + header.size_bytes]))
                position = header.end_offset
    return found


def offsets_of(bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
    """The start and the end of a partition's log."""
    with Client(bootstrap) as client:
        place = (topic, partition)
        [start] = client.offsets([place], -2).values()
        [end] = client.offsets([place], -1).values()
    return start, end


def await_equal(source: str, mirror: str, *topics: str, timeout_s: float = 60) -> None:
    """Wait until the ends of all partitions are equal, and compare their batches."""
    for topic in topics:
        with Client(source) as client:
            indexes = [each.partition_index for each in client.topic(topic).partitions]
        for index in indexes:
            eventually(partial(_are_level, source, mirror, topic, index), timeout_s=timeout_s)
            assert batches_of(source, topic, index) == batches_of(mirror, topic, index), topic


def _are_level(source: str, mirror: str, topic: str, index: int) -> bool:
    try:
        with Client(mirror) as client:
            [found] = client.metadata([topic]).topics
            if found.error_code or len(found.partitions) <= index:
                return False
        return offsets_of(source, topic, index) == offsets_of(mirror, topic, index)
    except CliError:
        return False


def wirekafka(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of wirekafka."""
    command = [sys.executable, "-m", "wirekafka", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def status_of(bootstrap: str) -> Any:
    """What `wirekafka mirror status --json` prints."""
    printed = wirekafka("mirror", "status", "-b", bootstrap, "--json")
    assert printed.returncode == 0, printed.stderr
    return json.loads(printed.stdout)
