"""A real Apache Kafka broker, started from its jars as a cluster of one."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from uuid import uuid4

from tests import kafka_jars
from tests.eventually import Impossible, eventually
from tests.ports import free_ports
from wirekafka.log.checkpoints import uuid_text

CLUSTER_ID = "b1R0aGVyIG9yYWNsZSEhIQ"

LOG4J = """<Configuration><Appenders><File name="F" fileName="{directory}/server.log">
<PatternLayout pattern="%d %p %c %m%n"/></File></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="F"/></Root></Loggers></Configuration>
"""

PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={directory}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""

SMALL_JVM = ("-Xmx512m", *kafka_jars.QUICK_JVM)
SMALL_CLEANER = "log.cleaner.dedupe.buffer.size=20971520\n"


@contextmanager
def apache_kafka(directory: Path) -> Iterator[str]:
    """Yields HOST:PORT of an Apache Kafka broker that keeps its data in `directory`."""
    port, command = prepare(directory, SMALL_JVM, SMALL_CLEANER)
    with running(command, directory, port) as bootstrap:
        yield bootstrap


@contextmanager
def apache_kafka_on(
    data: Sequence[Path], scratch: Path, jars: Path | None = None, settings: str = ""
) -> Iterator[str]:
    """Yields HOST:PORT of Apache Kafka on directories of wirekafka, as `wirekafka handover` prints.

    `jars` select another release of Apache Kafka. `settings` are further lines of its properties.
    """
    port, _ = free_ports(2)
    printed = handover(*data, port=port)
    assert printed.returncode == 0, printed.stderr
    properties = scratch / "server.properties"
    properties.write_text(printed.stdout + SMALL_CLEANER + settings)
    command = [*java_command(scratch, jars), *SMALL_JVM, "kafka.Kafka", str(properties)]
    with running(command, scratch, port) as bootstrap:
        yield bootstrap


def handover(*data: Path, port: int = 19092) -> "subprocess.CompletedProcess[str]":
    """Run `wirekafka handover` for a broker that listens on `port` and the next port."""
    command = [sys.executable, "-m", "wirekafka", "handover", *map(str, data), "--port", str(port)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@contextmanager
def running(command: Sequence[str], directory: Path, port: int, *more_ports: int) -> Iterator[str]:
    """Start a broker with a command, its output in `directory`, and yield HOST:PORT.

    It accepts connections there and at `more_ports`: Kafka opens its listeners one by one.
    """
    process = started(command, directory)
    try:
        for each in (port, *more_ports):
            await_accepting(process, directory, each)
        yield f"127.0.0.1:{port}"
    finally:
        end(process)


def started(command: Sequence[str], directory: Path) -> "subprocess.Popen[bytes]":
    """The broker's process, its output going to its directory."""
    with (directory / "out.log").open("w") as out:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            # Ctrl-C in the terminal must reach only the tests, which then stop the broker.
            preexec_fn=os.setpgrp,
        )


def end(process: "subprocess.Popen[bytes]") -> None:
    """Stop the process with SIGTERM, and kill it if it does not end."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def await_accepting(process: "subprocess.Popen[bytes]", directory: Path, port: int) -> None:
    """Wait until the broker accepts connections. Raises KafkaDied."""
    eventually(lambda: _accepts(port) or _assert_alive(process, directory), timeout_s=60)


def prepare(
    directory: Path, jvm: Sequence[str], settings: str = "", jars: Path | None = None
) -> tuple[int, list[str]]:
    """Format `directory` for a new broker; return its port and the command that starts it."""
    port, controller_port = free_ports(2)
    properties = _write_properties(directory, port, controller_port, settings)
    java = java_command(directory, jars)
    if "log.dirs=" in settings:
        _run_format(java, properties)
    else:
        _write_formatted(directory / "data", jars)
    if not set(kafka_jars.QUICK_JVM) <= set(jvm):
        # As Kafka's own script starts it, which has no archive of classes.
        java = java_command(directory, jars or kafka_jars.kafka_jars())
    return port, [*java, *jvm, "kafka.Kafka", str(properties)]


def java_command(directory: Path, jars: Path | None = None) -> list[str]:
    """The command that runs a class of Kafka, or of other jars, with its log in `directory`."""
    log4j = directory / "log4j2.xml"
    log4j.write_text(LOG4J.format(directory=directory))
    classes = kafka_jars.class_path(jars or kafka_jars.kafka_jars())
    archive = () if jars else kafka_jars.class_archive(kafka_jars.kafka_jars(), _run_once)
    return [kafka_jars.java(), "-cp", classes, *archive, f"-Dlog4j2.configurationFile={log4j}"]


def _run_format(java: Sequence[str], properties: Path) -> None:
    """Run Kafka's StorageTool, which formats the log directories of a broker."""
    arguments = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
    subprocess.run([*java, *SMALL_JVM, *arguments], check=True, capture_output=True)


def _write_formatted(data: Path, jars: Path | None) -> None:
    """Write what StorageTool writes into the log directory, with an id of its own."""
    for name, content in formatted_files(jars).items():
        path = data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name == "meta.properties":
            directory_id = f"directory.id={uuid_text(uuid4().bytes)}"
            content = re.sub(rb"directory\.id=.*", directory_id.encode(), content)
        with path.open("xb") as file:
            file.write(content)


@cache
def formatted_files(jars: Path | None) -> dict[Path, bytes]:
    """The files of a log directory that StorageTool has formatted.

    Its JVM runs once for all brokers of this process: these differ in the directory's id only.
    """
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        port, controller_port = free_ports(2)
        properties = _write_properties(directory, port, controller_port)
        _run_format(java_command(directory, jars), properties)
        data = directory / "data"
        files = (path for path in data.rglob("*") if path.is_file())
        return {path.relative_to(data): path.read_bytes() for path in files}


def _write_properties(directory: Path, port: int, controller_port: int, settings: str = "") -> Path:
    """Write a broker's server.properties into its directory."""
    values = {"port": port, "controller_port": controller_port, "directory": directory}
    properties = directory / "server.properties"
    properties.write_text(PROPERTIES.format(**values) + settings)
    return properties


def _run_once(option: str) -> None:
    """Start and stop a broker with a JVM option."""
    with tempfile.TemporaryDirectory() as scratch:
        directory, jars = Path(scratch), kafka_jars.kafka_jars()
        port, command = prepare(directory, (*SMALL_JVM, option), SMALL_CLEANER, jars)
        process = started(command, directory)
        try:
            await_accepting(process, directory, port)
        finally:
            process.terminate()
            process.wait()


def _accepts(port: int) -> bool:
    with closing(socket.socket()) as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


def _assert_alive(process: "subprocess.Popen[bytes]", directory: Path) -> bool:
    if process.poll() is not None:
        raise KafkaDied((directory / "out.log").read_text()[-2000:])
    return False


class KafkaDied(Impossible):
    """A broker or controller ended while starting; the text is the end of what it wrote."""
