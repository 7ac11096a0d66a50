"""`wirekafka serve --brokers N` as a process, with its child processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from tests.eventually import eventually
from tests.ports import free_ports
from tests.raw_client import RawClient
from tests.server.serving import limited
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.server.supervisor import READY

_STOP_S = 60


class SeveralBrokers:
    """The parent process, which is killed with all of its children when the block ends."""

    def __init__(self, data: Path, brokers: int, *arguments: str, descriptors: int = 0):
        """With `descriptors`, no process may have more of them."""
        self._log = data.with_name(f"{data.name}.log")
        command = [sys.executable, "-m", "wirekafka", "serve", "--brokers", str(brokers)]
        first, *_, self.controller_port = free_ports(brokers + 1)
        command += ["--data", str(data), "--listen", f"127.0.0.1:{first}", *arguments]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"PYTHONDONTWRITEBYTECODE": ""},
                process_group=0,
                preexec_fn=limited(descriptors) if descriptors else None,
            )
        self._seen: dict[int, psutil.Process] = {}
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline().strip()

    @property
    def bootstrap(self) -> str:
        assert self.ready.startswith(READY), (self.ready, self.log)
        return self.ready.removeprefix(READY)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where each broker listens, by its id less 1."""
        pairs = (text.rpartition(":") for text in self.bootstrap.split(","))
        return [(host, int(port)) for host, _, port in pairs]

    @property
    def log(self) -> str:
        """What was written to standard error so far."""
        return self._log.read_text()

    def children(self) -> dict[int, psutil.Process]:
        """The processes of the nodes that run, by node id."""
        found = {}
        for process in psutil.Process(self.process.pid).children():
            ids = [word for word in process.cmdline() if word.startswith("node.id=")]
            if ids:
                found[int(ids[-1].removeprefix("node.id="))] = process
        self._seen |= {each.pid: each for each in found.values()}
        return found

    def listed(self) -> set[int]:
        """The ids of the brokers that every broker lists; empty if one is not up."""
        found = []
        for host, port in self.addresses:
            try:
                with RawClient(port, host=host) as client:
                    response = client.call(MetadataRequest(topics=[]), 9)
            except OSError:
                return set()
            found.append({broker.node_id for broker in response.brokers})
        return set.intersection(*found)

    def await_all(self) -> None:
        """Wait until every broker lists all."""
        wanted = set(range(1, len(self.addresses) + 1))
        eventually(lambda: self.listed() == wanted, timeout_s=60)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal to the parent's process group, and wait; the exit status."""
        self.children()
        os.killpg(self.process.pid, number)
        return self.process.wait(_STOP_S)

    def __enter__(self) -> SeveralBrokers:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.children()
            self.process.kill()
        self.process.communicate()
        for child in self._seen.values():
            if child.is_running():
                child.kill()
