"""Kafka's command-line tools in one JVM: starting one for each command would take seconds."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat_tests.java_tools import SCRIPTS, JavaTools, ToolFailed

_SOURCE = Path(__file__).with_name("java") / "Tools.java"


class ToolShell:
    """Runs one tool after the other, each with the same brokers."""

    def __init__(self, process: subprocess.Popen[str], bootstrap: str):
        self._process = process
        self.bootstrap = bootstrap

    @classmethod
    @contextmanager
    def running(cls, tools: JavaTools, bootstrap: str) -> Iterator[ToolShell]:
        """A shell whose JVM ends with the `with` block."""
        process = subprocess.Popen(
            tools.command(str(_SOURCE)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield cls(process, bootstrap)
        finally:
            process.kill()
            process.wait()

    def run(self, tool: str, *arguments: str, bootstrap: str | None = None) -> str:
        """The standard output of a tool; raises ToolFailed when its exit status is not 0."""
        status, output, errors = self.finish(tool, *arguments, bootstrap=bootstrap)
        if status != "0":
            raise ToolFailed(f"{tool} exited with {status}\n{output}{errors}")
        return output

    def finish(
        self, tool: str, *arguments: str, bootstrap: str | None = None
    ) -> tuple[str, str, str]:
        """The exit status, standard output and standard error of a tool."""
        assert self._process.stdin is not None and self._process.stdout is not None
        server = ("--bootstrap-server", bootstrap or self.bootstrap)
        # It alone takes the server after its subcommand.
        before = 1 if tool == "kafka-cluster" else 0
        words = [SCRIPTS[tool], *arguments[:before], *server, *arguments[before:]]
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        status, *texts = self._process.stdout.readline().rstrip("\n").split("\t")
        output, errors = (base64.b64decode(text).decode() for text in texts)
        return status, output, errors
