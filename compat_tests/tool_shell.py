"""Kafka's command-line tools in one JVM: a JVM for each command would take a second of CPU."""

from __future__ import annotations

import base64
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from compat_tests.java_tools import QUICK, SCRIPTS, JavaTools, ToolFailed

_SOURCE = Path(__file__).with_name("java") / "Tools.java"
_WITH_A_JVM = (
    "kafka-consumer-perf-test",
    "kafka-e2e-latency",
    "kafka-producer-perf-test",
    "kafka-verifiable-consumer",
    "kafka-verifiable-producer",
)
"""Tools that have a JVM of their own: threads of the JVM would distort what they measure."""


class SharedTools(JavaTools):
    """The command-line tools of one Kafka release, whose commands share a JVM."""

    def __init__(self, jars: Path, scratch: Path):
        super().__init__(jars, scratch)
        self._process: subprocess.Popen[bytes] | None = None
        self._is_in_use = threading.Lock()

    def finish(
        self,
        tool: str,
        *arguments: str,
        stdin: str = "",
        timeout_s: float = 120,
        jvm: Sequence[str] = QUICK,
    ) -> subprocess.CompletedProcess[str]:
        """Run a tool to its end, and return its output and exit status."""
        if tool not in SCRIPTS or tool in _WITH_A_JVM or jvm != QUICK:
            return super().finish(tool, *arguments, stdin=stdin, timeout_s=timeout_s, jvm=jvm)
        fields = (stdin, SCRIPTS[tool], *arguments)
        line = b"\t".join(base64.b64encode(field.encode()) for field in fields)
        with self._is_in_use:
            answer = self._answer(line + b"\n", timeout_s)
        if not answer:
            self.close()
            raise ToolFailed(f"{tool} ended the JVM, or took more than {timeout_s} s")
        status, *texts = answer.rstrip(b"\n").split(b"\t")
        output, errors = (base64.b64decode(text).decode() for text in texts)
        return subprocess.CompletedProcess([tool, *arguments], int(status), output, errors)

    def close(self) -> None:
        """End the JVM; the next command starts another one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _answer(self, line: bytes, timeout_s: float) -> bytes:
        """The line that the JVM returns; empty if it ends."""
        if self._process is None:
            self._process = subprocess.Popen(
                self.command(str(_SOURCE)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(timeout_s, process.kill)
        timer.start()
        try:
            process.stdin.write(line)
            process.stdin.flush()
            return process.stdout.readline()
        finally:
            timer.cancel()


class ToolShell:
    """Runs tools with the same brokers."""

    def __init__(self, tools: JavaTools, bootstrap: str):
        self._tools = tools
        self.bootstrap = bootstrap

    def run(self, tool: str, *arguments: str, bootstrap: str | None = None) -> str:
        """The standard output of a tool; raises ToolFailed when its exit status is not 0."""
        return self._tools.run(tool, *self._words(arguments, tool, bootstrap))

    def finish(
        self, tool: str, *arguments: str, bootstrap: str | None = None
    ) -> tuple[str, str, str]:
        """The exit status, standard output and standard error of a tool."""
        done = self._tools.finish(tool, *self._words(arguments, tool, bootstrap))
        return str(done.returncode), done.stdout, done.stderr

    def _words(self, arguments: tuple[str, ...], tool: str, bootstrap: str | None) -> list[str]:
        server = ("--bootstrap-server", bootstrap or self.bootstrap)
        # It alone takes the server after its subcommand.
        before = 1 if tool == "kafka-cluster" else 0
        return [*arguments[:before], *server, *arguments[before:]]
