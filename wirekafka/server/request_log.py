"""Kafka's request log: one line of JSON for each request, on the logger kafka.request.logger."""

from __future__ import annotations

import json
import logging
import re
from base64 import b64encode
from collections.abc import Coroutine, Generator
from time import perf_counter_ns
from types import CoroutineType, coroutine
from typing import Any

from wirekafka.apis.registry import Call
from wirekafka.apis.routes import Route
from wirekafka.codec.message import Message
from wirekafka.codec.schema import Field
from wirekafka.config import listeners as addresses
from wirekafka.config.options import BROKER, TOPIC
from wirekafka.log.checkpoints import uuid_text

logger = logging.getLogger("kafka.request.logger")

_NS_PER_MS = 1_000_000
_NOT_LOGGED = frozenset({"SaslHandshake", "SaslAuthenticate"})
"""Kafka answers these apart from all others; they have passwords."""
_SECRET = frozenset({"auth_bytes", "hmac", "salt", "salted_password"})
_CONFIGS = frozenset({"AlterConfigs", "IncrementalAlterConfigs", "CreateTopics"})
_REDACTED = "(redacted)"
_UUID, _RECORDS = "16s", "records"
_KNOWN = {**BROKER, **TOPIC}


class RequestLog:
    """A `pipeline.Hook` that logs every request when its handler has ended.

    Every request is decoded then: none is served from a cache. A request that fails with an error
    of its handler is logged without a response. Secrets are redacted.
    """

    def handle(self, route: Route, request: Any, call: Call) -> Any:
        """Call the handler, and log the request and its response."""
        if route.api.name in _NOT_LOGGED or not logger.isEnabledFor(logging.DEBUG):
            return route.handle(request, call)
        began_ns = perf_counter_ns()
        # Later requests of the connection change the call; a waiting one is alone.
        described = _described(route, request, call)
        try:
            response = route.handle(request, call)
        except Exception:
            _log(described | _times(began_ns, None, call), None)
            raise
        if response.__class__ is CoroutineType:
            return _Waiting(described, call, began_ns).result(response)
        _log(described | _times(began_ns, None, call), response)
        return response


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
    software = dict(zip(("softwareName", "softwareVersion"), call.client_software, strict=True))
    return {
        "isForwarded": False,
        "requestHeader": {
            "requestApiKey": route.key,
            "requestApiVersion": route.version,
            "correlationId": call.correlation_id,
            "clientId": call.client_id,
            "requestApiKeyName": _constant(route.api.name),
        },
        "request": to_json(request, route.version, route.api.name in _CONFIGS),
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
        found["response"] = to_json(response, version, False)
    logger.debug("Completed request:%s", json.dumps(found, separators=(",", ":")))


def to_json(message: Message, version: int, redacts: bool) -> dict[str, Any]:
    """The fields that a version of the message has, as Kafka's converters write them.

    Records are given by their size only, tagged fields if they are not the default. With
    `redacts`, values of options are shown only of those that are known not to be secret.
    """
    found: dict[str, Any] = {}
    for field in message.fields:
        value = getattr(message, field.name)
        if version not in field.versions or (
            field.tag is not None and version in field.tagged and value == field.default
        ):
            continue
        name = _camel(field.name)
        if field.kind == _RECORDS:
            found[f"{name}SizeInBytes"] = None if value is None else _size_of(value)
        elif field.name in _SECRET:
            found[name] = _REDACTED
        elif redacts and field.name == "value" and not _is_open(message):
            found[name] = None if value is None else _REDACTED
        else:
            found[name] = _value(field, value, version, redacts)
    return found


def _value(field: Field, value: Any, version: int, redacts: bool) -> Any:
    if field.is_array:
        return None if value is None else [_one(field, each, version, redacts) for each in value]
    return _one(field, value, version, redacts)


def _one(field: Field, value: Any, version: int, redacts: bool) -> Any:
    if field.part is not None and value is not None:
        return to_json(value, version, redacts)
    if field.kind == _UUID:
        return uuid_text(bytes(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _is_open(config: Message) -> bool:
    option = _KNOWN.get(getattr(config, "name", ""))
    return option is not None and not option.sensitive


def _size_of(records: Any) -> int:
    if isinstance(records, list | tuple):
        return sum(len(each) for each in records)
    return len(records)


def _camel(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), name)


def _constant(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def _protocol(call: Call) -> str:
    bound = addresses.listeners(call.broker.config).bound
    return next((str(each.protocol) for each in bound if each.name == call.listener), "")
