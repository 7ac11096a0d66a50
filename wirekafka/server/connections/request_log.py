"""Kafka's request log: one line of JSON for each request, on the logger kafka.request.logger."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Coroutine, Generator
from time import perf_counter_ns
from types import CoroutineType, coroutine
from typing import Any

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.routes import Route
from wirekafka.codec.message import Message
from wirekafka.config.endpoints import listeners as addresses
from wirekafka.config.loggers import REQUEST_LOGGER
from wirekafka.server.connections.message_json import to_json
from wirekafka.server.connections.pipeline import Hook

logger = logging.getLogger(REQUEST_LOGGER)

_NS_PER_MS = 1_000_000
_NOT_LOGGED = frozenset({"SaslHandshake", "SaslAuthenticate"})
"""Kafka answers these apart from all others; they have passwords."""


class RequestLog:
    """A `pipeline.Hook` that logs every request when its handler has ended.

    Every request is decoded then: none is served from a cache. A request that fails with an error
    of its handler is logged without a response. Secrets are redacted.
    """

    def __init__(self, inner: Hook | None = None):
        """`inner` is called in place of the handlers."""
        self._inner = inner

    def handle(self, route: Route, request: Any, call: Call) -> Any:
        """Call the handler, and log the request and its response."""
        if route.api.name in _NOT_LOGGED or not logger.isEnabledFor(logging.DEBUG):
            return self._handle(route, request, call)
        began_ns = perf_counter_ns()
        # Later requests of the connection change the call; a waiting one is alone.
        described = _described(route, request, call)
        try:
            response = self._handle(route, request, call)
        except Exception:
            _log(described | _times(began_ns, None, call), None)
            raise
        if response.__class__ is CoroutineType:
            return _Waiting(described, call, began_ns).result(response)
        _log(described | _times(began_ns, None, call), response)
        return response

    def _handle(self, route: Route, request: Any, call: Call) -> Any:
        inner = self._inner
        return route.handle(request, call) if inner is None else inner.handle(route, request, call)


class _Waiting:
    """A request whose handler may wait."""

    def __init__(self, described: dict[str, Any], call: Call, began_ns: int):
        self._described = described
        self._call = call
        self._began_ns = began_ns
        self._worked_ns = perf_counter_ns() - began_ns

    async def result(self, handling: Coroutine[Any, Any, Any]) -> Any:
        """Return the response, and log the request."""
        response = None
        try:
            response = await self._drive(handling)
        finally:
            times = _times(self._began_ns, self._worked_ns, self._call)
            _log(self._described | times, response)
        return response

    @coroutine
    def _drive(self, handling: Coroutine[Any, Any, Any]) -> Generator[Any, None, Any]:
        """Run the handler as the pipeline does, and add up the time between its waits."""
        try:
            while True:
                began_ns = perf_counter_ns()
                try:
                    waited = handling.send(None)
                except StopIteration as done:
                    return done.value
                finally:
                    self._worked_ns += perf_counter_ns() - began_ns
                yield waited
        finally:
            handling.close()


def _described(route: Route, request: Message, call: Call) -> dict[str, Any]:
    software = dict(zip(("softwareName", "softwareVersion"), call.client.software, strict=True))
    return {
        "isForwarded": False,
        "requestHeader": {
            "requestApiKey": route.key,
            "requestApiVersion": route.version,
            "correlationId": call.correlation_id,
            "clientId": call.client_id,
            "requestApiKeyName": _constant(route.api.name),
        },
        "request": to_json(request, route.version),
        "response": "",
        "connection": call.connection_id,
        "securityProtocol": _protocol(call),
        "principal": call.principal,
        "listener": call.listener,
        "clientInformation": software,
    }


def _times(began_ns: int, worked_ns: int | None, call: Call) -> dict[str, float]:
    """The times in ms; `worked_ns` is None if the request has not waited. There are no queues."""
    total_ns = perf_counter_ns() - began_ns
    local_ns = total_ns if worked_ns is None else worked_ns
    return {
        "totalTimeMs": round(total_ns / _NS_PER_MS, 3),
        "requestQueueTimeMs": 0.0,
        "localTimeMs": round(local_ns / _NS_PER_MS, 3),
        "remoteTimeMs": round(max(total_ns - local_ns, 0) / _NS_PER_MS, 3),
        "throttleTimeMs": call.throttle_ms,
        "responseQueueTimeMs": 0.0,
        "sendTimeMs": 0.0,
    }


def _log(found: dict[str, Any], response: Message | None) -> None:
    if response is not None:
        version = found["requestHeader"]["requestApiVersion"]
        found["response"] = to_json(response, version)
    logger.debug("Completed request:%s", json.dumps(found, separators=(",", ":")))


def _constant(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def _protocol(call: Call) -> str:
    bound = addresses.listeners(call.broker.config).bound
    return next((str(each.protocol) for each in bound if each.name == call.listener), "")
