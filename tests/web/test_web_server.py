"""The server of consoles and registries: what its clients see when it stops."""

from __future__ import annotations

import asyncio
import http.client
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from wirekafka.config.address import Address
from wirekafka.web.web_server import Service, WebServer


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_stop_cuts_off_a_request_without_a_traceback(
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
    assert "Traceback" not in caplog.text
