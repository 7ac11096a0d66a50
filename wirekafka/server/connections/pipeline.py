"""The stages of every request: identify, admit, decode, handle, account, reply."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import partial
from struct import Struct
from types import CoroutineType
from typing import Any, Protocol, TypeAlias

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import Answer
from wirekafka.apis.shared.routes import BROKERS, CONTROLLERS, Route, Routes
from wirekafka.apis.shared.turns import release
from wirekafka.codec.compact import skip_tags
from wirekafka.codec.message import MalformedMessage, Request, Response
from wirekafka.errors import Error, KafkaError, MalformedRequest
from wirekafka.replication.raft.metadata_log import Sync, sync_inline
from wirekafka.runtime.driver import when_ready
from wirekafka.runtime.promise import computed
from wirekafka.server.connections.accounting import charge, charge_failure
from wirekafka.server.connections.parked_request import Parked
from wirekafka.server.connections.produce_cache import ProduceCache
from wirekafka.server.connections.repeated_warnings import Occasion, RepeatedWarnings
from wirekafka.server.connections.replies import Replies

logger = logging.getLogger(__name__)

Buffer = bytes | bytearray | memoryview

_REQUEST_HEADER = Struct(">Iih")
_PRODUCE, _API_VERSIONS = 0, 18

LARGE_BYTES = 1 << 14
"""Larger requests are decoded in a thread, and their responses encoded there, unless they are large
by records. An element may take one byte: a request of this size may hold the event loop for 30 ms.
"""

SMALLEST_REQUEST_BYTES = _REQUEST_HEADER.size

Serve: TypeAlias = Callable[[Buffer, int, int, Call, Replies], Parked | None]
"""Serves one request, as `Pipeline.serve` does."""


class Refused(Exception):
    """A request that gets no response: the connection is closed and the reason is logged.

    `kind` is the reason without the values of `detail`, which the client chooses: repeated
    warnings of the same kind are counted instead of logged.
    """

    def __init__(self, kind: str, detail: str = ""):
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind = kind


class RefusedLater(Refused):
    """A failed authentication: its response, if it has one, and the close are delayed.

    The delay makes guessing passwords slow; nobody else waits.
    """

    def __init__(self, kind: str, delay_ms: int, replies: Replies | None = None):
        super().__init__(kind)
        self.delay_ms = delay_ms
        self.replies = replies or Replies()


class Hook(Protocol):
    """Wraps the handlers of all requests, for fault rules and traffic recording in tests."""

    def handle(self, route: Route, request: Request, call: Call) -> Answer:
        """Called in place of `route.handle`; returns a response, None, or a coroutine of these.

        Raises the errors of a handler, or Refused.
        """


class Pipeline:
    """Serves the requests of all connections of one broker, or of one controller."""

    __slots__ = (
        "_around",
        "_hook",
        "_inner",
        "_known_route",
        "_produce_cache",
        "_routes",
        "is_for_controllers",
        "run_apart",
        "warnings",
    )

    def __init__(self, hook: Hook | None = None, routes: Routes = BROKERS):
        """`routes` are the routes of the listeners' kind."""
        self.warnings = RepeatedWarnings()
        self.run_apart: Sync = sync_inline
        """Runs the long work for a large request while other requests are served."""
        self._routes = routes
        self._known_route = routes.known.get
        self.is_for_controllers = routes is CONTROLLERS
        self._produce_cache: ProduceCache | None
        """None with a hook, which must see every request, and on controllers' listeners."""
        self._hook: Hook | None
        self._around: Callable[[Hook | None], Hook] | None = None
        self.hook = hook

    @property
    def hook(self) -> Hook | None:
        """The hook that is called in place of the handlers; may be changed between two requests."""
        return self._inner

    @hook.setter
    def hook(self, hook: Hook | None) -> None:
        self._inner = hook
        self._use_hooks()

    def wrap(self, around: Callable[[Hook | None], Hook] | None) -> None:
        """Put a hook around the present and every later `hook`; None removes it."""
        self._around = around
        self._use_hooks()

    def _use_hooks(self) -> None:
        hook = self._inner if self._around is None else self._around(self._inner)
        self._hook = hook
        has_cache = hook is None and self._routes is BROKERS
        self._produce_cache = self._new_cache() if has_cache else None

    def _new_cache(self) -> ProduceCache:
        return ProduceCache()

    def serve(self, data: Buffer, at: int, end: int, call: Call, replies: Replies) -> Parked | None:
        """Serve the request at `data[at:end]`, which excludes its size prefix.

        Adds the response to `replies` and returns None, or returns a request that waits. Raises
        Refused, MalformedMessage or UnicodeDecodeError if the connection must be closed.
        """
        quotas = call.broker.quotas
        if quotas is not None:
            call.metering.begin_work(quotas)
        # The cache compares the whole API key.
        if not data[at + 1] and (cache := self._produce_cache) is not None:
            served = cache.serve(data, at, end, call, replies)
            if served:
                return None if served is True else served
        return self._serve_decoded(data, at, end, call, replies)

    def _serve_decoded(
        self, data: Buffer, at: int, end: int, call: Call, replies: Replies
    ) -> Parked | None:
        """Serve a request that the cache does not serve, as `serve` does."""
        quotas = call.broker.quotas
        # Identify.
        api_and_version, correlation_id, client_id_bytes = _REQUEST_HEADER.unpack_from(data, at)
        route = self._known_route(api_and_version) or self._routes.find(api_and_version)
        if route is None:
            self._answer_unsupported(api_and_version, correlation_id, call, replies)
            return None
        body_at = at + 10 + (client_id_bytes if client_id_bytes > 0 else 0)
        if body_at > end or client_id_bytes < -1:
            raise MalformedMessage(f"a client id of {client_id_bytes} bytes")
        call.client_id = str(data[at + 10 : body_at], "utf-8") if client_id_bytes >= 0 else None
        if route.header_is_flexible:
            has_no_tags = body_at < end and not data[body_at]
            body_at = body_at + 1 if has_no_tags else _skip_header_tags(data, body_at, end)
        call.correlation_id, call.version, call.api_name = correlation_id, route.version, route.name
        # Admit. A muted connection serves no request, so that muting needs no check here.
        if route.needs_authentication and not call.client.is_authenticated:
            raise Refused("a request before authentication", route.api.name)
        if end - at > LARGE_BYTES and (large := route.of_large(data, body_at, end)) is not None:
            return self._serve_apart(large, data[at:end], body_at - at, call, replies)
        request, _ = route.decode(data, body_at, end)
        try:
            hook = self._hook
            response: Any = (
                route.handle(request, call) if hook is None else hook.handle(route, request, call)
            )
            if response.__class__ is CoroutineType:
                try:
                    waited = response.send(None)
                except StopIteration as done:
                    response = done.value
                else:
                    if quotas is not None:
                        call.metering.pause_work(end - at)
                    if route.key == _PRODUCE and (cache := self._produce_cache) is not None:
                        cache.note(data[at:end], request, None, call)
                    return ParkedHandler(self, route, request, response, waited)
            if quotas is not None and (
                call.metering.is_limited or not call.metering.knows_account(call.client_id, quotas)
            ):
                charge(quotas, route, request, call, end - at)
            if response is not None:
                if call.throttle_ms:
                    _report_throttling(route, response, call)
                replies.add(route, correlation_id, response)
        except Exception as error:
            self.fail(route, request, error, call, replies)
            return None
        if route.key == _PRODUCE and (cache := self._produce_cache) is not None:
            cache.note(data[at:end], request, response, call)
        return None

    def handle(self, route: Route, request: Request, call: Call) -> Answer:
        """Call the handler of a route, or the hook; returns a response, None, or a coroutine."""
        hook = self._hook
        return route.handle(request, call) if hook is None else hook.handle(route, request, call)

    def encoded(self, route: Route, correlation_id: int, response: Response) -> Replies:
        """Encode a response in a thread, which frees it too."""
        replies = Replies()
        replies.add(route, correlation_id, response)
        replies.last = None
        return replies

    def _serve_apart(
        self, route: Route, frame: Buffer, body_at: int, call: Call, replies: Replies
    ) -> Parked | None:
        """Serve a large request, as `serve` does."""
        call.metering.request_bytes = len(frame)
        parked = ParkedLarge(self, route, frame, body_at, call)
        if parked.resume(call, replies):
            return None
        call.needs_buffer = True
        return parked

    def refuse(self, frame: memoryview, error: KafkaError, call: Call, replies: Replies) -> None:
        """Add the response that reports `error` for a request, which is not handled.

        `frame` excludes the size prefix. Raises as `serve` does.
        """
        api_and_version, correlation_id, client_id_bytes = _REQUEST_HEADER.unpack_from(frame)
        call.correlation_id = correlation_id
        route = self._routes.find(api_and_version)
        if route is None and api_and_version >> 16 == _API_VERSIONS:
            route = self._routes.find(_API_VERSIONS << 16)
            assert route is not None, "every version of it gets a response"
            call.version = 0
            self.fail(route, route.api.request(), error, call, replies)
            return
        if route is None:
            raise Refused("an unsupported API or version")
        body_at = 10 + max(0, client_id_bytes)
        if route.header_is_flexible:
            body_at = _skip_header_tags(frame, body_at, len(frame))
        call.version = route.version
        request, _ = route.decode(frame, body_at, len(frame))
        self.fail(route, request, error, call, replies)

    def fail(
        self, route: Route, request: Request, error: Exception, call: Call, replies: Replies
    ) -> None:
        """Add the response to a request whose handler raised `error`; re-raises a Refused."""
        response = failure_response(route, request, error, call, self.warnings)
        if call.broker.quotas is not None:
            charge_failure(call.broker.quotas, route, call)
        _report_throttling(route, response, call)
        replies.add(route, call.correlation_id, response)

    def _answer_unsupported(
        self, api_and_version: int, correlation_id: int, call: Call, replies: Replies
    ) -> None:
        """Answer an unknown version of ApiVersions with UNSUPPORTED_VERSION in version 0 (KIP-511).

        Raises Refused for any other API.
        """
        route = self._routes.find(_API_VERSIONS << 16)
        if api_and_version >> 16 != _API_VERSIONS or route is None:
            raise Refused(
                "an unsupported API or version",
                f"API {api_and_version >> 16} version {api_and_version & 0xFFFF} is not supported",
            )
        call.version = 0
        request = route.api.request()
        unsupported = KafkaError(Error.UNSUPPORTED_VERSION)
        replies.add(route, correlation_id, route.api.failure(request, unsupported, call))


class ParkedHandler:
    """A request whose handler waits for a future."""

    __slots__ = (
        "_coroutine",
        "_is_divided",
        "_is_encoding",
        "_pipeline",
        "_request",
        "_route",
        "_waited",
    )

    def __init__(
        self,
        pipeline: Pipeline,
        route: Route,
        request: Any,
        coroutine: Coroutine[Any, Any, Any],
        waited: object,
    ):
        self._pipeline = pipeline
        self._route = route
        self._request = request
        self._coroutine = coroutine
        self._waited = waited
        """The future that the handler waits for; None if it only yields to the event loop."""
        self._is_divided = waited is None
        """Whether the handler has divided its work: the response may be large, too."""
        self._is_encoding = False

    @property
    def must_complete(self) -> bool:
        """Whether the request is a Produce request."""
        return self._route.key == _PRODUCE

    def when_ready(self, callback: Callable[[object], None]) -> None:
        when_ready(self._waited, callback)

    def resume(self, call: Call, replies: Replies) -> bool:
        quotas = call.broker.quotas
        if quotas is not None and quotas.measures_work:
            call.metering.resume_work()
        try:
            try:
                self._waited = self._coroutine.send(None)
            except StopIteration as done:
                if self._is_encoding:
                    replies.append(done.value)
                    return True
                if quotas is not None:
                    call.seen_ms = call.now_ms
                    charge(quotas, self._route, self._request, call, call.metering.request_bytes)
                if done.value is not None:
                    if self._is_divided and not self._route.response_has_records:
                        self._coroutine = self._encoded_and_released(done.value, call)
                        self._is_encoding = True
                        return self.resume(call, replies)
                    _report_throttling(self._route, done.value, call)
                    replies.add(self._route, call.correlation_id, done.value)
            else:
                if self._waited is None:
                    self._is_divided = True
                if quotas is not None and quotas.measures_work:
                    call.metering.pause_work(call.metering.request_bytes)
                return False
        except Exception as error:
            self._pipeline.fail(self._route, self._request, error, call, replies)
        return True

    def abandon(self) -> None:
        try:
            self._coroutine.close()
        except Exception:
            logger.exception("Cancelling a waiting %s failed", self._route.api.name)

    async def _encoded(self, response: Response, call: Call) -> Replies:
        """Encode the response in a thread; if that fails, a response that reports the failure."""
        route, pipeline = self._route, self._pipeline
        _report_throttling(route, response, call)
        encode = partial(pipeline.encoded, route, call.correlation_id)
        try:
            return await computed(pipeline.run_apart, partial(encode, response))
        except Exception as error:
            failed = await self._failed(error, call)
        _report_throttling(route, failed, call)
        return await computed(pipeline.run_apart, partial(encode, failed))

    async def _failed(self, error: Exception, call: Call) -> Response:
        """The response that reports a failure. It may repeat the error for every element."""
        route, request, pipeline = self._route, self._request, self._pipeline
        reported = reported_error(route, error, call, pipeline.warnings)
        if call.broker.quotas is not None:
            charge_failure(call.broker.quotas, route, call)
        return await computed(
            pipeline.run_apart, lambda: route.api.failure(request, reported, call)
        )

    async def _encoded_and_released(self, response: Response, call: Call) -> Replies:
        """As `_encoded`; then free the response, which may have a million elements."""
        encoded = await self._encoded(response, call)
        messages: list[Any] = [response]
        del response
        await computed(self._pipeline.run_apart, partial(release, messages))
        return encoded


class ParkedLarge(ParkedHandler):
    """A request that may have a million elements: a thread decodes it and encodes its response.

    The thread shares the interpreter with the event loop, which so goes on after 5 ms at most.
    Between the two, the handler divides its work among turns of the event loop (`Turns`).
    """

    __slots__ = ()

    def __init__(self, pipeline: Pipeline, route: Route, frame: Buffer, body_at: int, call: Call):
        super().__init__(pipeline, route, None, self._serve(frame, body_at, call), None)

    def resume(self, call: Call, replies: Replies) -> bool:
        quotas = call.broker.quotas
        if quotas is not None and quotas.measures_work:
            call.metering.resume_work()
        try:
            self._waited = self._coroutine.send(None)
        except StopIteration as done:
            response, encoded = done.value
            if encoded is not None:
                replies.append(encoded)
            elif response is not None:
                self._add(response, call, replies)
            return True
        if quotas is not None and quotas.measures_work:
            call.metering.pause_work(call.metering.request_bytes)
        return False

    async def _serve(
        self, frame: Buffer, body_at: int, call: Call
    ) -> tuple[Response | None, Replies | None]:
        """Return the response, and itself encoded, unless it may have records."""
        route, run_apart = self._route, self._pipeline.run_apart
        call.run_apart = run_apart
        try:
            decode = partial(route.decode, frame, body_at, len(frame))
            try:
                self._request, _ = await computed(run_apart, decode)
            except MalformedMessage as error:
                raise Refused("a malformed request", str(error)) from error
            del frame, decode
            response = await self._handled(call)
            if response is not None and route.response_has_records:
                _report_throttling(route, response, call)
                return response, None
            encoded = None if response is None else await self._encoded(response, call)
            # A million objects: freed at once, they would hold the event loop too.
            messages = [self._request, response]
            self._request = response = None
            await computed(run_apart, partial(release, messages))
            return None, encoded
        finally:
            call.run_apart = sync_inline

    def _add(self, response: Response, call: Call, replies: Replies) -> None:
        """Add a response that may have records, or a response that reports its failure."""
        try:
            replies.add(self._route, call.correlation_id, response)
        except Exception as error:
            self._pipeline.fail(self._route, self._request, error, call, replies)

    async def _handled(self, call: Call) -> Response | None:
        """The response of the handler, or of its failure."""
        route, request, quotas = self._route, self._request, call.broker.quotas
        try:
            answer = self._pipeline.handle(route, request, call)
            response = await answer if isinstance(answer, Coroutine) else answer
            if quotas is not None:
                call.seen_ms = call.now_ms
                charge(quotas, route, request, call, call.metering.request_bytes)
            return response
        except Exception as error:
            return await self._failed(error, call)


def failure_response(
    route: Route, request: Request, error: Exception, call: Call, warnings: RepeatedWarnings
) -> Response:
    """The response to a request whose handler raised `error`. Raises as `reported_error`."""
    return route.api.failure(request, reported_error(route, error, call, warnings), call)


def reported_error(
    route: Route, error: Exception, call: Call, warnings: RepeatedWarnings
) -> KafkaError:
    """The error that the client gets for a handler's error, which is logged if unexpected.

    An error that is no KafkaError becomes UNKNOWN_SERVER_ERROR. Raises a Refused again, and raises
    Refused for a MalformedRequest.
    """
    if isinstance(error, Refused):
        raise error
    if isinstance(error, MalformedRequest):
        raise Refused("a malformed request", f"{route.api.name}: {error}") from error
    if isinstance(error, KafkaError):
        return error
    name = f"{route.api.name} version {route.version}"
    warnings.log(
        logging.ERROR,
        Occasion(call.client_host, f"{name} failed", call.now_ms),
        f"{name} from {call.connection_id} failed",
        exc_info=error,
    )
    return KafkaError(Error.UNKNOWN_SERVER_ERROR)


def _report_throttling(route: Route, response: Any, call: Call) -> None:
    """Set the response's throttle time; the connection mutes itself for that time (KIP-219)."""
    if call.throttle_ms and route.reports_throttling:
        response.throttle_time_ms = call.throttle_ms


def _skip_header_tags(data: Buffer, at: int, end: int) -> int:
    try:
        return skip_tags(data, at, end)
    except (ValueError, IndexError) as fault:
        raise Refused("malformed tags in a request header", str(fault)) from None
