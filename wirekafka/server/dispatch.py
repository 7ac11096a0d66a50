"""One request's way: header, route, decode, handle, encode into the replies of a pass."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from struct import Struct
from types import CoroutineType
from typing import Any

from wirekafka.apis import registry
from wirekafka.apis.registry import Call, Route
from wirekafka.codec.compact import skip_tags
from wirekafka.codec.message import MalformedMessage
from wirekafka.errors import Error, KafkaError
from wirekafka.server import repeats

logger = logging.getLogger(__name__)

Buffer = bytes | bytearray | memoryview

_REQUEST_HEADER = Struct(">Iih")
_RESPONSE_HEADER = Struct(">ii")
_SIZE = Struct(">i")
_API_VERSIONS = 18

SMALLEST_REQUEST_BYTES = _REQUEST_HEADER.size


class Refused(Exception):
    """A request that cannot be answered: the connection is closed, and the reason logged."""


class Replies:
    """The responses of one pass over a connection's buffer, as few buffers as possible.

    Small ones are packed into one bytearray; records stay where they are.
    """

    __slots__ = ("buffers", "tail")

    def __init__(self) -> None:
        self.buffers: list[Any] = []
        """Bytes, or slices of log files."""
        self.tail = bytearray()

    def add(self, route: Route, correlation_id: int, response: Any) -> None:
        """Encode one response behind those before it."""
        buffers, tail = self.buffers, self.tail
        start, first = len(tail), len(buffers)
        head = tail
        tail += _RESPONSE_HEADER.pack(0, correlation_id)
        if route.response_header_is_flexible:
            tail.append(0)
        try:
            tail = route.encode(response, buffers, tail)
        except BaseException:
            del buffers[first:], head[start:]
            self.tail = head
            raise
        size = len(tail) - start - 4
        if tail is not head:
            size += sum(map(len, buffers[first:]))
        _SIZE.pack_into(head, start, size)
        self.tail = tail


class Parked:
    """A request whose handler waits; `resume` goes on with it."""

    __slots__ = ("_coroutine", "_request", "_route", "waited")

    def __init__(self, route: Route, request: Any, coroutine: Coroutine[Any, Any, Any],
                 waited: Any):
        self._route = route
        self._request = request
        self._coroutine = coroutine
        self.waited = waited

    def resume(self, call: Call, replies: Replies) -> bool:
        """Run on to the next wait (False) or to the end (True), the reply then being added."""
        try:
            self.waited = self._coroutine.send(None)
        except StopIteration as done:
            if done.value is not None:
                replies.add(self._route, call.correlation_id, done.value)
        except Exception as error:
            _fail(self._route, self._request, error, call, replies)
        else:
            return False
        return True

    def abandon(self) -> None:
        """The peer has gone: unwind the handler where it waits."""
        try:
            self._coroutine.close()
        except Exception:
            logger.exception("Unwinding %s failed", self._route.api.name)


def serve(data: Buffer, at: int, end: int, call: Call, replies: Replies) -> Parked | None:
    """Serve the request at `data[at:end]` (without its size prefix).

    The reply is added to `replies`, unless the handler waits: then what is parked is returned.
    Raises Refused, MalformedMessage or UnicodeDecodeError when the connection must be closed.
    """
    if not data[at + 1] and repeats.serve(data, at, end, call, replies):
        return None
    begin = at
    api_and_version, correlation_id, client_id_bytes = _REQUEST_HEADER.unpack_from(data, at)
    route = _routes(api_and_version) or registry.find(api_and_version)
    if route is None:
        _refuse(api_and_version, correlation_id, call, replies)
        return None
    at += 10
    if client_id_bytes >= 0:
        start = at
        at += client_id_bytes
        if at > end:
            raise MalformedMessage("the client id goes beyond the request")
        call.client_id = str(data[start:at], "utf-8") if client_id_bytes else ""
    elif client_id_bytes == -1:
        call.client_id = None
    else:
        raise MalformedMessage(f"a client id of {client_id_bytes} bytes")
    if route.header_is_flexible:
        at = at + 1 if at < end and not data[at] else _skip_header_tags(data, at, end)
    call.correlation_id = correlation_id
    call.version = route.version
    request, _ = route.decode(data, at, end)
    try:
        response = route.handle(request, call)
        if response.__class__ is CoroutineType:
            try:
                waited = response.send(None)
            except StopIteration as done:
                response = done.value
            else:
                return Parked(route, request, response, waited)
        if response is not None:
            replies.add(route, correlation_id, response)
    except Exception as error:
        _fail(route, request, error, call, replies)
        return None
    if api_and_version <= repeats.LAST_VERSION:
        repeats.note(data[begin:end], request, response, call)
    return None


_routes = registry.routes.get


def _fail(route: Route, request: Any, error: Exception, call: Call, replies: Replies) -> None:
    if not isinstance(error, KafkaError):
        logger.error("%s version %d from %s failed", route.api.name, route.version,
                     call.connection_id, exc_info=error)
        error = KafkaError(Error.UNKNOWN_SERVER_ERROR)
    try:
        response = route.api.failure(request, error, call)
    except KafkaError as untold:
        raise Refused(f"{route.api.name} cannot tell {untold}") from untold
    replies.add(route, call.correlation_id, response)


def _refuse(api_and_version: int, correlation_id: int, call: Call, replies: Replies) -> None:
    """Answer in version 0, which every client reads, that key 18 has other versions (KIP-511).

    Raises `Refused` for any other key.
    """
    route = registry.find(_API_VERSIONS << 16)
    if api_and_version >> 16 != _API_VERSIONS or route is None:
        raise Refused(f"API {api_and_version >> 16} version {api_and_version & 0xFFFF}"
                      " is not spoken here")
    call.version = 0
    request = route.api.request()
    unsupported = KafkaError(Error.UNSUPPORTED_VERSION)
    replies.add(route, correlation_id, route.api.failure(request, unsupported, call))


def _skip_header_tags(data: Buffer, at: int, end: int) -> int:
    try:
        return skip_tags(data, at, end)
    except (ValueError, IndexError) as fault:
        raise Refused(f"the header's tags: {fault}") from None
