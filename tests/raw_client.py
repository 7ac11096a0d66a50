"""A client on a plain socket: it sends given bytes, valid or not, and reads responses."""

from __future__ import annotations

import socket
import struct
from typing import Any

from wirekafka.codec.message import Request, Response


class RawClient:
    """One connection. `Closed` is raised when the broker closes it."""

    class Closed(Exception):
        pass

    def __init__(self, port: int, host: str = "127.0.0.1", timeout_s: float = 10):
        self.socket = socket.create_connection((host, port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def call(self, request: Request, version: int) -> Any:
        """Send a request and return its response."""
        correlation_id = self.send(request, version)
        return self.receive(type(request), version, correlation_id)

    def send(self, request: Request, version: int, client_id: str | None = "raw") -> int:
        """Send a request; returns its correlation id."""
        self._correlation_id += 1
        self.send_frame(frame(request, version, self._correlation_id, client_id))
        return self._correlation_id

    def receive(
        self, request: type[Request], version: int, correlation_id: int | None = None
    ) -> Any:
        """The next response, which must be of this kind."""
        body = self.receive_frame()
        (answered,) = struct.unpack_from(">i", body)
        assert correlation_id is None or answered == correlation_id, "responses out of order"
        return response_in(body, request, version)

    def send_frame(self, payload: bytes) -> None:
        """Send bytes with their size as a prefix."""
        self.socket.sendall(struct.pack(">i", len(payload)) + payload)

    def receive_frame(self) -> bytes:
        """One size-prefixed response, without its size."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def is_closed(self) -> bool:
        """Whether the broker closes the connection within the timeout, without a response."""
        try:
            self._exactly(1)
        except RawClient.Closed:
            return True
        return False

    def _exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                some = self.socket.recv(size - len(received))
            except ConnectionResetError as error:
                raise RawClient.Closed from error
            if not some:
                raise RawClient.Closed
            received += some
        return bytes(received)


def frame(
    request: Request, version: int, correlation_id: int = 1, client_id: str | None = "raw"
) -> bytes:
    """Header and body of a request, without the size."""
    name = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(name)
    header = struct.pack(">hhih", type(request).key, version, correlation_id, size) + name
    tags = b"\0" if version in type(request).flexible else b""
    return header + tags + request.encode(version)


def response_in(payload: bytes, request: type[Request], version: int) -> Any:
    """The response to a request, from its frame without the size."""
    flexible = version in request.flexible and request.key != 18
    return response_class(request).decode(payload, version, at=5 if flexible else 4)


def response_class(request: type[Request]) -> type[Response]:
    """The response of a request, from the same module."""
    import sys

    name = request.__name__.removesuffix("Request") + "Response"
    found: type[Response] = getattr(sys.modules[request.__module__], name)
    return found
