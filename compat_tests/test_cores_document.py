"""The commands in docs/how-to/use-all-cores.md work as written, with Kafka's broker too."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, java_command
from compat_tests.java_tools import JavaTools
from tests.eventually import eventually
from tests.ports import free_ports

TEXT = (Path(__file__).resolve().parent.parent / "docs" / "how-to" / "use-all-cores.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)
READY = "wirekafka ready: "
RECORDS = 400


class Reader:
    """Somebody who follows the document: in a directory of their own, on free ports."""

    def __init__(self, directory: Path):
        self.directory = directory
        first, *_ = free_ports(4)
        controller, elsewhere = free_ports(2)
        self._ports = {"9092": first, "9093": first + 1, "19092": controller, "9192": elsewhere}
        self.bootstrap = f"127.0.0.1:{first}"
        self.blocks = [(language, self._on_free_ports(text)) for language, text in BLOCKS]
        self._serving: list[subprocess.Popen[str]] = []
        programs = directory / "bin"
        programs.mkdir()
        _write_script(programs / "wirekafka", [sys.executable, "-m", "wirekafka"])
        self.environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def run(self, block: str) -> None:
        """Run a block; commands that serve stay, in place of those that served before."""
        commands = block.strip().splitlines()
        if not commands[0].startswith("wirekafka serve"):
            if commands[0].startswith("mv "):
                self.stop()
            subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", block],
                cwd=self.directory,
                env=self.environment,
                check=True,
                timeout=120,
            )
            return
        self.stop()
        for command in commands:
            self.serve(shlex.split(command))

    def serve(self, words: list[str]) -> None:
        process = subprocess.Popen(
            words, cwd=self.directory, env=self.environment, stdout=subprocess.PIPE, text=True
        )
        self._serving.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().startswith(READY)

    def stop(self) -> None:
        """Stop all that serve: that with the controller, which was started first, last."""
        while self._serving:
            self.stop_last()

    def stop_last(self) -> None:
        process = self._serving.pop()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0

    def _on_free_ports(self, text: str) -> str:
        return re.sub(
            r"(127\.0\.0\.1:)(\d+)", lambda found: found[1] + str(self._ports[found[2]]), text
        )


def _write_script(path: Path, command: list[str]) -> None:
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)


def brokers(bootstrap: str) -> set[int]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).brokers)


def leaders(bootstrap: str) -> set[int]:
    topic = AdminClient({"bootstrap.servers": bootstrap}).list_topics("orders", 20).topics["orders"]
    return {partition.leader for partition in topic.partitions.values()}


def read(bootstrap: str, group: str) -> set[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    found: set[bytes] = set()

    def is_read() -> bool:
        found.update(message.value() for message in consumer.consume(RECORDS, 0.2))
        return len(found) >= RECORDS

    eventually(is_read, timeout_s=60, every_s=0)
    consumer.close()
    return found


@contextmanager
def apache_kafka(directory: Path, properties: str) -> Iterator[None]:
    """Apache Kafka with these properties, in the directory."""
    file = directory / "server.properties"
    file.write_text(properties + SMALL_CLEANER)
    command = [*java_command(directory), *SMALL_JVM, "kafka.Kafka", str(file)]
    with (directory / "kafka.log").open("w") as log:
        process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)
    try:
        yield
        process.terminate()
        assert process.wait(60) in (0, 143)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    try:
        yield reader
    finally:
        for process in reversed(reader._serving):
            process.terminate()  # A parent stops its nodes.
            process.wait(90)


def test_brokers_are_added_loaded_and_moved_to_other_machines(
    reader: Reader, java_tools: JavaTools
) -> None:
    commands = iter([text for language, text in reader.blocks if language == "sh"])
    reader.run(next(commands))
    shown = java_tools.run("kafka-broker-api-versions", "--bootstrap-server", reader.bootstrap)
    assert len(re.findall(r"\(id: \d+ rack: null", shown)) == 2
    reader.run(next(commands))
    assert leaders(reader.bootstrap) == {1, 2}
    producer = Producer({"bootstrap.servers": reader.bootstrap})
    for number in range(RECORDS):
        producer.produce("orders", b"%d" % number)
    assert producer.flush(30) == 0
    reader.run(next(commands))
    settings = reader.directory / "secured-security" / "client.properties"
    eventually(settings.exists)
    secured = ("--bootstrap-server", reader.bootstrap, "--command-config", str(settings))
    shown = java_tools.run("kafka-broker-api-versions", *secured)
    assert len(re.findall(r"\(id: \d+ rack: null", shown)) == 2
    reader.run(next(commands))
    assert brokers(reader.bootstrap) == {1, 2, 3}
    reader.run(next(commands))
    eventually(lambda: leaders(reader.bootstrap) == {1, 2, 3}, timeout_s=60)
    reader.run(next(commands))
    assert sorted(path.name for path in (reader.directory / "cluster").iterdir()) == [
        "broker1",
        "broker2",
        "controller",
    ]
    reader.run(next(commands))
    assert next(commands, None) is None
    assert brokers(reader.bootstrap) == {1, 2, 3}
    expected = {b"%d" % number for number in range(RECORDS)}
    assert read(reader.bootstrap, "first") == expected
    reader.stop_last()
    [properties] = [text for language, text in reader.blocks if language == "properties"]
    with apache_kafka(reader.directory, properties):
        eventually(lambda: brokers(reader.bootstrap) == {1, 2, 3}, timeout_s=90)
        eventually(lambda: leaders(reader.bootstrap) == {1, 2, 3}, timeout_s=60)
        assert read(reader.bootstrap, "second") == expected
    reader.run(f"wirekafka cluster unregister 3 -b {reader.bootstrap}")
