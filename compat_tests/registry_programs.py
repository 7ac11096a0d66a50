"""Stock clients of schema registries in four languages, fetched and built once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests import kafka_jars

_FOLDER = Path(__file__).with_name("registry_programs")
_FLINK = ("org.apache.flink", "flink-sql-avro-confluent-registry", "2.2.0")
"""Has Confluent's Java client, which is not on Maven Central by itself."""
_JAVA = (_FLINK, ("com.google.guava", "guava", "33.4.0-jre"), ("org.slf4j", "slf4j-nop", "2.0.16"))
_FETCH_S = 600


def python(program: str) -> list[str]:
    """The command of a program in Python. Skips the test without its package."""

    def fetch(directory: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(directory)]
        _run([*pip, "--requirement", str(requirements)], _FOLDER)

    requirements = _FOLDER / "python" / "requirements.txt"
    packages = _made("python", [requirements], fetch)
    return ["env", f"PYTHONPATH={packages}", sys.executable, str(_FOLDER / "python" / program)]


def javascript(program: str) -> list[str]:
    """The command of a program that Node runs. Skips the test without its packages."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are needed")
    names = "package.json", "package-lock.json"
    install = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]

    def fetch(directory: Path) -> None:
        directory.mkdir()
        for name in names:
            shutil.copy(_FOLDER / name, directory)
        _run(install, directory)

    packages = _made("npm", [_FOLDER / name for name in names], fetch)
    # Node finds packages from the folder of the program.
    shutil.copy(_FOLDER / program, packages / program)
    return [node, str(packages / program)]


def go(program: str) -> list[str]:
    """The command of a program in Go. Skips the test if it cannot be built."""
    compiler = shutil.which("go")
    if compiler is None:
        pytest.skip("go is needed")
    module = _FOLDER / "go"
    sources = [*sorted(module.glob("go.*")), *sorted((module / program).glob("*.go"))]

    def build(binary: Path) -> None:
        _run([compiler, "build", "-trimpath", "-o", str(binary), f"./{program}"], module)

    return [str(_made(f"go-{program}", sources, build))]


def java(program: str) -> list[str]:
    """The command of a program with Confluent's Java client. Skips the test without it."""
    try:
        jars = kafka_jars.fetched("registry-client-2.2.0", _JAVA)
        classes = kafka_jars.compiled(sorted((_FOLDER / "java").glob("*.java")), jars)
        path = f"{classes}:{kafka_jars.class_path(jars)}"
        return [kafka_jars.java(), *kafka_jars.QUICK_JVM, "-cp", path, program]
    except kafka_jars.JarsUnavailable as error:
        pytest.skip(str(error))


def _made(name: str, sources: Sequence[Path], make: Callable[[Path], None]) -> Path:
    """What is made from files, once for each of their texts. Skips the test if it cannot be."""
    texts = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()
    made = kafka_jars.CACHE / f"registry-{name}-{texts[:16]}"
    with kafka_jars.locked():
        if not made.exists():
            partial = made.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.unlink(missing_ok=True)
            make(partial)
            partial.rename(made)
    return made


def _run(command: Sequence[str], directory: Path) -> None:
    environment = {**os.environ, "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_FETCH_S,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{command[0]} {command[1]} has taken {_FETCH_S} s")
    if done.returncode:
        pytest.skip(f"{command[0]} {command[1]} failed: {done.stderr[-500:]}")
