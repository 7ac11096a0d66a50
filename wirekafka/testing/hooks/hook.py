"""The pipeline hook that applies fault rules to requests and records them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import Any

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.routes import Route
from wirekafka.codec.message import Request, Response
from wirekafka.errors import Error, KafkaError
from wirekafka.registry.names import CLIENT_ID
from wirekafka.server.connections.pipeline import failure_response
from wirekafka.server.connections.repeated_warnings import RepeatedWarnings
from wirekafka.testing.hooks import partial
from wirekafka.testing.hooks.details import names_of_ids
from wirekafka.testing.hooks.rules import LiveRule, RuleBook, RuleKind
from wirekafka.testing.hooks.subjects import NameOf, subjects_of
from wirekafka.testing.hooks.traffic import Exchange, Recorder
from wirekafka.testing.net import BETWEEN_NODES


class FaultsAndTraffic:
    """Wraps every handler of a broker under test, with or without fault rules."""

    def __init__(self, rules: RuleBook, recorder: Recorder):
        self._rules = rules
        self._recorder = recorder
        self._warnings = RepeatedWarnings()
        self.on_exchange: Callable[[], None] = lambda: None
        self._resumed: asyncio.Event | None = None

    def pause(self) -> None:
        """Serve no requests of clients, and send no responses, until `resume`."""
        self._resumed = self._resumed or asyncio.Event()

    def resume(self) -> None:
        """Continue after `pause`."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            resumed.set()

    def handle(self, route: Route, request: Request, call: Call) -> Any:
        """The response, or a coroutine that returns it."""
        if call.listener == BETWEEN_NODES:
            return route.handle(request, call)
        if self._resumed is not None:
            return self._later(self._resumed, route, request, call)
        if (call.client_id or "").startswith(CLIENT_ID):
            # The schema registry's own: it has faults of its own, and is no client under test.
            return route.handle(request, call)
        name_of = _namer(call)
        if partial.is_fetch(request) and self._rules.is_about_fetched_partitions:
            # An incremental Fetch does not list its partitions: make the client send full ones.
            if request.session_id:  # type: ignore[attr-defined]
                unknown = KafkaError(Error.FETCH_SESSION_ID_NOT_FOUND)
                return failure_response(route, request, unknown, call, self._warnings)
            request.session_epoch = -1  # type: ignore[attr-defined]
        subjects = subjects_of(request, name_of)
        rules = self._rules.matching(request, route.api.name, call.client_id, name_of)
        exchange = self._recorder.begin(
            Exchange(
                0,
                call.now_ms,
                route.api.name,
                route.version,
                call.client_id,
                call.connection_id,
                request,
                subjects,
                faults=tuple(str(rule.spec) for rule in rules),
                topic_names=names_of_ids(request, name_of),
            )
        )
        served = _Served(route, request, call, name_of, self._warnings)
        if rules:
            return self._faulty(served, rules, exchange)
        try:
            response = route.handle(request, call)
        except Exception as error:
            response = served.failure(error)
        if response.__class__ is CoroutineType:
            return self._awaited(served, response, exchange)
        self._end(exchange, response)
        return response

    async def _later(
        self, resumed: asyncio.Event, route: Route, request: Request, call: Call
    ) -> Any:
        call.needs_buffer = True
        await resumed.wait()
        response = self.handle(route, request, call)
        return await response if response.__class__ is CoroutineType else response

    async def _awaited(
        self, served: _Served, handling: Coroutine[Any, Any, Any], exchange: Exchange
    ) -> Any:
        try:
            response = await handling
        except Exception as error:
            response = served.failure(error)
        if self._resumed is not None:
            await self._resumed.wait()
        self._end(exchange, response)
        return response

    def _end(self, exchange: Exchange, response: Any) -> None:
        self._recorder.end(exchange, response)
        self.on_exchange()

    async def _faulty(self, served: _Served, rules: list[LiveRule], exchange: Exchange) -> Any:
        """Apply every rule that matches the request, and serve it between or after them."""
        call = served.call
        call.needs_buffer = True
        response = await self._through(served, rules)
        self._end(exchange, response)
        call.throttle_ms = max(
            [
                call.throttle_ms,
                *(
                    int(rule.spec.seconds * 1000)
                    for rule in rules
                    if rule.spec.kind is RuleKind.THROTTLE
                ),
            ]
        )
        if call.throttle_ms and hasattr(exchange.response, "throttle_time_ms"):
            exchange.response.throttle_time_ms = call.throttle_ms  # As the pipeline will send it.
        return response

    async def _through(self, served: _Served, rules: list[LiveRule]) -> Any:
        # A fault before the request is applied hides the faults after it.
        for rule in rules:
            if not rule.spec.applied and await _intervene(rule):
                return served.dropped()
        before = next(
            (rule for rule in rules if rule.spec.kind is RuleKind.FAIL and not rule.spec.applied),
            None,
        )
        response = await served.failed(before) if before is not None else await served.response()
        for rule in rules:
            if rule.spec.applied:
                if rule.spec.kind is RuleKind.FAIL:
                    response = served.replaced(rule.spec.error, response)
                elif await _intervene(rule):
                    return served.dropped()
        return response


class _Served:
    """A request with its context, to be handled or failed."""

    def __init__(
        self,
        route: Route,
        request: Request,
        call: Call,
        name_of: NameOf,
        warnings: RepeatedWarnings,
    ):
        self.call = call
        self._warnings = warnings
        self._route = route
        self._request = request
        self._name_of = name_of

    async def response(self, request: Request | None = None) -> Any:
        """The response of the handler."""
        request = request or self._request
        try:
            response = self._route.handle(request, self.call)
            return await response if response.__class__ is CoroutineType else response
        except Exception as error:
            return self.failure(error, request)

    def failure(self, error: Exception, request: Request | None = None) -> Response:
        """The response to a request whose handler raised `error`."""
        return failure_response(
            self._route, request or self._request, error, self.call, self._warnings
        )

    def dropped(self) -> None:
        """Close the connection; there is no response."""
        self.call.close()

    def replaced(self, error: Error, response: Any) -> Any:
        """An error response in place of the handler's `response`; None in place of None."""
        if response is None:
            return None
        return self._refusal(self._request, error)

    async def failed(self, rule: LiveRule) -> Any:
        """Fail the request, or the partitions that the rule names, and serve all others."""
        spec, request = rule.spec, self._request
        if not spec.names_partitions:
            return self._silenced(self._refusal(request, spec.error))
        if partial.is_metadata(request):
            response = await self.response()
            partial.fail_topics(response, spec.error, spec.chooses)
            return response
        if not partial.can_be_split(request):
            return self._refusal(request, spec.error)
        part, rest = partial.split(request, spec.chooses, self._name_of)
        refusal = self._refusal(part, spec.error)
        if partial.is_fetch(request) and rest is not None:
            rest.max_wait_ms = 0  # type: ignore[attr-defined]
        served = await self.response(rest) if rest is not None else None
        return self._silenced(partial.joined(refusal, served, self._name_of))

    def _refusal(self, request: Request, error: Error) -> Response:
        if partial.is_fetch(request) and not partial.is_session_error(error):
            return partial.failed_fetch(request, error, self._route.api.response)
        return self.failure(KafkaError(error), request)

    def _silenced(self, response: Response) -> Response | None:
        """The response, or None for a Produce with acks=0, whose errors close the connection."""
        if getattr(self._request, "acks", None) == 0:
            self.call.close()
            return None
        return response


async def _intervene(rule: LiveRule) -> bool:
    """Delay or hold a request by a rule; returns whether the connection must be closed."""
    match rule.spec.kind:
        case RuleKind.DELAY:
            # Ends with the rule, so that no request outlives its test.
            await rule.released(rule.spec.seconds)
        case RuleKind.HOLD:
            await rule.released()
        case RuleKind.DROP:
            return True
        case RuleKind.FAIL | RuleKind.THROTTLE:
            pass
    return False


def _namer(call: Call) -> NameOf:
    topics = call.broker.image.topics_by_id

    def name_of(topic_id: bytes) -> str | None:
        topic = topics.get(topic_id)
        return topic.name if topic is not None else None

    return name_of
