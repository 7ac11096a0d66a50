"""Kafka's tools for topics, options, features and the rest print the same of both engines.

The commands are in tool_commands.txt; test_group_tools.py has those for groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from compat_tests import apache_kafka
from compat_tests.java_tools import JavaTools
from compat_tests.tool_shell import ToolShell
from spark_examples.live_broker import live_broker

COMMANDS = [
    line
    for line in Path(__file__).with_name("tool_commands.txt").read_text().splitlines()
    if not line.startswith("#")
]
FILES: Mapping[str, str] = {
    "move.json": '{"version": 1, "topics": [{"topic": "t"}]}',
    "plan.json": '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}',
    "bad.json": '{"version": 1, "partitions": [{"topic": "no", "partition": 0, "replicas": [7]}]}',
    "delete.json": '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 5}]}',
}
MASKED = (
    (r"[ \t]+", " "),
    (r"127\.0\.0\.1[ :]\d+", "ADDRESS"),
    (r"\bA{22}\b", "NONE"),
    (r"\b[A-Za-z0-9_-]{22}\b", "ID"),
    (r"\b\d{13}\b", "TIME"),
    (r"20\d\d-\d\d-\d\d[T ][\d:.,]+", "TIME"),
    (r"\d+ ms ago", "AGO"),
    (r"(HighWatermark|Epoch): \d+", r"\1: N"),
    # The embedded controller has no listener.
    (r', "endpoints": \[.*?\]', ""),
    (r"1 (ID|NONE) \d+", r"1 \1 OFFSET"),
    (r"\n\s*at .*", ""),
)
"""What differs by broker, as patterns and what replaces them."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Path, str]]:
    """The directory and the address of Apache Kafka, and of wirekafka."""
    theirs, ours = (tmp_path_factory.mktemp(name) for name in ("kafka", "wirekafka"))
    port, command = apache_kafka.prepare(theirs, apache_kafka.SMALL_JVM)
    with (
        apache_kafka.running(command, theirs, port) as kafka,
        live_broker(ours / "data") as wirekafka,
    ):
        yield {theirs: kafka, ours: wirekafka}


@pytest.mark.timeout(300)
def test_every_command_prints_the_same(
    both: dict[Path, str], java_tools: JavaTools, tmp_path: Path
) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    differences = []
    shell = ToolShell(java_tools, "")
    for command in COMMANDS:
        tool, *words = command.format(files=tmp_path).split()
        theirs, ours = (
            masked("\n".join(shell.finish(tool, *words, bootstrap=address)), directory)
            for directory, address in both.items()
        )
        if theirs != ours:
            differences.append(f"{command}\n--- Kafka\n{theirs}\n--- ours\n{ours}")
    assert not differences, "\n\n".join([f"{len(differences)} differ", *differences])


def masked(printed: str, directory: Path) -> str:
    """The exit status, output and errors of a tool without what differs by broker."""
    printed = printed.replace(str(directory), "DIRECTORY")
    for pattern, replacement in MASKED:
        printed = re.sub(pattern, replacement, printed)
    return printed
