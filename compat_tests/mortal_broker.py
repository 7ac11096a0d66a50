"""A wirekafka broker that tests kill and restart at the same address on the same data."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from spark_examples.live_broker import READY, BrokerFailed
from tests.ports import free_ports


class MortalBroker:
    """`kill` is `kill -9`; `pause` and `go_on` stop and continue the process."""

    def __init__(self, data: Path, *settings: str):
        self._data = data
        self._settings = settings
        [self._port] = free_ports(1)
        self._process: subprocess.Popen[str] | None = None
        self.log = data.with_name(f"{data.name}.log")

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the process, and wait until it accepts connections."""
        self.launch()
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(READY):
                return
        raise BrokerFailed(f"the broker did not start: {self.log.read_text()[-2000:]}")

    def launch(self) -> None:
        """Start the process without waiting for it."""
        command = [
            sys.executable,
            "-m",
            "wirekafka",
            "serve",
            "--data",
            str(self._data),
            "--listen",
            self.bootstrap,
        ]
        command += [word for setting in self._settings for word in ("--set", setting)]
        with self.log.open("a") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the process in order, if it runs."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Suspend the process with SIGSTOP."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Resume the process with SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        process.send_signal(how)
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
        self._process = None
