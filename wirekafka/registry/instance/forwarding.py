"""Passes requests that write on to the instance that leads, if it is another one."""

from __future__ import annotations

import asyncio
import http.client
import logging
import ssl
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wirekafka.registry.errors import RegistryError
from wirekafka.registry.http import answers, bodies, negotiation, routing
from wirekafka.registry.instance.election import ElectionResult, InstanceIdentity
from wirekafka.registry.instance.topic_writer import unknown_leader

logger = logging.getLogger(__name__)

FORWARDED = "X-Forward"
"""In each request that was passed on; such a request is not passed on again."""
ELECTION_TIMEOUT_S = 20.0
_PAUSE_S = 0.2
_TIMEOUT_S = 45.0
"""Longer than a leader itself waits for a write."""
_CONNECT_TIMEOUT_S = 5.0
_MOST_AT_ONCE = 32
_LARGEST_ANSWER_BYTES = 64 << 20
_PASSED_ON = ("authorization", "content-type", "accept")
_RETURNED = ("content-type", "www-authenticate", "retry-after")

Authenticate = Callable[[Request], Awaitable[None]]
"""Raises RegistryError unless the user of a request may log in."""


class RegistryLeadership:
    """Who leads, on the event loop; set from the thread of the election."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.elected = ElectionResult(None)
        self._changed = asyncio.Event()

    def set(self, elected: ElectionResult) -> None:
        """Note an election's result; may be called from any thread."""

        def note() -> None:
            if elected != self.elected:
                self.elected = elected
                self._changed.set()
                self._changed = asyncio.Event()

        self._loop.call_soon_threadsafe(note)

    async def known(self, timeout_s: float) -> ElectionResult:
        """Who leads, after waiting for an election. Raises RegistryError 50004 after the time."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.elected.identity is None:
                    await self._changed.wait()
        except TimeoutError:
            raise unknown_leader() from None
        return self.elected


class _Outgoing(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class _Incoming(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Forwarding:
    """An ASGI application around a registry's: writes go to the elected address, and no other."""

    def __init__(
        self,
        app: ASGIApp,
        leadership: RegistryLeadership,
        authenticate: Authenticate | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._app, self._leadership, self._authenticate = app, leadership, authenticate
        self._tls = tls
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="schemas-forwarding")

    def close(self) -> None:
        """Pass on no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request here or at the leader."""
        if scope["type"] != "http" or not _writes(scope):
            await self._app(scope, receive, send)
            return
        try:
            elected = await self._leadership.known(ELECTION_TIMEOUT_S)
            if elected.is_self:
                await self._app(scope, receive, send)
                return
            request = Request(scope, receive)
            outgoing = await self._accepted(request)
            response = await self._forwarded(outgoing)
            if response is None:
                await self._app(scope, _received_again(outgoing.body), send)
                return
        except RegistryError as error:
            response = answers.refusal(error, negotiation.V1)
        await response(scope, receive, send)

    async def _accepted(self, request: Request) -> _Outgoing:
        """The request to pass on. Raises RegistryError."""
        if FORWARDED in request.headers:
            # The instance that sent it knows of another election than this instance.
            raise unknown_leader()
        if self._authenticate is not None:
            await self._authenticate(request)
        return await _outgoing(request)

    async def _forwarded(self, outgoing: _Outgoing) -> Response | None:
        """The leader's answer; None if this instance is elected meanwhile. Raises RegistryError."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + ELECTION_TIMEOUT_S
        while True:
            elected = await self._leadership.known(ELECTION_TIMEOUT_S)
            if elected.is_self or elected.identity is None:
                return None
            connection = _connection(elected.identity, self._tls)
            try:
                await loop.run_in_executor(self._threads, connection.connect)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if loop.time() > deadline_s:
                    raise _failed(elected.identity, error) from None
                await asyncio.sleep(_PAUSE_S)  # The group may not have noticed its end yet.
                continue
            try:
                incoming = await loop.run_in_executor(
                    self._threads, _exchanged, connection, outgoing
                )
            except (OSError, http.client.HTTPException) as error:
                raise _failed(elected.identity, error) from None
            return Response(incoming.body, incoming.status, incoming.headers)


def _writes(scope: Scope) -> bool:
    """Whether a request may write; look-ups and checks of compatibility are POST requests, too."""
    method: str = scope["method"]
    if method in ("PUT", "DELETE"):
        return True
    parts = routing.without_context(routing.segments_of(routing.raw_path(scope))).segments
    is_look_up = parts[:1] == ["subjects"] and parts[-1] != "versions"
    return method == "POST" and not is_look_up and parts[:1] != ["compatibility"]


async def _outgoing(request: Request) -> _Outgoing:
    body = await bodies.read(request)
    query: bytes = request.scope["query_string"]
    target = routing.raw_path(request.scope) + (b"?" + query if query else b"")
    headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
    return _Outgoing(request.method, target.decode("latin-1"), {**headers, FORWARDED: "true"}, body)


def _received_again(body: bytes) -> Receive:
    """What an application receives whose request's body was read before."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


def _connection(leader: InstanceIdentity, tls: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if leader.scheme == "https":
        return http.client.HTTPSConnection(
            leader.host, leader.port, timeout=_CONNECT_TIMEOUT_S, context=tls
        )
    return http.client.HTTPConnection(leader.host, leader.port, timeout=_CONNECT_TIMEOUT_S)


def _exchanged(connection: http.client.HTTPConnection, outgoing: _Outgoing) -> _Incoming:
    """Send a request; redirects are not followed: they could lead the credentials elsewhere."""
    try:
        if connection.sock is not None:
            connection.sock.settimeout(_TIMEOUT_S)
        connection.request(outgoing.method, outgoing.target, outgoing.body, outgoing.headers)
        with connection.getresponse() as response:
            body = response.read(_LARGEST_ANSWER_BYTES)
            if response.length:
                # Without this, a leader that ends meanwhile would seem to have sent less.
                raise http.client.IncompleteRead(body, response.length)
            headers = Headers(dict(response.getheaders()))
            returned = {name: headers[name] for name in _RETURNED if name in headers}
            return _Incoming(response.status, returned, body)
    finally:
        connection.close()


def _failed(leader: InstanceIdentity, error: Exception) -> RegistryError:
    logger.warning("A request could not be passed on to %s: %s", leader.url, error)
    return RegistryError(500, 50003, "Error while forwarding the request to the leader")
