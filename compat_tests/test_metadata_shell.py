"""kafka-metadata-shell reads wirekafka's metadata log and snapshots like those of Apache Kafka.

It is the shell of Kafka 4.3.1, the newest that is published, on directories at the level of 4.3.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.apache_kafka import SMALL_JVM, java_command, prepare, running
from compat_tests.java_tools import JavaTools
from compat_tests.tool_shell import ToolShell
from spark_examples.live_broker import live_broker
from tests import kafka_jars
from tests.eventually import eventually

SHOWN = (
    "/image/clientQuotas/user(alice)/producer_byte_rate",
    "/image/configs/TOPIC:shown/retention.ms",
    "/image/features/metadataVersion",
    "/image/producerIds/nextProducerId",
)
PARTITION = "/image/topics/byName/shown/2"
LAST = "last-user"
"""Whom the last change is about."""
OFTEN = "metadata.log.max.record.bytes.between.snapshots=1"


@pytest.mark.timeout(240)
def test_the_shell_shows_the_same_of_both_engines(tmp_path: Path, java_tools: JavaTools) -> None:
    jars = kafka_jars.previous_release_jars()
    ours, theirs = tmp_path / "wirekafka", tmp_path / "kafka"
    for scratch in (ours, theirs):
        scratch.mkdir()
    prepare(ours, SMALL_JVM, jars=jars)
    with live_broker(ours / "data", OFTEN) as bootstrap:
        change(java_tools, bootstrap)
        newest = eventually(lambda: snapshot(ours))
    port, command = prepare(theirs, SMALL_JVM, jars=jars)
    with running(command, theirs, port) as bootstrap:
        change(java_tools, bootstrap)
    log = Path("data", "__cluster_metadata-0", f"{0:020d}.log")
    assert values(ours, ours / log, PARTITION) == values(theirs, theirs / log, PARTITION)
    names, contents = paths(theirs, theirs / log), values(theirs, theirs / log, *SHOWN)
    assert contents[:2] == ["1000.0", "60000"]
    for file in (ours / log, newest):
        assert paths(ours, file) == names
        assert values(ours, file, *SHOWN) == contents


def change(tools: JavaTools, bootstrap: str) -> None:
    """Make the changes whose records the shell shows."""
    admin = ToolShell(tools, bootstrap)
    admin.run("kafka-topics", "--create", "--topic", "shown", "--partitions", "3")
    for kind, name, change in (
        ("topics", "shown", "retention.ms=60000"),
        ("users", "alice", "producer_byte_rate=1000"),
        ("users", LAST, "SCRAM-SHA-256=[password=secret]"),
    ):
        entity = ("--entity-type", kind, "--entity-name", name)
        admin.run("kafka-configs", "--alter", *entity, "--add-config", change)


def snapshot(scratch: Path) -> Path | None:
    """The snapshot that covers all changes, or None before it is written."""
    newest = max((scratch / "data" / "__cluster_metadata-0").glob("*-*.checkpoint"))
    return newest if LAST.encode() in newest.read_bytes() else None


def paths(scratch: Path, file: Path) -> list[str]:
    """What the shell's `find` prints, without the topics by their ids, which are random."""
    found = shell(scratch, file, "find", loaded=lambda text: "alice" in text and LAST in text)
    return [path for path in found.splitlines() if not path.startswith("./image/topics/byId/")]


def values(scratch: Path, file: Path, *names: str) -> list[str]:
    """The contents of paths, without the ids of log directories, which are random."""
    printed = shell(scratch, file, "cat", *names, loaded=lambda text: "No such file" not in text)
    return re.sub(r"directories=\[.{22}\]", "", printed).splitlines()


def shell(scratch: Path, file: Path, *words: str, loaded: Callable[[str], bool]) -> str:
    """The output of one command of the shell on a log segment or a snapshot.

    The shell loads the whole file at once, but may run the command before that: it is repeated
    until `loaded` recognizes the output of a loaded file.
    """
    java = java_command(scratch, kafka_jars.previous_release_jars())
    command = [*java, *SMALL_JVM, "org.apache.kafka.shell.MetadataShell", "--snapshot", str(file)]

    def printed() -> str | None:
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=True)
        return done.stdout if loaded(done.stdout) else None

    return eventually(printed)
