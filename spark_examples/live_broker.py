"""A context manager that runs a wirekafka broker in a child process."""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READY = "wirekafka ready: "


class BrokerFailed(Exception):
    """The broker did not start; the text is one sentence."""


@contextmanager
def live_broker(
    data: Path, *settings: str, stop_timeout_s: float = 30, start_timeout_s: float = 30
) -> Iterator[str]:
    """Yields HOST:PORT of a new broker on a free port; settings are `key=value`."""
    command = [sys.executable, "-m", "wirekafka", "serve", "--data", str(data)]
    command += ["--listen", "127.0.0.1:0"]
    command += [word for setting in settings for word in ("--set", setting)]
    log = data.with_name(f"{data.name}.log")
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        yield _address(process, log, start_timeout_s)
    finally:
        _stop(process, stop_timeout_s)


def free_address() -> str:
    """HOST:PORT where nothing listens on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def _address(process: subprocess.Popen[str], log: Path, timeout_s: float) -> str:
    assert process.stdout is not None
    too_slow = threading.Timer(timeout_s, process.kill)
    too_slow.start()
    try:
        for line in process.stdout:
            if line.startswith(READY):
                return line.removeprefix(READY).strip()
    finally:
        too_slow.cancel()
    process.wait()
    lines = log.read_text().strip().splitlines()
    raise BrokerFailed(f"the broker did not start: {lines[-1] if lines else 'it said nothing'}")


def _stop(process: subprocess.Popen[str], timeout_s: float) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()
