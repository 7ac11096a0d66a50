"""Serves requests as `dispatch` does, while rules act on them and a recorder writes them down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import CoroutineType
from typing import Any

from wirekafka.apis import registry
from wirekafka.apis.registry import Call, Route
from wirekafka.codec.frame import RequestHeader
from wirekafka.codec.message import Request, Response
from wirekafka.errors import Error, KafkaError
from wirekafka.server import dispatch
from wirekafka.server.dispatch import Buffer, Parked, Refused, Replies
from wirekafka.testing import partial
from wirekafka.testing.rules import Kind, LiveRule, RuleBook
from wirekafka.testing.subjects import NameOf, subjects_of
from wirekafka.testing.traffic import Exchange, Recorder

logger = logging.getLogger(__name__)

_read_header = RequestHeader.decoder


class Serving:
    """The one way every request of a broker under test goes, whether a rule is set or not."""

    def __init__(self, rules: RuleBook, recorder: Recorder):
        self._rules = rules
        self._recorder = recorder
        self._muted_until: dict[str, float] = {}
        self.on_exchange: Callable[[], None] = lambda: None

    def serve(self, data: Buffer, at: int, end: int, call: Call, replies: Replies) -> Parked | None:
        """As `dispatch.serve`."""
        api_and_version = int.from_bytes(data[at:at + 4], "big")
        route = registry.find(api_and_version)
        if route is None:
            return dispatch.serve(data, at, end, call, replies)
        header, position = _read_header(2 if route.header_is_flexible else 1)(data, at, end)
        call.client_id = header.client_id
        call.correlation_id = header.correlation_id
        call.version = route.version
        request, _ = route.decode(data, position, end)
        response = self.answer(route, request, call)
        if response.__class__ is CoroutineType:
            try:
                waited = response.send(None)
            except StopIteration as done:
                response = done.value
            else:
                return Parked(route, request, response, waited)
        if response is not None:
            replies.add(route, header.correlation_id, response)
        return None

    def forget_throttling(self) -> None:
        """Have no connection wait any longer."""
        self._muted_until.clear()

    def answer(self, route: Route, request: Request, call: Call) -> Any:
        """The response, or a coroutine that returns it."""
        name_of = _namer(call)
        if partial.is_fetch(request) and self._rules.is_about_fetched_partitions:
            # A fetch within a session does not say what it is about: have every one say it.
            if request.session_id:  # type: ignore[attr-defined]
                return _failure(route, request, call,
                                KafkaError(Error.FETCH_SESSION_ID_NOT_FOUND))
            request.session_epoch = -1  # type: ignore[attr-defined]
        asked = subjects_of(request, name_of)
        rules = self._rules.matching(request, route.api.name, call.client_id, name_of)
        exchange = self._recorder.begin(Exchange(
            0, call.now_ms, route.api.name, route.version, call.client_id, call.connection_id,
            request, asked, faults=tuple(str(rule.spec) for rule in rules)))
        if rules or self._muted_until:
            return self._faulty(_Served(route, request, call, name_of), rules, exchange)
        response = _handled(route, request, call)
        if response.__class__ is CoroutineType:
            return self._awaited(route, request, call, response, exchange)
        self._end(exchange, response)
        return response

    async def _awaited(self, route: Route, request: Request, call: Call,
                       handling: Coroutine[Any, Any, Any], exchange: Exchange) -> Any:
        try:
            response = await handling
        except Exception as error:
            response = _failure(route, request, call, error)
        self._end(exchange, response)
        return response

    def _end(self, exchange: Exchange, response: Any) -> None:
        self._recorder.end(exchange, response)
        self.on_exchange()

    async def _faulty(self, served: _Served, rules: list[LiveRule], exchange: Exchange) -> Any:
        """Go through every rule that acts on the request, then (or before) serve it."""
        call = served.call
        await self._sit_out(call)
        call.needs_buffer = True
        response = await self._through(served, rules)
        throttle = max((rule.spec.seconds for rule in rules
                        if rule.spec.kind is Kind.THROTTLE), default=0.0)
        if throttle and response is not None:
            response.throttle_time_ms = int(throttle * 1000)
            loop = asyncio.get_running_loop()
            self._muted_until[call.connection_id] = loop.time() + throttle
        self._end(exchange, response)
        return response

    async def _sit_out(self, call: Call) -> None:
        """A throttled connection is not served until its time has passed, as with Kafka."""
        until = self._muted_until.pop(call.connection_id, None)
        if until is not None:
            call.needs_buffer = True
            await asyncio.sleep(max(until - asyncio.get_running_loop().time(), 0))

    async def _through(self, served: _Served, rules: list[LiveRule]) -> Any:
        # A fault before the request is applied hides those that would come after it.
        for rule in rules:
            if not rule.spec.applied and await _intervene(rule):
                return served.dropped()
        before = next((rule for rule in rules if rule.spec.kind is Kind.FAIL
                       and not rule.spec.applied), None)
        response = await served.failed(before) if before is not None else await served.response()
        for rule in rules:
            if rule.spec.applied:
                if rule.spec.kind is Kind.FAIL:
                    response = served.told(rule.spec.error, response)
                elif await _intervene(rule):
                    return served.dropped()
        return response


class _Served:
    """A request on its way to its handler, or to a failure instead."""

    def __init__(self, route: Route, request: Request, call: Call, name_of: NameOf):
        self.call = call
        self._route = route
        self._request = request
        self._name_of = name_of

    async def response(self, request: Request | None = None) -> Any:
        """What the handler answers."""
        request = request or self._request
        try:
            response = self._route.handle(request, self.call)
            return await response if response.__class__ is CoroutineType else response
        except Exception as error:
            return _failure(self._route, request, self.call, error)

    def dropped(self) -> None:
        """Nothing: the connection is closed."""
        self.call.close()

    def told(self, error: Error, response: Any) -> Any:
        """The error, of a request that was served all the same; `response` if none was sent."""
        if response is None:
            return None
        return self._refusal(self._request, error)

    async def failed(self, rule: LiveRule) -> Any:
        """The request fails, or as much of it as the rule is for; the rest is served."""
        spec, request = rule.spec, self._request
        if not spec.names_partitions:
            return self._silenced(self._refusal(request, spec.error))
        if partial.is_metadata(request):
            response = await self.response()
            partial.fail_topics(response, spec.error, spec.chooses)
            return response
        if not partial.can_be_parted(request):
            return self._refusal(request, spec.error)
        ours, rest = partial.parted(request, spec.chooses, self._name_of)
        refusal = self._refusal(ours, spec.error)
        if partial.is_fetch(request) and rest is not None:
            rest.max_wait_ms = 0  # type: ignore[attr-defined]
        served = await self.response(rest) if rest is not None else None
        return self._silenced(partial.joined(refusal, served, self._name_of))

    def _refusal(self, request: Request, error: Error) -> Response:
        if partial.is_fetch(request) and not partial.is_session_error(error):
            return partial.failed_fetch(request, error, self._route.api.response)
        return _failure(self._route, request, self.call, KafkaError(error))

    def _silenced(self, response: Response) -> Response | None:
        """Nobody waits for the answer to a Produce with acks=0: Kafka closes the connection."""
        if getattr(self._request, "acks", None) == 0:
            self.call.close()
            return None
        return response


async def _intervene(rule: LiveRule) -> bool:
    """Wait as a rule says; whether the connection is to be dropped then."""
    match rule.spec.kind:
        case Kind.DELAY:
            # No longer than the rule is in force: nobody waits for a test that is over.
            with suppress(TimeoutError):
                await asyncio.wait_for(rule.released(), rule.spec.seconds)
        case Kind.HOLD:
            await rule.released()
        case Kind.DROP:
            return True
        case Kind.FAIL | Kind.THROTTLE:
            pass
    return False


def _handled(route: Route, request: Request, call: Call) -> Any:
    try:
        return route.handle(request, call)
    except Exception as error:
        return _failure(route, request, call, error)


def _failure(route: Route, request: Request, call: Call, error: Exception) -> Response:
    if not isinstance(error, KafkaError):
        logger.error("%s version %d from %s failed", route.api.name, route.version,
                     call.connection_id, exc_info=error)
        error = KafkaError(Error.UNKNOWN_SERVER_ERROR)
    try:
        return route.api.failure(request, error, call)
    except KafkaError as untold:
        raise Refused(f"{route.api.name} cannot tell {untold}") from untold


def _namer(call: Call) -> NameOf:
    topics = call.broker.image.topics_by_id

    def name_of(topic_id: bytes) -> str | None:
        topic = topics.get(topic_id)
        return topic.name if topic is not None else None

    return name_of
