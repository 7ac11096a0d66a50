"""Stock clients of schema registries in other languages, unchanged, against ours."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests import registry_programs
from wirekafka import Broker

Command = Callable[[str], list[str]]
BUILD_S = 900
"""The time limit of a test that may have to fetch and build its program first."""
PROGRAMS: list[tuple[Command, str, tuple[str, ...]]] = [
    (
        registry_programs.python,
        "schema_client.py",
        ("avro", "levels", "json_schema", "deletes", "asynchronous"),
    ),
    (registry_programs.javascript, "kafkajs.js", ("avro", "avroReferences", "json", "protobuf")),
    (registry_programs.javascript, "confluent.js", ("api", "metadata", "avro", "json", "protobuf")),
    (
        registry_programs.go,
        "franz",
        ("api", "formats", "references", "levels", "modes", "contexts", "deletes"),
    ),
    (registry_programs.go, "confluent", ("api", "avro", "json", "protobuf", "deletes")),
    (registry_programs.java, "RegistryClient", ("api", "references", "levels", "modes", "deletes")),
]
SLOW_TO_BUILD = "go-confluent"
"""With librdkafka and all that its serializers use."""


def cases() -> Iterator[Any]:
    for command, program, parts in PROGRAMS:
        name = f"{command.__name__}-{program.partition('.')[0]}"
        marks = [pytest.mark.sweep] if name == SLOW_TO_BUILD else []
        yield pytest.param(command, program, parts, id=name, marks=marks)


@pytest.fixture(scope="module")
def registry_url() -> Iterator[str]:
    """A registry for all programs, whose subjects have names of their own."""
    with Broker(schema_registry=True) as broker:
        yield broker.schema_registry_url


@pytest.mark.timeout(BUILD_S)
@pytest.mark.parametrize(("command", "program", "parts"), list(cases()))
def test_a_stock_client_registers_looks_up_evolves_and_deletes_schemas(
    registry_url: str, command: Command, program: str, parts: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [*command(program), registry_url], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.split("\n") == [*(f"ok {part}" for part in parts), ""], done.stderr
    assert done.returncode == 0, done.stderr
