"""Clients that send garbage in place of a TLS handshake, or stall in one.

WIREKAFKA_GARBAGE and WIREKAFKA_STALLED set how many there are in a longer run.
"""

from __future__ import annotations

import os
import random
import resource
import socket
import ssl
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from tests.certificates import Authority, client_context
from tests.raw_client import RawClient
from tests.server.serving import Serving
from tests.server.tls_garbage import client_hello, garbage
from wirekafka.protocol.api_versions import ApiVersionsRequest

_GARBAGE = int(os.environ.get("WIREKAFKA_GARBAGE", "400"))
_STALLED = int(os.environ.get("WIREKAFKA_STALLED", "100"))
_LEAVING = max(2_000, _GARBAGE)
_LEFT_BEHIND_BYTES = 2_000
"""A handshake that is under way takes 8 KB and more."""
_MEMORY_BYTES = 64 << 20
_REQUESTS = 200
_SLOWEST_S = 0.25
"""Above this the hostile clients have delayed an honest client's median request."""
_HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def serving(tmp_path: Path, authority: Authority) -> Iterator[Serving]:
    """A broker process with a TLS listener."""
    store = authority.issue("CN=broker", _HOST, key="rsa").pem()
    options = {
        "listeners": f"SSL://{_HOST}:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store,
    }
    arguments = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * _STALLED + 500)), hard))
    with Serving(tmp_path / "data", *arguments, listen="") as running:
        yield running


class Honest(RawClient):
    """A client that measures how long its requests take."""

    def __init__(self, port: int, context: ssl.SSLContext):
        super().__init__(port, timeout_s=30)
        self.socket = context.wrap_socket(self.socket, server_hostname=_HOST)

    def median_s(self) -> float:
        durations = []
        for _ in range(_REQUESTS):
            start = time.perf_counter()
            self.call(ApiVersionsRequest(), 0)
            durations.append(time.perf_counter() - start)
        return statistics.median(durations)


def test_garbage_delays_no_other_client_and_is_logged_once_for_each_reason(
    serving: Serving, authority: Authority
) -> None:
    chance = random.Random(3)
    hello = client_hello(client_context(authority))
    with Honest(serving.port, client_context(authority)) as honest:
        honest.median_s()
        before = _memory_bytes(serving)
        for _ in range(_GARBAGE):
            _send_garbage(serving.port, garbage(chance, hello))
        assert honest.median_s() < _SLOWEST_S
        assert _memory_bytes(serving) - before < _MEMORY_BYTES
        with Honest(serving.port, client_context(authority)) as another:
            assert another.median_s() < _SLOWEST_S
    serving.stop()
    warnings = [line for line in serving.errors.splitlines() if "TLS handshake" in line]
    assert any("not TLS" in line for line in warnings)
    assert len(warnings) < 60, warnings[:5]
    assert "Traceback" not in serving.errors


def test_clients_that_leave_within_their_handshakes_leave_no_work_behind(
    serving: Serving, authority: Authority
) -> None:
    """Handshakes that nobody waits for would delay those of others, and take memory until then."""
    left = client_hello(client_context(authority)) + b"\x17\x03\x03\0\1\0"
    with Honest(serving.port, client_context(authority)) as honest:
        honest.median_s()
        before = _memory_bytes(serving)
        for _ in range(_LEAVING):
            _send_garbage(serving.port, left)
        assert _memory_bytes(serving) - before < _LEAVING * _LEFT_BEHIND_BYTES
        with Honest(serving.port, client_context(authority)) as another:
            assert another.median_s() < _SLOWEST_S


@pytest.mark.parametrize("stage", ["silent", "part of a hello", "after a hello"])
def test_stalled_handshakes_cost_little_and_delay_no_other_client(
    serving: Serving, authority: Authority, stage: str
) -> None:
    hello = client_hello(client_context(authority))
    sent = {"silent": b"", "part of a hello": hello[:100], "after a hello": hello}[stage]
    with (
        Honest(serving.port, client_context(authority)) as honest,
        ExitStack() as open_until_the_end,
    ):
        honest.median_s()
        before = _memory_bytes(serving)
        for _ in range(_STALLED):
            stalled = socket.create_connection((_HOST, serving.port))
            open_until_the_end.callback(stalled.close)
            stalled.sendall(sent)
        assert honest.median_s() < _SLOWEST_S
        assert _memory_bytes(serving) - before < _MEMORY_BYTES
        with Honest(serving.port, client_context(authority)) as another:
            assert another.median_s() < _SLOWEST_S
    assert "Traceback" not in serving.errors


def _send_garbage(port: int, data: bytes) -> None:
    with suppress(OSError), socket.create_connection((_HOST, port), timeout=5) as sender:
        sender.sendall(data)
        sender.shutdown(socket.SHUT_WR)
        while sender.recv(1 << 16):
            pass


def _memory_bytes(serving: Serving) -> int:
    return int(psutil.Process(serving.process.pid).memory_info().rss)
