"""HTTP servers with threads of their own, which slow or many clients cannot silence.

A client has a few seconds for a request, however slowly it sends. Beyond a number of connections, a
connection without a complete request gives way, of the address with the most connections: a client
that sends its request at once gets its response.
"""

from __future__ import annotations

import io
import logging
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

logger = logging.getLogger(__name__)

REQUEST_S = 5.0
"""The time in seconds for the head of a request, and again for its body."""
RESPONSE_S = 10.0
"""For a client to take the response."""
_MOST_HEAD_BYTES = 64 << 10


class RequestReader(io.RawIOBase):
    """Reads from a socket until a deadline or a number of bytes, whichever comes first."""

    def __init__(self, source: socket.socket):
        self._source = source
        self._deadline_s = 0.0
        self._left_bytes = 0
        self.allow(_MOST_HEAD_BYTES)

    def allow(self, size_bytes: int) -> None:
        """Let that many bytes be read, within `REQUEST_S` from now."""
        self._deadline_s = time.monotonic() + REQUEST_S
        self._left_bytes = size_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read. Raises TimeoutError, or another OSError beyond the number of bytes."""
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("a request took too long")
        if not self._left_bytes:
            raise OSError("a request is too long")
        self._source.settimeout(left_s)
        size = self._source.recv_into(memoryview(buffer)[: self._left_bytes])
        self._left_bytes -= size
        return size


class BoundedHandler(BaseHTTPRequestHandler):
    """Reads a request within its deadline."""

    server: BoundedServer
    connection: socket.socket

    def setup(self) -> None:
        super().setup()
        self.reader = RequestReader(self.connection)
        self.rfile = io.BufferedReader(self.reader)

    def parse_request(self) -> bool:
        is_whole = super().parse_request()
        self.server.head_received(self.connection)
        self.connection.settimeout(RESPONSE_S)
        return is_whole


class BoundedServer(ThreadingMixIn, TCPServer):
    """A thread for each connection, but no more than a few, in total and from one address."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64
    most_connections = 64
    most_of_address = 32

    def __init__(self, address: tuple[str, int], handler: type[BoundedHandler]):
        """Bind. Raises OSError."""
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._lock = threading.Lock()
        self._waiting: dict[socket.socket, str] = {}
        """Connections whose request has not come, with their addresses, the oldest first."""
        self._open: dict[socket.socket, str] = {}
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a thread for a connection, if there is room or one gives way."""
        host = str(client_address[0])
        with self._lock:
            has_room = self._make_room(host)
            if has_room:
                self._open[request] = self._waiting[request] = host
        if not has_room:
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # The process may begin no more threads.
            self._forget(request)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a failure, such as a client that went away."""
        logger.debug("A request over HTTP failed", exc_info=True)

    def head_received(self, connection: socket.socket) -> None:
        """Keep a connection until its response has been sent."""
        with self._lock:
            self._waiting.pop(connection, None)

    def _make_room(self, host: str) -> bool:
        counts = Counter(self._open.values())
        if counts[host] >= self.most_of_address:
            busiest = host
        elif counts.total() >= self.most_connections:
            [(busiest, _)] = Counter(self._waiting.values()).most_common(1) or [("", 0)]
        else:
            return True
        for connection, address in self._waiting.items():
            if address == busiest:
                del self._waiting[connection], self._open[connection]
                # Its thread reads the end of the connection, and closes it.
                _end(connection)
                return True
        return False

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._waiting.pop(connection, None)
            self._open.pop(connection, None)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # The client may have ended it.
        connection.shutdown(socket.SHUT_RDWR)
