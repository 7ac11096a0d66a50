"""The registry of APIs, which the other modules of this package enter with `@api`.

Dispatch (`routes`), ApiVersions and the documentation are derived from it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias, TypeVar

from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.codec.message import Request, Response, Versions
from wirekafka.errors import KafkaError

Answer: TypeAlias = Response | Coroutine[Any, Any, Response | None] | None
"""What a handler returns: a response, None to send none, or a coroutine of these."""
Handle: TypeAlias = Callable[[Any, Call], Answer]
Decide: TypeAlias = Callable[[Any, ControllerCall], Answer]
"""Handlers, each of the class of requests that it is declared with: at brokers, at controllers."""

Handler = TypeVar("Handler", bound=Callable[..., Answer])
Failure = TypeVar("Failure", bound=Callable[..., Response])


class Scope(Enum):
    """Who handles an API, and on which listeners; `Api.serves_controllers` adds to it."""

    BROKER = "on brokers' listeners, by the broker"
    FORWARDED = "on brokers' and controllers' listeners, by the controller"
    CONTROLLER = "on controllers' listeners, by the controller"


@dataclass(frozen=True, slots=True)
class Crowd:
    """How an API with records recognizes requests of many elements, and serves them."""

    has_many: Callable[[Any, int, int, int], bool]
    """Called with (buffer, start of the body, its end, version), before the request is decoded."""
    handler: Handle
    """As `Api.handler`, but divides its work among turns of the event loop."""


@dataclass(frozen=True, slots=True)
class Api:
    """One declared API: its schemas, its handler and the version range in ApiVersions."""

    request: type[Request]
    response: type[Response]
    handler: Handle
    advertised: Versions
    scope: Scope = Scope.BROKER
    decide: Decide | None = None
    """The controller's handler; None for an API that brokers handle alone."""
    is_forwarded: bool = False
    """Whether brokers forward requests of clients to the controller."""
    on_every_listener: bool = False
    """Whether `handler` serves the listeners of controllers too."""
    before_authentication: bool = False
    """Whether clients may use it before they have authenticated."""
    make_failure: Callable[[Any, KafkaError, Any], Response] | None = None
    """The function declared with `failure_of`; None where the top-level error code suffices."""
    crowd: Crowd | None = None
    """How requests of many elements are served, where a large request may have few."""

    @property
    def key(self) -> int:
        key: int = self.request.key
        return key

    @property
    def serves_clients(self) -> bool:
        """Whether brokers' listeners serve the API."""
        return self.scope is not Scope.CONTROLLER

    @property
    def serves_controllers(self) -> bool:
        """Whether controllers' listeners serve the API."""
        return self.decide is not None or self.on_every_listener

    @property
    def name(self) -> str:
        """Kafka's name of the API, such as "Fetch"."""
        return self.request.__name__.removesuffix("Request")

    def failure(self, request: Request, error: KafkaError, call: Call | ControllerCall) -> Response:
        """The response that reports `error` to the client."""
        if self.make_failure is not None:
            return self.make_failure(request, error, call)
        names = {field.name for field in self.response.fields}
        assert "error_code" in names, f"{self.name} needs a failure_of"
        values: dict[str, Any] = {"error_code": error.error}
        if "error_message" in names:
            values["error_message"] = error.message
        return self.response(**values)


_apis: dict[int, Api] = {}


def api(
    request: type[Request],
    response: type[Response],
    *,
    advertise: str | None = None,
    forwarded: bool = False,
    on_controller: Decide | None = None,
    on_every_listener: bool = False,
    before_authentication: bool = False,
) -> Callable[[Handler], Handler]:
    """Declare the handler of an API that brokers serve to clients.

    It is a `def` if it never waits, an `async def` if it may wait; a `def` may also return a
    coroutine when it has to wait.

    It is called with (request, call) and returns a response, or None to send none.
    A KafkaError it raises is reported by the response's top-level error code, or by the
    function that the module declares with `failure_of`. `advertise` widens the versions in
    ApiVersions.
    `before_authentication`: clients may use it before they have authenticated.

    A `forwarded` request is passed to the controller unchanged, and the handler is called there
    with (request, ControllerCall). Where brokers check a request before they forward it,
    `on_controller` is the controller's handler.

    With `on_every_listener` the handler serves the listeners of controllers as well, where
    `call.broker` has only what `Host` declares.
    """

    def declare(handler: Handler) -> Handler:
        advertised = Versions.parse(advertise) if advertise else request.versions
        assert request.key not in _apis, f"API {request.key} declared twice"
        scope = Scope.FORWARDED if forwarded else Scope.BROKER
        _apis[request.key] = Api(
            request,
            response,
            handler,
            advertised,
            scope=scope,
            decide=handler if forwarded else on_controller,
            is_forwarded=forwarded or on_controller is not None,
            on_every_listener=on_every_listener,
            before_authentication=before_authentication,
        )
        return handler

    return declare


def at_controllers(handler: Handle) -> Callable[[Handler], Handler]:
    """Declare what serves an API on the listeners of controllers, given its handler for brokers.

    It is called with (request, ControllerCall), otherwise as `api`.
    """

    def declare(decide: Handler) -> Handler:
        key = _key_of(handler)
        _apis[key] = replace(_apis[key], decide=decide)
        return decide

    return declare


def controller_api(
    request: type[Request], response: type[Response]
) -> Callable[[Handler], Handler]:
    """Declare the handler of an API that the controller serves to brokers, not to clients.

    It is called with (request, ControllerCall), otherwise as `api`.
    """

    def declare(handler: Handler) -> Handler:
        assert request.key not in _apis, f"API {request.key} declared twice"
        _apis[request.key] = Api(
            request, response, handler, request.versions, scope=Scope.CONTROLLER, decide=handler
        )
        return handler

    return declare


def failure_of(handler: Callable[..., Answer]) -> Callable[[Failure], Failure]:
    """Declare how a handler's errors are reported where no top-level error code can.

    It is called with (request, error, call), `error` being a KafkaError, and returns a response.
    """

    def declare(failure: Failure) -> Failure:
        key = _key_of(handler)
        _apis[key] = replace(_apis[key], make_failure=failure)
        return failure

    return declare


def crowd_of(
    handler: Callable[..., Answer], has_many: Callable[[Any, int, int, int], bool]
) -> Callable[[Handler], Handler]:
    """Declare what serves requests of many elements, for an API whose requests have records.

    Requests of other APIs have many elements whenever they are large.
    """

    def declare(divided: Handler) -> Handler:
        key = _key_of(handler)
        _apis[key] = replace(_apis[key], crowd=Crowd(has_many, divided))
        return divided

    return declare


def _key_of(handler: Callable[..., Answer]) -> int:
    [key] = [declared.key for declared in _apis.values() if declared.handler is handler]
    return key


def load() -> dict[int, Api]:
    """Import every API module and return the declared ones by key, in key order."""
    import wirekafka.apis as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    # Move entries one by one: another broker of this process may be looking them up.
    if list(_apis) != sorted(_apis):
        for key in sorted(_apis):
            _apis[key] = _apis.pop(key)
    return _apis


def declared() -> Iterable[Api]:
    """All declared APIs, in key order. Call `load` first."""
    return _apis.values()


def declared_as(key: int) -> Api | None:
    """The API of a key; None for an API that no node serves."""
    return _apis.get(key)


def declared_by(request: type[Request]) -> Api:
    """The API of a request class, on any listener. Raises KeyError."""
    key: int = request.key
    return _apis[key]
