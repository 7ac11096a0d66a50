"""The HTTP server of the metrics listener, on threads of its own.

It can answer while the event loop is busy or blocked, as a health check must. The metrics are
collected on the event loop: no thread reads structures while they change.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Container, Iterable, Mapping
from socketserver import TCPServer
from threading import BoundedSemaphore, Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder, gzip_accepted

from wirekafka.config.address import Address
from wirekafka.config.endpoints.web_hosts import is_served
from wirekafka.metrics.deflated_parts import DeflatedParts
from wirekafka.server.bounded_http import BoundedHandler, BoundedServer
from wirekafka.server.descriptors import DESCRIPTORS, EXHAUSTED
from wirekafka.server.monitoring.health import NodeCondition
from wirekafka.server.net import cannot_listen

logger = logging.getLogger(__name__)

_PAUSE_S = 0.1
_MOST_SCRAPES = 8
"""Of metrics at once. Each takes a while, so that they must not take the threads of /health."""
_OPENMETRICS = "application/openmetrics-text"
_END = b"# EOF\n"
_PLAIN = "text/plain; charset=utf-8"
_JSON = "application/json"
_CHECKS = {
    "/health/live": "live",
    "/health/ready": "ready",
    "/live": "live",
    "/ready": "ready",
    "/health": "ready",
}
"""The names of the checks by path; the short paths are what people try."""
_OTHER_HOST = b"metrics are not served to this Host; see wirekafka.metrics.hosts\n"

Collect = Callable[[bool], Iterable[str]]
"""Returns the text of the metrics, in OpenMetrics if the argument is true; blocks. Raises
TimeoutError."""

Health = Callable[[], NodeCondition]
"""Checks the node; called on a thread of the server, and may block for a second."""

StartResponse = Callable[[str, list[tuple[str, str]]], Any]


class Application:
    """The WSGI application: /metrics, /health/live and /health/ready, with short paths for both."""

    def __init__(
        self, collect: Collect, health: Mapping[str, Health], hosts: Container[str] = frozenset()
    ):
        """Serve health and metrics of one node.

        `health` has the checks `live` and `ready`; `hosts` are the names in Host headers that
        metrics are served to, besides addresses.
        """
        self._collect = collect
        self._hosts = hosts
        self._scrapes = BoundedSemaphore(_MOST_SCRAPES)
        self._health = health
        self._deflated = DeflatedParts()
        self._process = CollectorRegistry()
        for kind in (ProcessCollector, PlatformCollector, GCCollector):
            kind(registry=self._process)

    def __call__(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        path, method = environ.get("PATH_INFO", ""), environ.get("REQUEST_METHOD", "")
        if method not in ("GET", "HEAD"):
            return _answer(start, "405 Method Not Allowed", _PLAIN, b"only GET\n")
        if path == "/metrics":
            return self._guarded(environ, start)
        check = _CHECKS.get(path)
        if check is not None:
            return _healthy(start, self._health[check]())
        return _answer(start, "404 Not Found", _PLAIN, b"/metrics, /health/live, /health/ready\n")

    def _guarded(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        if not is_served(environ.get("HTTP_HOST"), self._hosts):
            return _answer(start, "421 Misdirected Request", _PLAIN, _OTHER_HOST)
        if not self._scrapes.acquire(blocking=False):
            return _answer(start, "503 Service Unavailable", _PLAIN, b"too many scrapes\n")
        try:
            return self._metrics(environ, start)
        finally:
            self._scrapes.release()

    def _metrics(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        encode, content_type = choose_encoder(environ.get("HTTP_ACCEPT", ""))
        openmetrics = content_type.startswith(_OPENMETRICS)
        try:
            parts = self._collect(openmetrics)
        except TimeoutError:
            return _answer(start, "503 Service Unavailable", _PLAIN, b"the node is busy\n")
        head = encode(self._process).removesuffix(_END).decode()
        parts = [head, *parts, _END.decode() if openmetrics else ""]
        headers = []
        if gzip_accepted(environ.get("HTTP_ACCEPT_ENCODING", "")):
            body = self._deflated.gzip(parts)
            headers.append(("Content-Encoding", "gzip"))
        else:
            body = "".join(parts).encode()
        return _answer(start, "200 OK", content_type, body, headers)


def _healthy(start: StartResponse, condition: NodeCondition) -> Iterable[bytes]:
    is_up = condition.failure is None
    found = {"status": "up" if is_up else "down"}
    if condition.failure is not None:
        found["reason"] = condition.failure
    if condition.warning is not None:
        found["warning"] = condition.warning
    body = json.dumps(found).encode() + b"\n"
    return _answer(start, "200 OK" if is_up else "503 Service Unavailable", _JSON, body)


def _answer(
    start: StartResponse,
    status: str,
    content_type: str,
    body: bytes,
    headers: Iterable[tuple[str, str]] = (),
) -> Iterable[bytes]:
    start(status, [("Content-Type", content_type), ("Content-Length", str(len(body))), *headers])
    return [body]


class MonitoringEndpoint:
    """The listening socket and its threads."""

    def __init__(self, address: Address, application: Application):
        """Bind. Raises OSError."""
        self._server = _Server(address, application)
        self._thread = Thread(target=self._server.serve_forever, name="metrics", daemon=True)

    @property
    def address(self) -> Address:
        """The host and port that are bound."""
        host, port = self._server.server_address[:2]
        return Address(str(host), int(port))

    def start(self) -> None:
        """Accept requests."""
        self._thread.start()

    def stop(self) -> None:
        """Accept no more requests; requests in progress go on. Blocks for a moment."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(BoundedServer, WSGIServer):
    """Serves the application."""

    def __init__(self, address: Address, application: Application):
        try:
            super().__init__((address.host, address.port), _Handler)
        except OSError as error:
            raise cannot_listen(address, error, "--metrics") from error
        self.set_app(application)

    def server_bind(self) -> None:
        # Not HTTPServer's, which looks up the host's name: that may take seconds.
        TCPServer.server_bind(self)
        self.server_name = str(self.server_address[0])
        self.server_port = self.server_address[1]
        self.setup_environ()

    def get_request(self) -> Any:
        try:
            return DESCRIPTORS.accept(self.socket.accept, may_use_half=True)
        except OSError as error:
            if error.errno in EXHAUSTED:
                time.sleep(_PAUSE_S)  # The connection waits, so that it would be tried again now.
            raise


class _Handler(BoundedHandler, WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        logger.debug(format, *args)

    def address_string(self) -> str:
        return str(self.client_address[0])
