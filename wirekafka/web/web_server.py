"""Runs an HTTP server on a thread of its own, with an event loop of its own."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wirekafka.config.address import Address
from wirekafka.server.descriptors import GuardedSocket
from wirekafka.server.net import cannot_listen
from wirekafka.server.stop_signals import stop_signals
from wirekafka.web.connection import CONNECTION, HttpConnection

_ALIVE_S = 1.0
"""How often the process looks whether its server has failed."""
_STOP_S = 3.0
_GRACE_S = 1.0
"""How long requests in progress have at a stop."""
_FLUSH_S = 0.5
"""How long a client has to take what was written of a response that is cut off."""
_LIVE = b"text/event-stream"

OpenApplication = Callable[[], AbstractAsyncContextManager[ASGIApp]]
"""Opens the application on the server's event loop; it is closed after the last request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """An application, and how it is served."""

    name: str
    """As in "cannot listen at ... for the console"."""
    application: OpenApplication
    connection: type[HttpConnection] = HttpConnection
    tls: ssl.SSLContext | None = None


class WebServer:
    """Listens from `__init__` on, serves between `start` and `stop`.

    Connections that are made before the application is open wait for it.
    """

    def __init__(self, address: Address, service: Service) -> None:
        """Bind the address. Raises OSError."""
        self._service = service
        self._socket = _bound(address, service.name)
        host, port = self._socket.getsockname()[:2]
        self.address = Address(str(host), int(port))
        self.failure: BaseException | None = None
        """Why the application could not be opened, or why its server has ended."""
        self._server: uvicorn.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving: asyncio.Task[None] | None = None
        self._open = threading.Event()
        self._lock = threading.Lock()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=service.name, daemon=True)

    def start(self) -> None:
        """Open the application and accept requests."""
        self._thread.start()

    def wait_until_open(self) -> None:
        """Block until requests are accepted. Raises what the application's opening has raised."""
        self._open.wait()
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """Accept no more requests; live output ends. Blocks for at most a few seconds."""
        with self._lock:
            self._is_stopping = True
            if self._server is not None:
                self._server.should_exit = True
            elif self._loop is not None and self._serving is not None:
                self._loop.call_soon_threadsafe(self._serving.cancel)
        if self._thread.is_alive():
            self._thread.join(_STOP_S)
        self._socket.close()

    def serve(self, ready: Callable[[], None]) -> None:
        """Serve until a signal stops the process, whose main thread calls this.

        `ready` is called once a signal would stop it cleanly. Raises the failure of the
        application's opening, and RuntimeError if the server fails, after its traceback was
        printed.
        """
        should_stop = threading.Event()
        for number in stop_signals():
            signal.signal(number, lambda *_: should_stop.set())
        self.start()
        while not self._open.wait(_ALIVE_S / 10) and not should_stop.is_set():
            pass
        if self.failure is not None:
            self._socket.close()
            raise self.failure
        if not should_stop.is_set():
            ready()
        while not should_stop.wait(_ALIVE_S):
            if not self._thread.is_alive():
                raise RuntimeError(f"the server of {self._service.name} has ended by itself")
        self.stop()

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._serve())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self.failure = error
            if self._open.is_set():
                raise
        finally:
            # Otherwise clients would wait in the backlog for a server that is not there.
            self._socket.close()
            self._open.set()

    async def _serve(self) -> None:
        with self._lock:
            if self._is_stopping:
                return
            self._loop, self._serving = asyncio.get_running_loop(), asyncio.current_task()
        async with self._service.application() as application:
            config = uvicorn.Config(
                _ending_calmly(application),
                http=self._service.connection,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=2,  # Later than `_GRACE_S`: uvicorn would log an error.
            )
            config.load()
            config.ssl = self._service.tls
            with self._lock:
                if self._is_stopping:
                    return
                self._server = _Server(config)
            self._open.set()
            await self._server.serve(sockets=[self._socket])


class _Server(uvicorn.Server):
    """Ends what is still in progress some time after a stop has begun."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        cutting = asyncio.get_running_loop().call_later(_GRACE_S, self._cut_off)
        try:
            await super().shutdown(sockets)
        finally:
            cutting.cancel()

    def _cut_off(self) -> None:
        for task in list(self.server_state.tasks):
            task.cancel()


def _ending_calmly(application: ASGIApp) -> ASGIApp:
    """An application whose requests end without a line in the log if a stop cuts them off."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        connection: HttpConnection = scope["state"][CONNECTION]
        has_begun = False

        async def noted(message: Message) -> None:
            nonlocal has_begun
            if not has_begun:
                has_begun = True
                types = [
                    value for name, value in message.get("headers", ()) if name == b"content-type"
                ]
                connection.is_live = bool(types) and types[0].startswith(_LIVE)
            await send(message)

        try:
            await application(scope, receive, noted)
        except asyncio.CancelledError:
            # Only a stop cancels a request, once it has lasted for its time limit. What has
            # begun is cut off, so that the client does not take it for the whole.
            if has_begun:
                await _closed(connection, receive)
            else:
                headers = {"connection": "close"}
                answer = PlainTextResponse("The server is stopping\n", 503, headers)
                await answer(scope, receive, send)

    return served


async def _closed(connection: HttpConnection, receive: Receive) -> None:
    """Close a connection in the midst of its response, and wait until it is closed."""
    connection.transport.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(_FLUSH_S):
            while (await receive())["type"] != "http.disconnect":
                pass
    connection.transport.abort()


def _bound(address: Address, purpose: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    bound = GuardedSocket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted connections inherit it. asyncio does not set it: a page's body would wait until
        # the client acknowledges its head, 40 ms.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound.bind((address.host, address.port))
        bound.listen(64)
    except OSError as error:
        bound.close()
        raise cannot_listen(address, error, purpose) from error
    return bound
