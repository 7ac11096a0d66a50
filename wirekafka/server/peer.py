"""This node's connection to another node, on which requests are sent in order."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wirekafka.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wirekafka.clock import Clock
from wirekafka.codec.frame import decode_response, encode_request
from wirekafka.codec.message import MalformedMessage, Request, UnencodableMessage
from wirekafka.config.address import Address
from wirekafka.config.option import ConfigError
from wirekafka.config.version import VERSION
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.promise import Promise
from wirekafka.security.sasl.exchange import AuthenticationFailed
from wirekafka.server.frame_reader import FrameReader
from wirekafka.server.net import Net
from wirekafka.server.peer_login import log_in
from wirekafka.server.peer_security import PLAINTEXT, PeerSecurity

logger = logging.getLogger(__name__)

_SOFTWARE = "wirekafka"
_NEWEST_API_VERSIONS = ApiVersionsRequest.versions.last
_EXPECTED = (OSError, KafkaError, MalformedMessage, AuthenticationFailed, ConfigError)
"""Failures to connect that the other node, the network or the configuration cause; any other is a
bug and logged with its traceback."""
_SIZE_BYTES = 4
"""The size that precedes each frame."""
_LARGEST_CORRELATION_ID = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class PeerOptions:
    """The address of the other node, and how to connect to it."""

    host: str
    port: int
    client_id: str
    security: PeerSecurity = PLAINTEXT
    connect_timeout_ms: int = 10_000
    """How long connecting may take, including TLS, ApiVersions and the login
    (`socket.connection.setup.timeout.ms`)."""
    largest_response_bytes: int = (1 << 31) - 1
    """A larger response closes the connection. There is no lower limit by default, as in Kafka: a
    Fetch response has at least one batch, however large."""

    @property
    def address(self) -> Address:
        """Host and port."""
        return Address(self.host, self.port)

    def __str__(self) -> str:
        return str(self.address)


@dataclass(slots=True)
class PeerTraffic:
    """What one or more peers have exchanged with other nodes, logins included."""

    requests: int = 0
    responses: int = 0
    request_bytes: int = 0
    response_bytes: int = 0


class Peer:
    """A connection to one node, which the first request opens, and the next one after it was lost.

    Nothing is retried: a request fails if the connection cannot be opened or is lost, and the
    caller decides when to send it again.
    """

    def __init__(
        self, net: Net, clock: Clock, options: PeerOptions, traffic: PeerTraffic | None = None
    ):
        """`traffic` is counted in, which other peers may share."""
        self.options = options
        self.traffic = traffic or PeerTraffic()
        self._net = net
        self._clock = clock
        self._link: _Link | None = None
        """The connection, once it is ready for requests; its SASL session may have expired."""
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: list[_Exchange] = []
        """Requests that wait for the connection, in the order in which they are to be sent."""
        self._is_closed = False

    @property
    def is_connected(self) -> bool:
        """Whether requests can be sent without connecting first."""
        return self._link is not None

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """First and last version of each of the node's APIs, by key; empty if not connected."""
        return self._link.versions if self._link is not None else {}

    async def send(
        self,
        request: Request,
        version: int | None = None,
        *,
        timeout_ms: int,
        most: int | None = None,
    ) -> Any:
        """Send a request and return its response.

        Requests are sent in the order of these calls; several may be outstanding. `version` None
        is the newest version that both sides support, at most `most`. Records in the response are
        views of the receive buffer.

        Raises KafkaError: NETWORK_EXCEPTION if the connection cannot be opened or is lost,
        REQUEST_TIMED_OUT after `timeout_ms` (connecting included), which closes the connection if
        the request was sent, UNSUPPORTED_VERSION if the peer lacks the API or the version,
        INVALID_REQUEST if the request cannot be encoded.
        """
        if self._is_closed:
            raise _network_error(f"the connection to {self.options} is closed")
        exchange = _Exchange(request, version, most)
        timer = self._clock.call_later(timeout_ms, lambda: self._time_out(exchange))
        try:
            link = self._link
            if link is not None and link.is_authenticated(self._clock.now_ms()):
                link.write(exchange)
            else:
                self._waiting.append(exchange)
                self._connect()
            return await exchange.answer
        finally:
            # Of a caller that gave up, the connection must still be closed without a response.
            if exchange.answer.done:
                timer.cancel()

    def close(self) -> None:
        """Close permanently: outstanding and later requests fail with NETWORK_EXCEPTION."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        self._fail_waiting(f"the connection to {self.options} is closed")
        self.disconnect("it is closed")

    def disconnect(self, reason: str) -> None:
        """Close the connection, if any; outstanding requests fail, the next one reconnects."""
        if self._link is not None:
            self._link.give_up(reason)

    def lost(self, link: _Link) -> None:
        """Forget a connection that is lost."""
        if link is self._link:
            self._link = None

    def _time_out(self, exchange: _Exchange) -> None:
        if exchange.answer.done:
            return
        reason = f"{self.options} has not answered {type(exchange.request).__name__} in time"
        exchange.answer.set(KafkaError(Error.REQUEST_TIMED_OUT, reason))
        if exchange in self._waiting:
            self._waiting.remove(exchange)
        else:
            self.disconnect("a request has timed out")

    def _connect(self) -> None:
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._establish())

    async def _establish(self) -> None:
        """Connect, or log in again, and then send the waiting requests, or fail them."""
        link = _Link(self, self._clock) if self._link is None else self._link
        try:
            async with asyncio.timeout(self.options.connect_timeout_ms / 1000):
                await (link.open(self._net) if self._link is None else link.log_in())
        except asyncio.CancelledError:
            link.give_up("it is closed")
            raise
        except Exception as error:
            if not isinstance(error, _EXPECTED):
                logger.exception("Connecting to %s failed", self.options)
            link.give_up("it could not be established")
            self._fail_waiting(f"cannot connect to {self.options}: {_reason(error)}")
            return
        finally:
            self._connecting = None
        if link.is_lost:
            self._fail_waiting(f"{self.options} closed the connection")
            return
        self._link = link
        waiting, self._waiting = self._waiting, []
        for exchange in waiting:
            link.write(exchange)

    def _fail_waiting(self, reason: str) -> None:
        waiting, self._waiting = self._waiting, []
        for exchange in waiting:
            exchange.answer.set(_network_error(reason))


class _Exchange:
    """A request and the promise of its response."""

    __slots__ = ("answer", "most", "request", "version")

    def __init__(self, request: Request, version: int | None, most: int | None = None):
        self.request = request
        self.version = version
        """The version sent; None before that if it is to be the newest common one."""
        self.most = most
        self.answer = Promise()


class _Link:
    """One connection (`FrameOwner`); once it is lost, the peer opens another."""

    def __init__(self, peer: Peer, clock: Clock):
        self.versions: Mapping[int, tuple[int, int]] = {}
        """First and last version of each of the other node's APIs, by key."""
        self.is_lost = False
        self._peer = peer
        self._options = peer.options
        self._traffic = peer.traffic
        self._reader = FrameReader(self, peer.options.largest_response_bytes)
        self._transport: asyncio.Transport | None = None
        self._outstanding: dict[int, _Exchange] = {}
        """By correlation id, in the order in which responses must arrive."""
        self._correlation_id = 0
        self._clock = clock
        self._login_due_ms: float | None = None
        """When to log in again; None for never."""

    def is_authenticated(self, now_ms: int) -> bool:
        """Whether requests may be sent: no login is needed, or the session does not expire soon."""
        return self._login_due_ms is None or now_ms < self._login_due_ms

    async def open(self, net: Net) -> None:
        """Connect, request the other node's versions, and log in.

        Raises OSError, KafkaError, AuthenticationFailed, ConfigError.
        """
        host, port = self._options.host, self._options.port
        self._transport, _ = await net.connect(host, port, lambda: self._reader)
        if self._options.security.uses_tls:
            self._transport = await self._encrypted(self._transport)
        await self._negotiate()
        if self._options.security.logs_in:
            await self.log_in()

    async def log_in(self) -> None:
        """Authenticate by SASL, at first and before the session expires. Raises as `open`."""
        security = self._options.security
        exchange = security.new_login(self._clock.now_ms(), self._options.host)
        session_ms = await log_in(self._ask, security.mechanism, exchange)
        now_ms = self._clock.now_ms()
        self._login_due_ms = now_ms + session_ms if session_ms is not None else None

    async def _encrypted(self, plain: asyncio.Transport) -> asyncio.Transport:
        secured = self._options.security.tls()
        transport = await asyncio.get_running_loop().start_tls(
            plain, self._reader, secured.context, server_hostname=self._options.host
        )
        if transport is None:
            raise ConnectionResetError("closed during the TLS handshake")
        cipher = transport.get_extra_info("cipher")
        if cipher[1] == "TLSv1.3" and cipher[0] not in secured.suites:
            raise ConnectionAbortedError(f"{cipher[0]} is none of ssl.cipher.suites")
        return transport

    async def _negotiate(self) -> None:
        answered = await self._exchange(_versions_request(), _NEWEST_API_VERSIONS)
        if answered.error_code == Error.UNSUPPORTED_VERSION:
            known = {each.api_key: each.max_version for each in answered.api_keys}
            version = min(known.get(ApiVersionsRequest.key, 0), _NEWEST_API_VERSIONS)
            answered = await self._exchange(_versions_request(), version)
        if answered.error_code:
            raise KafkaError.of(answered.error_code, "ApiVersions")
        self.versions = {
            each.api_key: (each.min_version, each.max_version) for each in answered.api_keys
        }

    async def _exchange(self, request: Request, version: int) -> Any:
        """Send a request that sets up the connection, and return its response."""
        exchange = _Exchange(request, version)
        self._post(exchange, version)
        return await exchange.answer

    async def _ask(self, request: Request) -> Any:
        return await self._exchange(request, self._version_of(_Exchange(request, None)))

    def write(self, exchange: _Exchange) -> None:
        """Send a request; its promise fails if that is not possible."""
        try:
            self._post(exchange, self._version_of(exchange))
        except KafkaError as error:
            exchange.answer.set(error)
        except UnencodableMessage as error:
            exchange.answer.set(KafkaError(Error.INVALID_REQUEST, str(error)))

    def _version_of(self, exchange: _Exchange) -> int:
        request = type(exchange.request)
        low, high = self.versions.get(request.key, (0, -1))
        first, last = request.versions
        if exchange.version is not None:
            first = last = exchange.version
        elif exchange.most is not None:
            last = min(last, exchange.most)
        version = min(high, last)
        if version < max(low, first):
            reason = f"{self._options} has versions {low} to {high} of {request.__name__}"
            raise KafkaError(Error.UNSUPPORTED_VERSION, reason)
        return version

    def _post(self, exchange: _Exchange, version: int) -> None:
        if self.is_lost or self._transport is None:
            raise _network_error(f"the connection to {self._options} is lost")
        exchange.version = version
        self._correlation_id = (self._correlation_id + 1) & _LARGEST_CORRELATION_ID
        correlation_id = self._correlation_id
        frame = encode_request(correlation_id, self._options.client_id, exchange.request, version)
        self._outstanding[correlation_id] = exchange
        self._transport.write(frame)
        self._traffic.requests += 1
        self._traffic.request_bytes += len(frame)

    # FrameOwner.

    def received(self, frame: memoryview) -> None:
        """Deliver a response; close the connection if it is malformed or out of order."""
        self._traffic.responses += 1
        self._traffic.response_bytes += _SIZE_BYTES + len(frame)
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        expected = next(iter(self._outstanding), None)
        if correlation_id != expected:
            self.give_up(f"a response to request {correlation_id}, not {expected}")
            return
        exchange = self._outstanding[correlation_id]
        version = exchange.version
        assert version is not None, "it was sent"
        try:
            response = _decoded(exchange.request, version, frame)
        except MalformedMessage as error:
            self.give_up(f"a malformed response: {error}")
            return
        del self._outstanding[correlation_id]
        exchange.answer.set(response)

    def lost(self, reason: str) -> None:
        """Fail every outstanding request, because the connection is closed."""
        self.is_lost = True
        self._peer.lost(self)
        outstanding, self._outstanding = self._outstanding, {}
        for exchange in outstanding.values():
            exchange.answer.set(_network_error(f"lost the connection to {self._options}: {reason}"))

    def give_up(self, reason: str) -> None:
        """Close the connection at once."""
        self._reader.forget_owner()
        if self._transport is not None:
            self._transport.abort()
        if not self.is_lost:
            self.lost(reason)


def _versions_request() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version=VERSION)


def _decoded(request: Request, version: int, frame: memoryview) -> Any:
    """Decode a response. Raises MalformedMessage."""
    response = type(request).response
    if response is ApiVersionsResponse and version > 0:
        code = int.from_bytes(frame[4:6], "big", signed=True)
        if code == Error.UNSUPPORTED_VERSION:
            version = 0  # This error is sent in a version that every client can decode (KIP-511).
    return decode_response(response, version, frame)[1]


def _network_error(reason: str) -> KafkaError:
    return KafkaError(Error.NETWORK_EXCEPTION, reason)


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, AuthenticationFailed):
        return f"it refuses the login: {error}"
    if isinstance(error, KafkaError):
        return error.message or error.error.name
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)
