"""The routes of requests on the listeners of brokers and of controllers, compiled on first use."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from types import CoroutineType
from typing import Any

from wirekafka.apis.shared import registry
from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import Answer, Api, Handle, Scope
from wirekafka.codec.decode import has_records
from wirekafka.codec.message import Buffer, Request, Response

_API_VERSIONS = 18
_EXEMPT = frozenset({1, 27})  # Fetch and WriteTxnMarkers.


class Route:
    """The decoder, encoder and handler of one version of an API, compiled on first use."""

    __slots__ = (
        "_crowded",
        "_request_has_records",
        "api",
        "decode",
        "encode",
        "handle",
        "header_is_flexible",
        "is_exempt",
        "key",
        "name",
        "needs_authentication",
        "reports_throttling",
        "response_has_records",
        "response_header_is_flexible",
        "version",
    )

    def __init__(self, declared: Api, version: int, handle: Handle):
        self.api = declared
        self.key = declared.key
        self.name = declared.name
        self.version = version
        self.decode = declared.request.decoder(version)
        self.encode: Callable[[Response, list[Buffer], bytearray], bytearray] = self._encode_first
        self.handle = handle
        self.header_is_flexible = version in declared.request.flexible
        # Clients decode the ApiVersions response before they know the broker's versions.
        self.response_header_is_flexible = self.header_is_flexible and declared.key != _API_VERSIONS
        self.needs_authentication = not declared.before_authentication
        self.is_exempt = declared.key in _EXEMPT
        """Whether quotas leave the request to the handler: the throttle time of a Fetch decides on
        its response; followers' Fetch and markers of transactions are never counted."""
        self._request_has_records = has_records(declared.request)
        self._crowded: Route | None = None
        """The route of requests of many elements, where `api.crowd` serves them."""
        self.response_has_records = has_records(declared.response)
        self.reports_throttling = any(
            field.name == "throttle_time_ms" for field in declared.response.fields
        )

    def of_large(self, data: Buffer, body_at: int, end: int) -> Route | None:
        """The route of a large request with many elements; None if it is large by its records.

        It is decoded in a thread, and its handler divides its work.
        """
        crowd = self.api.crowd
        if crowd is None:
            return None if self._request_has_records else self
        if not crowd.has_many(data, body_at, end, self.version):
            return None
        if self._crowded is None:
            self._crowded = Route(self.api, self.version, crowd.handler)
        return self._crowded

    def _encode_first(self, response: Response, chunks: list[Buffer], head: bytearray) -> bytearray:
        """Encode the first response; malformed requests of a version cost no encoder."""
        self.encode = self.api.response.encoder(self.version)
        return self.encode(response, chunks, head)


class Routes:
    """The routes of one kind of listener: of brokers, or of controllers."""

    __slots__ = ("_handler", "_serves", "known")

    def __init__(self, serves: Callable[[Api], bool], handler: Callable[[Api], Handle]):
        self._serves = serves
        self._handler = handler
        self.known: dict[int, Route] = {}
        """The routes used so far, by `key << 16 | version`."""

    def served(self) -> Iterable[Api]:
        """The APIs of these listeners, in key order. Call `load` first."""
        return [each for each in registry.declared() if self._serves(each)]

    def serves(self, key: int) -> bool:
        """Whether these listeners serve the API of a key."""
        declared = registry.declared_as(key)
        return declared is not None and self._serves(declared)

    def find(self, api_and_version: int) -> Route | None:
        """The route of `key << 16 | version`; None if these listeners do not serve it."""
        route = self.known.get(api_and_version)
        if route is None:
            declared = registry.declared_as(api_and_version >> 16)
            version = api_and_version & 0xFFFF
            if (
                declared is None
                or not self._serves(declared)
                or version not in declared.request.versions
            ):
                return None
            route = Route(declared, version, self._handler(declared))
            self.known[api_and_version] = route
        return route


def _at_broker(declared: Api) -> Handle:
    return _forward if declared.scope is Scope.FORWARDED else declared.handler


def _forward(request: Request, call: Call) -> Answer:
    return call.broker.controller_channel.forward(request, call)


def _at_controller(declared: Api) -> Handle:
    if declared.on_every_listener:
        return declared.handler
    decide = declared.decide
    assert decide is not None, "routed"

    def handle(request: Request, call: Call) -> Answer:
        response = decide(request, ControllerCall(call.broker.controller, call.version, call))
        return _throttled(response, call)

    return handle


def _throttled(response: Answer, call: Call) -> Answer:
    """Mute the client for the throttle time of a response, which may be awaited first."""
    if isinstance(response, CoroutineType):
        return _throttled_later(response, call)
    call.throttle_ms = max(call.throttle_ms, getattr(response, "throttle_time_ms", 0))
    return response


async def _throttled_later(
    response: Coroutine[Any, Any, Response | None], call: Call
) -> Response | None:
    answered = await response
    _throttled(answered, call)
    return answered


BROKERS = Routes(lambda declared: declared.serves_clients, _at_broker)
"""The routes of brokers' listeners."""
CONTROLLERS = Routes(lambda declared: declared.serves_controllers, _at_controller)
"""The routes of controllers' listeners."""
