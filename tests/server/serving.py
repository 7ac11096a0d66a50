"""`wirekafka serve` as a process of its own."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.raw_client import RawClient


def limited(descriptors: int) -> Callable[[], None]:
    """What limits the descriptors of a new process, as `ulimit -n` does."""
    return partial(resource.setrlimit, resource.RLIMIT_NOFILE, (descriptors, descriptors))


class Serving:
    """A broker process; `port` is where its first listener is."""

    def __init__(
        self,
        data: Path,
        *arguments: str,
        listen: str = "127.0.0.1:0",
        environment: dict[str, str] | None = None,
        descriptors: int = 0,
        under: Sequence[str] = (),
    ):
        """With `descriptors`, the process may not have more of them.

        `under` is the beginning of a command that executes what follows, as `env` does.
        """
        self.process = subprocess.Popen(
            [
                *under,
                sys.executable,
                "-m",
                "wirekafka",
                "serve",
                "--data",
                str(data),
                *(["--listen", listen] if listen else []),
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
            preexec_fn=limited(descriptors) if descriptors else None,
        )
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline().strip()
        self.errors = ""

    @property
    def port(self) -> int:
        assert self.ready.startswith("wirekafka ready: "), (self.ready, self.stop())
        return int(self.ready.rpartition(":")[2])

    def client(self) -> RawClient:
        return RawClient(self.port)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal it and wait; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, self.errors = self.process.communicate(timeout=20)
        return self.process.returncode

    def output(self) -> tuple[str, str]:
        """What the process prints from now on until it ends, to both streams.

        `communicate` would lose what was read together with the first line.
        """
        assert self.process.stdout is not None and self.process.stderr is not None
        with ThreadPoolExecutor(1) as apart:
            log = apart.submit(self.process.stderr.read)
            printed = self.process.stdout.read()
            self.process.wait(60)
            return printed, log.result()

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGKILL)
