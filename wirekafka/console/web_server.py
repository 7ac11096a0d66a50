"""Runs a console's HTTP server on a thread of its own, with an event loop of its own."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable

import uvicorn

from wirekafka.config.address import Address
from wirekafka.console import app
from wirekafka.console.access import OpenSource, SessionAccounts
from wirekafka.console.connection import HttpConnection
from wirekafka.console.settings import ConsoleSettings
from wirekafka.server.descriptors import GuardedSocket
from wirekafka.server.net import cannot_listen
from wirekafka.server.stop_signals import stop_signals

_ALIVE_S = 1.0
"""How often the process looks whether its server has failed."""
_STOP_S = 3.0


class WebServer:
    """Listens from `__init__` on, serves between `start` and `stop`."""

    def __init__(self, settings: ConsoleSettings, open_source: OpenSource) -> None:
        """Bind the address. Raises OSError."""
        self._socket = _bound(settings.address)
        host, port = self._socket.getsockname()[:2]
        self.address = Address(str(host), int(port))
        self._settings, self._open_source = settings, open_source
        self._server: uvicorn.Server | None = None
        self._thread = threading.Thread(target=self._run, name="console", daemon=True)

    def start(self) -> None:
        """Accept requests."""
        self._thread.start()

    def stop(self) -> None:
        """Accept no more requests; live output ends. Blocks for at most a few seconds."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_STOP_S)
        self._socket.close()

    def serve(self, ready: Callable[[], None]) -> None:
        """Serve until a signal stops the process, whose main thread calls this.

        `ready` is called once a signal would stop it cleanly. Raises RuntimeError if the server
        fails, after its traceback was printed.
        """
        should_stop = threading.Event()
        for number in stop_signals():
            signal.signal(number, lambda *_: should_stop.set())
        self.start()
        ready()
        while not should_stop.wait(_ALIVE_S):
            if not self._thread.is_alive():
                raise RuntimeError("the server of the console has ended by itself")
        self.stop()

    def _run(self) -> None:
        accounts = SessionAccounts(self._settings, self._open_source)
        application = app.create(self._settings, accounts)
        config = uvicorn.Config(
            application,
            http=HttpConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        try:
            with asyncio.Runner() as runner:
                runner.run(self._server.serve(sockets=[self._socket]))
        finally:
            accounts.close()


def _bound(address: Address) -> socket.socket:
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
        raise cannot_listen(address, error, "the console") from error
    return bound
