"""Connections that send any bytes to a broker, and keep what was sent and received."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from wirekafka.client.client import CliError, open_socket
from wirekafka.client.login import log_in
from wirekafka.codec.frame import ResponseHeader, encode_request, response_header_version
from wirekafka.codec.message import Request, Response
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.errors import Error
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.security.sasl.exchange import AuthenticationFailed

CLOSED = "the connection is closed"
SILENT = "no answer"
MALFORMED = "an answer that does not fit its schema"
CLIENT_ID = "conformance"
_CONNECT_S = 10.0
_LOGIN_VERSION = 1
"""Of the APIs of a login, which every broker has that authenticates by requests (KIP-152)."""
_LARGEST_ANSWER_BYTES = 1 << 26

Answer: TypeAlias = Any
"""A response, whose class depends on the request, or one of CLOSED, SILENT and MALFORMED."""


@dataclass(slots=True)
class WireExchange:
    """A request with the answer to it, decoded and as bytes without the size of the frame."""

    name: str
    """The API and its version, or what was sent where this is no request."""
    request: Request | None
    sent: bytes
    received: bytes
    answer: Answer
    extra_bytes: int = 0
    """The bytes after the message, which some clients ignore and others refuse."""


class Wire:
    """A connection to one broker, made when it is first used and again after it was closed."""

    def __init__(
        self, address: Address, config: ClientConfig | None, *, logs_in: bool = True
    ) -> None:
        self._address, self._config = address, config
        self._logs_in = logs_in and config is not None and config.logs_in
        self._socket: socket.socket | None = None
        self._correlation_id = 0

    def ask(self, request: Request, version: int, wait_s: float) -> WireExchange:
        """Send a request and wait for the response to it. Raises CliError without a connection."""
        frame = self.encode(request, version)
        self.put(frame)
        return self.take(request, version, frame, wait_s)

    def encode(self, request: Request, version: int) -> bytes:
        """The frame of a request, with the next correlation id."""
        self._correlation_id += 1
        return encode_request(self._correlation_id, CLIENT_ID, request, version)

    def put(self, frame: bytes) -> None:
        """Send bytes. A failure shows when the answer is taken."""
        if self._socket is None:
            self._socket = open_socket(self._address, self._config, _CONNECT_S)
            if self._logs_in and self._config is not None:
                try:
                    log_in(self._config, self._login_step)
                except AuthenticationFailed as error:
                    self.close()
                    raise CliError(f"{self._address} refuses the login: {error}") from None
        with suppress(OSError):
            self._socket.sendall(frame)

    def take(self, request: Request, version: int, sent: bytes, wait_s: float) -> WireExchange:
        """The answer to the oldest request that waits for one, which was sent as these bytes."""
        received = self.take_frame(wait_s)
        name = f"{type(request).__name__.removesuffix('Request')} v{version}"
        if isinstance(received, str):
            return WireExchange(name, request, sent, b"", received)
        if isinstance(request, ApiVersionsRequest) and _is_unsupported(received):
            version = 0
        answer, extra_bytes = _decoded(type(request).response, version, received)
        return WireExchange(name, request, sent, received, answer, extra_bytes)

    def take_frame(self, wait_s: float) -> bytes | str:
        """The next response without its size, or CLOSED, or SILENT."""
        if self._socket is None:
            return CLOSED
        self._socket.settimeout(wait_s)
        try:
            size = int.from_bytes(self._exactly(4), "big")
            if size > _LARGEST_ANSWER_BYTES:
                raise EOFError
            return self._exactly(size)
        except TimeoutError:
            self.close()
            return SILENT
        except (OSError, EOFError):
            self.close()
            return CLOSED

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _login_step(self, request: Request, response: type[Response]) -> Response:
        answer: Response | str = self.ask(request, _LOGIN_VERSION, _CONNECT_S).answer
        if isinstance(answer, str):
            raise CliError(f"{self._address} refuses the login: {answer}")
        return answer

    def _exactly(self, size: int) -> bytes:
        assert self._socket is not None
        whole = bytearray()
        while len(whole) < size:
            some = self._socket.recv(min(size - len(whole), 1 << 20))
            if not some:
                raise EOFError
            whole += some
        return bytes(whole)


def _decoded(response: type[Response], version: int, payload: bytes) -> tuple[Answer, int]:
    """The response and the number of bytes after it; MALFORMED if it cannot be decoded."""
    header_version = response_header_version(response, version)
    try:
        _, at = ResponseHeader.decoder(header_version)(payload, 0, len(payload))
        message, end = response.decoder(version)(payload, at, len(payload))
    except ValueError:
        return MALFORMED, 0
    return message, len(payload) - end


def _is_unsupported(payload: bytes) -> bool:
    """Whether an ApiVersions response says UNSUPPORTED_VERSION, in version 0."""
    return int.from_bytes(payload[4:6], "big", signed=True) == Error.UNSUPPORTED_VERSION
