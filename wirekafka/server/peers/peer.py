"""This node's connection to another node, on which requests are sent in order."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from struct import Struct
from typing import Any, Protocol

from wirekafka.clock import Clock, Timer
from wirekafka.codec.message import MalformedMessage, Request, UnencodableMessage
from wirekafka.codec.outgoing_request import OutgoingRequest
from wirekafka.config.address import Address
from wirekafka.config.option import ConfigError
from wirekafka.config.version import VERSION
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.runtime.promise import Promise
from wirekafka.security.sasl.client import ClientExchange
from wirekafka.security.sasl.exchange import AuthenticationFailed
from wirekafka.security.tls_context import Secured
from wirekafka.server.net import Net
from wirekafka.server.peers.frame_reader import FrameReader
from wirekafka.server.peers.peer_login import log_in
from wirekafka.server.peers.peer_security import PLAINTEXT

logger = logging.getLogger(__name__)

_SOFTWARE = "wirekafka"
_NEWEST_API_VERSIONS = ApiVersionsRequest.versions.last
_EXPECTED = (OSError, KafkaError, MalformedMessage, AuthenticationFailed, ConfigError)
"""Failures to connect that the other node, the network or the configuration cause; any other is a
bug and logged with its traceback."""
_INT32 = Struct(">i")
_SIZE_BYTES = 4
"""The size that precedes each frame."""
_LARGEST_CORRELATION_ID = (1 << 31) - 1
_NEVER_MS = float("inf")


class ConnectionSecurity(Protocol):
    """TLS and logins of connections; `PeerSecurity` is one."""

    uses_tls: bool
    logs_in: bool
    mechanism: str

    def tls(self) -> Secured:
        """The TLS context for a new connection; called in a thread. Raises ConfigError."""

    async def new_login(self, now_ms: int, host: str = "") -> ClientExchange:
        """Begin a login. Raises ConfigError, AuthenticationFailed."""


@dataclass(frozen=True, slots=True)
class PeerOptions:
    """The address of the other node, and how to connect to it."""

    host: str
    port: int
    client_id: str
    security: ConnectionSecurity = PLAINTEXT
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
    """The traffic of one or more peers with other nodes, logins included."""

    requests: int = 0
    responses: int = 0
    request_bytes: int = 0
    response_bytes: int = 0


class Peer:
    """A connection to one node, opened by the first request, and again after a loss.

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
        self._timer: Timer | None = None
        """One timer for all requests; most requests have their response when it fires."""
        self._timer_due_ms = _NEVER_MS
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
        answer: Promise[None] = Promise()
        self.post(
            OutgoingRequest(request), answer.set, timeout_ms=timeout_ms, version=version, most=most
        )
        return await answer

    def post(
        self,
        outgoing: OutgoingRequest,
        answered: Callable[[Any], None],
        *,
        timeout_ms: int,
        version: int | None = None,
        most: int | None = None,
    ) -> None:
        """As `send`, but pass the response, or the KafkaError, to `answered`.

        `answered` is called within the read of the response, or before `post` returns if nothing
        can be sent. It must raise nothing.
        """
        if self._is_closed:
            answered(_network_error(f"the connection to {self.options} is closed"))
            return
        now_ms = self._clock.now_ms()
        exchange = _Exchange(outgoing, answered, version, most)
        exchange.timeout_ms = timeout_ms
        exchange.due_ms = due_ms = now_ms + timeout_ms
        if due_ms < self._timer_due_ms:
            self._set_timer(due_ms, now_ms)
        link = self._link
        if link is not None and link.is_authenticated(now_ms):
            link.write(exchange)
        else:
            self._waiting.append(exchange)
            self._connect()

    def close(self) -> None:
        """Close permanently: outstanding and later requests fail with NETWORK_EXCEPTION."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._timer is not None:
            self._timer.cancel()
        self._fail_waiting(f"the connection to {self.options} is closed")
        self.disconnect("it is closed")

    def disconnect(self, reason: str) -> None:
        """Close the connection, if any; outstanding requests fail, the next request reconnects."""
        if self._link is not None:
            self._link.give_up(reason)

    def lost(self, link: _Link) -> None:
        """Forget a lost connection."""
        if link is self._link:
            self._link = None

    def _set_timer(self, due_ms: float, now_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_ms = due_ms
        self._timer = self._clock.call_later(due_ms - now_ms, self._look_for_overdue)

    def _look_for_overdue(self) -> None:
        """Fail overdue requests, and set the timer for the next deadline."""
        now_ms = self._clock.now_ms()
        next_ms = _NEVER_MS
        overdue = []
        sent = () if self._link is None else self._link.outstanding.values()
        for exchange in chain(self._waiting, sent):
            # Not later than after another whole timeout, if the clock was set back.
            exchange.due_ms = min(exchange.due_ms, now_ms + exchange.timeout_ms)
            if exchange.due_ms <= now_ms:
                overdue.append(exchange)
            else:
                next_ms = min(next_ms, exchange.due_ms)
        self._timer, self._timer_due_ms = None, _NEVER_MS
        if next_ms != _NEVER_MS:
            self._set_timer(next_ms, now_ms)
        for exchange in overdue:
            self._time_out(exchange)

    def _time_out(self, exchange: _Exchange) -> None:
        kind = type(exchange.outgoing.request).__name__
        reason = f"{self.options} has not answered {kind} in time"
        error = KafkaError(Error.REQUEST_TIMED_OUT, reason)
        if exchange in self._waiting:
            self._waiting.remove(exchange)
            exchange.answered(error)
        elif self._link is not None and self._link.withdraw(exchange):
            self.disconnect("a request has timed out")
            exchange.answered(error)

    def _connect(self) -> None:
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._establish())

    async def _establish(self) -> None:
        """Connect, or log in again, and then send the waiting requests, or fail them."""
        link = _Link(self, self._clock) if self._link is None else self._link
        failure: Exception | None = None
        try:
            async with asyncio.timeout(self.options.connect_timeout_ms / 1000):
                await (link.open(self._net) if self._link is None else link.log_in())
        except asyncio.CancelledError:
            link.give_up("it is closed")
            raise
        except Exception as error:
            failure = error
        finally:
            self._connecting = None
        if failure is not None:
            if not isinstance(failure, _EXPECTED):
                logger.error("Connecting to %s failed", self.options, exc_info=failure)
            link.give_up("it could not be established")
            self._fail_waiting(f"cannot connect to {self.options}: {_reason(failure)}")
            return
        if link.is_lost:
            self._fail_waiting(f"{self.options} closed the connection")
            return
        self._link = link
        waiting = self._waiting
        self._waiting = []
        for exchange in waiting:
            link.write(exchange)

    def _fail_waiting(self, reason: str) -> None:
        waiting = self._waiting
        self._waiting = []
        for exchange in waiting:
            exchange.answered(_network_error(reason))


class _Exchange:
    """A request, and the receiver of its response."""

    __slots__ = ("answered", "due_ms", "most", "outgoing", "timeout_ms", "version")

    def __init__(
        self,
        outgoing: OutgoingRequest,
        answered: Callable[[Any], None],
        version: int | None,
        most: int | None = None,
    ):
        self.outgoing = outgoing
        self.answered = answered
        """Called with the response or a KafkaError, once."""
        self.version = version
        """The sent version; None before the request is sent in the newest common version."""
        self.most = most
        self.timeout_ms = self.due_ms = _NEVER_MS


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
        self._newest: dict[type[Request], int] = {}
        """The newest common versions that have been found."""
        self.outstanding: dict[int, _Exchange] = {}
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
        exchange = await security.new_login(self._clock.now_ms(), self._options.host)
        session_ms = await log_in(self._ask, security.mechanism, exchange)
        now_ms = self._clock.now_ms()
        self._login_due_ms = now_ms + session_ms if session_ms is not None else None

    async def _encrypted(self, plain: asyncio.Transport) -> asyncio.Transport:
        secured = await asyncio.to_thread(self._options.security.tls)
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
        answer: Promise[None] = Promise()
        self._post(_Exchange(OutgoingRequest(request), answer.set, version), version)
        return await answer

    async def _ask(self, request: Request) -> Any:
        return await self._exchange(request, self._newest_version(type(request)))

    def write(self, exchange: _Exchange) -> None:
        """Send a request, or fail it if it cannot be sent."""
        try:
            self._post(exchange, self._version_of(exchange))
        except KafkaError as error:
            exchange.answered(error)
        except UnencodableMessage as error:
            exchange.answered(KafkaError(Error.INVALID_REQUEST, str(error)))

    def withdraw(self, exchange: _Exchange) -> bool:
        """Expect no response to a request any more; False if none was expected."""
        for correlation_id, each in self.outstanding.items():
            if each is exchange:
                del self.outstanding[correlation_id]
                return True
        return False

    def _version_of(self, exchange: _Exchange) -> int:
        kind = type(exchange.outgoing.request)
        version = exchange.version
        most = exchange.most
        if version is None and most is None:
            return self._newest.get(kind) or self._newest_version(kind)
        first, last = kind.versions
        if version is not None:
            return self._common_version(kind, version, version)
        return self._common_version(kind, first, last if most is None else min(last, most))

    def _newest_version(self, kind: type[Request]) -> int:
        version = self._newest[kind] = self._common_version(kind, *kind.versions)
        return version

    def _common_version(self, kind: type[Request], first: int, last: int) -> int:
        low, high = self.versions.get(kind.key, (0, -1))
        version = min(high, last)
        if version < max(low, first):
            reason = f"{self._options} has versions {low} to {high} of {kind.__name__}"
            raise KafkaError(Error.UNSUPPORTED_VERSION, reason)
        return version

    def _post(self, exchange: _Exchange, version: int) -> None:
        if self.is_lost or self._transport is None:
            raise _network_error(f"the connection to {self._options} is lost")
        exchange.version = version
        self._correlation_id = (self._correlation_id + 1) & _LARGEST_CORRELATION_ID
        correlation_id = self._correlation_id
        frame = exchange.outgoing.encode(correlation_id, self._options.client_id, version)
        self.outstanding[correlation_id] = exchange
        self._transport.write(frame)
        self._traffic.requests += 1
        self._traffic.request_bytes += len(frame)

    # FrameOwner.

    def received(self, frame: memoryview) -> None:
        """Deliver a response; close the connection if it is malformed or out of order."""
        self._traffic.responses += 1
        self._traffic.response_bytes += _SIZE_BYTES + len(frame)
        (correlation_id,) = _INT32.unpack_from(frame)
        expected = next(iter(self.outstanding), None)
        if correlation_id != expected:
            self.give_up(f"a response to request {correlation_id}, not {expected}")
            return
        exchange = self.outstanding[correlation_id]
        version = exchange.version
        assert version is not None, "it was sent"
        try:
            response = exchange.outgoing.decode(frame, version)
        except MalformedMessage as error:
            self.give_up(f"a malformed response: {error}")
            return
        del self.outstanding[correlation_id]
        exchange.answered(response)

    def lost(self, reason: str) -> None:
        """Fail every outstanding request, because the connection is closed."""
        self.is_lost = True
        self._peer.lost(self)
        outstanding = self.outstanding
        self.outstanding = {}
        for exchange in outstanding.values():
            exchange.answered(_network_error(f"lost the connection to {self._options}: {reason}"))

    def give_up(self, reason: str) -> None:
        """Close the connection at once."""
        self._reader.forget_owner()
        if self._transport is not None:
            self._transport.abort()
        if not self.is_lost:
            self.lost(reason)


def _versions_request() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version=VERSION)


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
