"""A node with a log directory that lacks its identity does not start, as Apache Kafka."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from compat_tests.apache_kafka import SMALL_JVM, prepare


@pytest.fixture(scope="module")
def formatted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sequence[str]]:
    """Where Kafka's tool has formatted `first` and `second`, and the command that starts Kafka."""
    path = tmp_path_factory.mktemp("formatted")
    _, command = prepare(path, SMALL_JVM, f"log.dirs={path}/first,{path}/second\n")
    return path, command


def unmount(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()


def empty(directory: Path) -> None:
    (directory / "meta.properties").write_text("")


@pytest.mark.parametrize(
    ("change", "kafkas", "ours"),
    [
        (unmount, "No `meta.properties` found in {}", "{} has no meta.properties, and"),
        (shutil.rmtree, "No `meta.properties` found in {}", "{} has no meta.properties, and"),
        (empty, "Error: node ID not found in {}", "{}/meta.properties is empty"),
    ],
    ids=["not mounted", "vanished", "empty identity"],
)
def test_a_log_directory_without_an_identity_is_refused(
    formatted: tuple[Path, Sequence[str]],
    tmp_path: Path,
    change: Callable[[Path], None],
    kafkas: str,
    ours: str,
) -> None:
    path, command = formatted
    second, kept = path / "second", tmp_path / "second"
    shutil.copytree(second, kept)
    change(second)
    own = [sys.executable, "-m", "wirekafka", "serve", "--config", command[-1]]
    by_kafka, by_us = (
        subprocess.run(each, capture_output=True, text=True, timeout=120, check=False)
        for each in (command, own)
    )
    left = list(second.iterdir()) if second.exists() else []
    shutil.rmtree(second, ignore_errors=True)
    shutil.copytree(kept, second)
    assert (by_kafka.returncode, by_us.returncode) == (1, 1)
    assert kafkas.format(second) in (path / "server.log").read_text()
    assert ours.format(second) in by_us.stderr
    assert [each.name for each in left] == (["meta.properties"] if change is empty else [])
