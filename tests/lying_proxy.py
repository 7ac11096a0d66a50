"""A broker that lies: a proxy that changes fields of responses, which stay well-formed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

from tests.ports import free_ports
from wirekafka.apis.shared import registry
from wirekafka.codec.frame import decode_response, response_header_version
from wirekafka.codec.message import Response
from wirekafka.config.address import Address
from wirekafka.protocol.api_versions import ApiVersionsResponse
from wirekafka.protocol.describe_cluster import DescribeClusterResponse
from wirekafka.protocol.find_coordinator import FindCoordinatorResponse
from wirekafka.protocol.metadata import MetadataResponse

TEXTS = (
    "",
    "\x1b[2J\x1b]0;owned\x07",
    "a\nwirekafka: forged",
    "\u202egnp.exe",
    "<script>alert(1)</script>",
    "; rm -rf ~ #",
    "9" * 5_000,
    "x" * 300,
    "-1",
    "1e999",
    "compact,delete",
)
_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}

Lie = Callable[[Any], None]
"""Changes a response in place."""


class Liar:
    """Changes some fields of responses, by a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def __call__(self, response: Any) -> None:
        if isinstance(response, ApiVersionsResponse) and self._random.random() < 0.8:
            return
        if self._random.random() < 0.6:
            places = list(_places(response))
            for place in self._random.choices(places, k=self._random.choice((1, 1, 2, 5))):
                self._change(*place)

    def _change(self, holder: Any, field: Any) -> None:
        value = getattr(holder, field.name)
        if field.is_array:
            some = list(value or ())
            kind = field.part
            added = [kind()] if kind is not None else []
            new: Any = self._random.choice(([], some * 2, some[:-1], some + added, some[::-1]))
        else:
            new = self._scalar(field.kind, value, field.name)
        setattr(holder, field.name, new)

    def _scalar(self, kind: Any, value: Any, name: str) -> Any:
        if name == "error_code":
            return self._random.choice((-1, 1, 3, 9, 14, 15, 16, 29, 31, 41, 87, 999, 32767))
        if kind == "string":
            return self._random.choice(TEXTS)
        if kind in _BITS:
            most = 1 << _BITS[kind] - 1
            return self._random.choice((-1, -most, most - 1, 0, 1, 7))
        if kind == "?":
            return not value
        if kind == "16s":
            return self._random.choice((bytes(16), b"\xff" * 16))
        return value


class LyingProxy:
    """Serves a broker's responses after a lie has changed them."""

    def __init__(self, target: Address, lie: Lie) -> None:
        registry.load()
        self._target, self.lie = target, lie
        self._requests = {each.request.key: each.request for each in registry.declared()}
        self.address = Address("127.0.0.1", free_ports(1)[0])
        self._server = socket.create_server(self.address)
        self._sockets: list[socket.socket] = [self._server]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End all connections."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                accepted, _ = self._server.accept()
                threading.Thread(target=self._serve, args=[accepted], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError), socket.create_connection(self._target) as broker, client:
            self._sockets += [client, broker]
            while True:
                frame = _frame(client)
                broker.sendall(len(frame).to_bytes(4, "big") + frame)
                answer = self._changed(frame, _frame(broker))
                client.sendall(len(answer).to_bytes(4, "big") + answer)

    def _changed(self, request: bytes, payload: bytes) -> bytes:
        key, version = (int.from_bytes(request[at : at + 2], "big") for at in (0, 2))
        kind: type[Response] = self._requests[key].response
        correlation_id, response = decode_response(kind, version, payload)
        self._point_here(response)
        with suppress(ValueError):
            self.lie(response)
            header = correlation_id.to_bytes(4, "big")
            header += bytes(response_header_version(kind, version))
            return header + response.encode(version)
        return payload

    def _point_here(self, response: Any) -> None:
        """Let clients find this proxy where they would find the broker."""
        places: Any = ()
        if isinstance(response, MetadataResponse | DescribeClusterResponse):
            places = response.brokers
        elif isinstance(response, FindCoordinatorResponse):
            places = [response, *response.coordinators]
        for each in places:
            each.host, each.port = self.address


@contextmanager
def lying(bootstrap: str, lie: Lie) -> Iterator[LyingProxy]:
    """A proxy before a broker."""
    proxy = LyingProxy(Address.parse(bootstrap), lie)
    try:
        yield proxy
    finally:
        proxy.close()


def _frame(connection: socket.socket) -> bytes:
    size = int.from_bytes(_exactly(connection, 4), "big")
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return parts


def _places(message: Any) -> Iterator[tuple[Any, Any]]:
    for field in message.fields:
        yield message, field
        value = getattr(message, field.name)
        for each in value if isinstance(value, list) else ():
            if hasattr(each, "fields"):
                yield from _places(each)
