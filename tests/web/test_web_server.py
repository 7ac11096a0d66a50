"""The server of consoles and registries: what its clients see when it stops."""

from __future__ import annotations

import asyncio
import http.client
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from wirekafka.config.address import Address
from wirekafka.web.web_server import _GRACE_S, Service, WebServer


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_stop_cuts_off_a_request_without_a_line_in_the_log(
    has_begun: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    is_served = threading.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        if has_begun:
            headers = [(b"content-length", b"9")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
        is_served.set()
        await asyncio.Event().wait()

    @asynccontextmanager
    async def application() -> AsyncIterator[ASGIApp]:
        yield endless

    server = WebServer(Address("127.0.0.1", 0), Service(name="a test", application=application))
    server.start()
    server.wait_until_open()
    client = http.client.HTTPConnection("127.0.0.1", server.address.port, timeout=20)
    client.request("GET", "/")
    assert is_served.wait(20)
    server.stop()
    response = client.getresponse()
    if has_begun:
        with pytest.raises(http.client.IncompleteRead):
            response.read()
    else:
        assert (response.status, response.read()) == (503, b"The server is stopping\n")
    client.close()
    assert not _warnings(caplog)


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_stop_ends_live_output_at_once_and_without_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    has_ended = threading.Event()

    async def events() -> AsyncIterator[str]:
        try:
            yield "data: first\n\n"
            await asyncio.Event().wait()
        finally:
            has_ended.set()

    async def live(scope: Scope, receive: Receive, send: Send) -> None:
        response = StreamingResponse(events(), media_type="text/event-stream")
        await response(scope, receive, send)

    @asynccontextmanager
    async def application() -> AsyncIterator[ASGIApp]:
        yield live

    server = WebServer(Address("127.0.0.1", 0), Service(name="a test", application=application))
    server.start()
    server.wait_until_open()
    client = http.client.HTTPConnection("127.0.0.1", server.address.port, timeout=20)
    client.request("GET", "/")
    response = client.getresponse()
    assert response.readline() == b"data: first\n"
    began_s = time.monotonic()
    server.stop()
    assert time.monotonic() - began_s < _GRACE_S, "it was cut off like any request"
    assert has_ended.is_set()
    with pytest.raises(http.client.IncompleteRead):
        response.read()
    client.close()
    assert not _warnings(caplog)
