"""The threads in which TLS handshakes are computed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from wirekafka.server.tls import Handshakes

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
        results: list[asyncio.Future[None]] = []

        def done(result: asyncio.Future[None]) -> None:
            results.append(result)
            if len(results) == 4:
                ended.set()

        for _ in range(4):
            handshakes.run(step, done)
        await asyncio.wait_for(ended.wait(), _WAIT_S)
        handshakes.stop()
        assert [each.exception() for each in results] == [None] * 4

    asyncio.run(run())
    assert most == at_once


def test_the_interpreter_is_tuned_for_the_event_loop() -> None:
    script = (
        "import gc, sys; from wirekafka.server import run; run._tune_interpreter();"
        "assert sys.getswitchinterval() < 0.002, sys.getswitchinterval();"
        "assert gc.isenabled() and gc.get_freeze_count() > 1000"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
