"""The control port: faults, clock and recorded traffic over HTTP, for tests in any language."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from wirekafka.config.address import Address
from wirekafka.config.endpoints.web_hosts import is_served
from wirekafka.errors import KafkaError
from wirekafka.server.bounded_http import RESPONSE_S, BoundedHandler, BoundedServer
from wirekafka.testing.control import Control

_MOST_BYTES = 1 << 20


class ControlPort:
    """An HTTP server that controls a broker or a cluster under test, on loopback by default.

    It has no authentication, so it is started only on request.
    """

    def __init__(self, control: Control, host: str = "127.0.0.1", port: int = 0):
        class Handler(_Handler):
            answer = control.answer
            hosts = frozenset({host.lower()})

        try:
            self._server = _Server((host, port), Handler)
        except OSError as error:
            reason = f"{error.strerror}; port=0 takes a free port"
            raise OSError(f"cannot listen at {Address(host, port)}: {reason}") from error
        self.url = f"http://{Address(host, self._server.server_address[1])}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="wirekafka-control", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(BoundedServer):
    # Clients of tests wait in requests, all of them from this machine.
    most_connections = most_of_address = 512


class _Handler(BoundedHandler):
    answer: Callable[[str, str, dict[str, Any]], Any]
    hosts: Collection[str]

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def _serve(self, method: str) -> None:
        url = urlsplit(self.path)
        if "Origin" in self.headers:
            # A web page in a browser must not control a broker on the loopback address.
            self._send(403, {"error": "not for browsers"})
            return
        if not is_served(self.headers.get("Host"), self.hosts):
            self._send(421, {"error": "not for other hosts than this machine's addresses"})
            return
        try:
            body = dict(parse_qsl(url.query)) | self._body()
            self._send(200, type(self).answer(method, url.path, body))
        except LookupError as error:
            self._send(404, {"error": str(error)})
        except (ValueError, TypeError, KafkaError, RuntimeError, OSError) as error:
            self._send(400, {"error": str(error)})

    def _body(self) -> dict[str, Any]:
        text = self.headers.get("Content-Length", "0").strip()
        if "Transfer-Encoding" in self.headers or not re.fullmatch("[0-9]{1,18}", text):
            raise ValueError("the body needs a Content-Length")
        size = int(text)
        if size > _MOST_BYTES:
            raise ValueError(f"a body of {size} bytes is too large")
        self.reader.allow(size)
        body = json.loads(self.rfile.read(size) or b"{}")
        self.connection.settimeout(RESPONSE_S)
        if not isinstance(body, dict):
            raise ValueError("the body is to be a JSON object")
        return body

    def _send(self, status: int, answer: Any) -> None:
        data = json.dumps(answer if answer is not None else {}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        # Without this header, the JDK's client tries to reuse an HTTP/1.0 connection.
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
