"""Programs in one Java source file that read lines, and print lines in response."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from compat_tests.java_programs import program_classes
from compat_tests.java_tools import QUICK
from tests import kafka_jars


class JavaLines:
    """A running program, with Kafka's classes."""

    def __init__(self, process: subprocess.Popen[str]):
        self._process = process

    @classmethod
    @contextmanager
    def running(cls, source: Path) -> Iterator[Self]:
        """Start the program, and kill it in the end."""
        classes = f"{kafka_jars.class_path(kafka_jars.kafka_jars())}:{program_classes()}"
        with subprocess.Popen(
            [kafka_jars.java(), *QUICK, "-Dfile.encoding=UTF-8", "-cp", classes, source.stem],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        ) as process:
            try:
                yield cls(process)
            finally:
                process.kill()

    def send(self, text: str) -> None:
        """Send whole lines."""
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def next_line(self) -> str:
        """The next line that is printed, without its end."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the JVM has ended"
        return line.rstrip("\n")
