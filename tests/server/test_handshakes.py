"""The threads in which TLS handshakes are computed."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import threading
from unittest.mock import Mock
from weakref import ref

import pytest

from tests.certificates import Authority, client_context
from tests.eventually import eventually
from tests.server.tls_garbage import client_hello
from wirekafka.security.tls_context import Secured
from wirekafka.server.tls.tls import Handshakes, TlsLink

_WAIT_S = 10


@pytest.mark.parametrize(
    ("processors", "at_once"), [(None, 1), (1, 1), (2, 1), (3, 2), (4, 2), (64, 2)]
)
def test_handshakes_leave_a_processor_to_the_event_loop(
    processors: int | None, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    lock, together = threading.Lock(), threading.Barrier(at_once)
    active, most = 0, 0

    def step() -> None:
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
        together.wait(_WAIT_S)  # As many as are expected run at once.
        with lock:
            active -= 1

    async def run() -> None:
        handshakes, ended = Handshakes(), asyncio.Event()
        results: list[Exception | None] = []

        def done(result: Exception | None) -> None:
            results.append(result)
            if len(results) == 4:
                ended.set()

        for _ in range(4):
            handshakes.run(Mock(), step, done)
        await asyncio.wait_for(ended.wait(), _WAIT_S)
        handshakes.stop()
        assert results == [None] * 4

    asyncio.run(run())
    assert most == at_once


def test_a_step_that_fails_passes_its_error_on_and_does_not_end_its_thread() -> None:
    async def run() -> None:
        handshakes, ended = Handshakes(), asyncio.Event()
        errors: list[Exception | None] = []

        def fail() -> None:
            raise ssl.SSLError("broken")

        def done(error: Exception | None) -> None:
            errors.append(error)
            if len(errors) == 2:
                ended.set()

        handshakes.run(Mock(), fail, done)
        handshakes.run(Mock(), lambda: None, done)
        await asyncio.wait_for(ended.wait(), _WAIT_S)
        handshakes.stop()
        assert isinstance(errors[0], ssl.SSLError) and errors[1] is None

    asyncio.run(run())


def test_a_stop_ends_the_threads() -> None:
    def count() -> int:
        return sum(thread.name == "tls-handshake" for thread in threading.enumerate())

    async def run() -> None:
        before = count()
        handshakes, ended = Handshakes(), asyncio.Event()
        handshakes.run(Mock(), lambda: None, lambda _: ended.set())
        await asyncio.wait_for(ended.wait(), _WAIT_S)
        assert count() > before
        handshakes.stop()
        await asyncio.to_thread(eventually, lambda: count() <= before)

    asyncio.run(run())


def test_nothing_is_left_to_do_for_clients_that_leave_before_their_turn(
    authority: Authority,
) -> None:
    """They can come and go much faster than handshakes are computed."""
    begun = threading.Event()
    may_end = threading.Event()

    def first_step() -> None:
        begun.set()
        assert may_end.wait(_WAIT_S)

    async def run() -> None:
        owner = _Owner(authority)
        owner.handshakes.run(Mock(), first_step, Mock())
        assert await asyncio.to_thread(begun.wait, _WAIT_S)
        hello = client_hello(client_context(authority))
        left = [_come_and_leave(owner, hello) for _ in range(100)]
        kept = [each for each in left if each() is not None]
        assert len(kept) <= 4, "more than the few that the threads got ahead"
        ended = asyncio.Event()
        owner.handshakes.run(Mock(), lambda: None, lambda _: ended.set())
        may_end.set()
        await asyncio.wait_for(ended.wait(), _WAIT_S)
        owner.handshakes.stop()

    asyncio.run(run())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


class _Owner:
    """A listener that admits everyone."""

    def __init__(self, authority: Authority):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.issue("CN=broker", "127.0.0.1").pem())
        self._secured = Secured(context, frozenset())
        self.inbox = memoryview(bytearray(1 << 16))
        self.handshakes = Handshakes()
        self.begun = self.failed = self.departed = lambda *_: None

    def admit(self, link: TlsLink, transport: asyncio.Transport) -> Secured:
        return self._secured

    def established(self, link: TlsLink, transport: object) -> None:
        raise AssertionError("no handshake is completed")


def _come_and_leave(owner: _Owner, hello: bytes) -> ref[TlsLink]:
    link = TlsLink(owner)
    link.connection_made(Mock())
    link.get_buffer(-1)[: len(hello)] = hello
    link.buffer_updated(len(hello))
    link.connection_lost(None)
    return ref(link)


def test_the_interpreter_is_tuned_for_the_event_loop() -> None:
    script = (
        "import gc, sys; from wirekafka.server import run; run.tune_interpreter();"
        "assert sys.getswitchinterval() < 0.0004, sys.getswitchinterval();"
        "assert gc.isenabled() and gc.get_freeze_count() > 1000"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
