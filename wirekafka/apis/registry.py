"""The table of APIs: each sibling module declares itself with `@api`, the rest is derived."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from wirekafka.codec.message import Request, Response, Versions
from wirekafka.errors import KafkaError

if TYPE_CHECKING:
    from wirekafka.broker import Broker

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Call:
    """Who asks, and how: one object per connection, refilled for every request.

    A connection serves one request at a time, so a handler may keep it across awaits.
    """

    __slots__ = ("broker", "client_host", "client_id", "client_software", "connection_id",
                 "correlation_id", "listener", "needs_buffer", "principal", "version",
                 "wants_close")

    def __init__(self, broker: Broker, *, client_host: str = "/127.0.0.1",
                 connection_id: str = "", listener: str = "PLAINTEXT"):
        self.broker = broker
        self.client_host = client_host
        self.client_id: str | None = None
        self.client_software = ("unknown", "unknown")
        self.connection_id = connection_id
        self.listener = listener
        self.principal = "User:ANONYMOUS"
        self.version = 0
        self.correlation_id = 0
        self.wants_close = False
        self.needs_buffer = False
        """Set by a handler that looks at `Records` of its request after it has awaited: they are
        slices of the buffer the request came in, which is otherwise used again meanwhile."""

    @property
    def now_ms(self) -> int:
        """Wall-clock milliseconds."""
        return self.broker.clock.now_ms()

    def close(self) -> None:
        """Close the connection once this request is done; a returned response is sent first."""
        self.wants_close = True


@dataclass(frozen=True, slots=True)
class Api:
    """One declared API: its schemas, its handler and the version range ApiVersions tells."""

    request: type[Request]
    response: type[Response]
    handler: Callable[[Any, Call], Any]
    advertised: Versions

    @property
    def key(self) -> int:
        key: int = self.request.key
        return key

    @property
    def name(self) -> str:
        """Kafka's name of the API, such as "Fetch"."""
        return self.request.__name__.removesuffix("Request")

    def failure(self, request: Any, error: KafkaError, call: Call) -> Response:
        """The response that tells `error`: by the module's `<handler>_failure`, else top level."""
        custom = self.handler.__globals__.get(f"{self.handler.__name__}_failure")
        if custom is not None:
            response: Response = custom(request, error, call)
            return response
        names = {field.name for field in self.response.fields}
        if "error_code" not in names:
            raise error
        values: dict[str, Any] = {"error_code": error.error}
        if "error_message" in names:
            values["error_message"] = error.message
        return self.response(**values)


class Route:
    """All that serving one (API, version) needs, compiled on first use."""

    __slots__ = ("api", "decode", "encode", "handle", "header_is_flexible",
                 "response_header_is_flexible", "version")

    def __init__(self, declared: Api, version: int):
        self.api = declared
        self.version = version
        self.decode = declared.request.decoder(version)
        self.encode = declared.response.encoder(version)
        self.handle = declared.handler
        self.header_is_flexible = version in declared.request.flexible
        # A client reads the ApiVersions answer before it knows what the broker speaks.
        self.response_header_is_flexible = self.header_is_flexible and declared.key != 18


_apis: dict[int, Api] = {}
routes: dict[int, Route] = {}
"""Those used so far, by `key << 16 | version`."""


def api(request: type[Request], response: type[Response], *,
        advertise: str | None = None) -> Callable[[Handler], Handler]:
    """Declare a handler: `def` when it never waits, `async def` when it may; a `def` may also
    return a coroutine in those cases where it waits.

    It is called with (request, call) and returns a response, or None to send none.
    A KafkaError it raises is told by `<handler>_failure(request, error, call)` of its module,
    or else in the response's top-level error code. `advertise` widens what ApiVersions tells.
    """
    def declare(handler: Handler) -> Handler:
        advertised = Versions.parse(advertise) if advertise else request.versions
        assert request.key not in _apis, f"API {request.key} declared twice"
        _apis[request.key] = Api(request, response, handler, advertised)
        return handler
    return declare


def load() -> dict[int, Api]:
    """Import every API module and return the declared ones by key, in key order."""
    import wirekafka.apis as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    # Another broker of this process may be serving: it must not find one missing meanwhile.
    if list(_apis) != sorted(_apis):
        for key in sorted(_apis):
            _apis[key] = _apis.pop(key)
    return _apis


def served() -> Iterable[Api]:
    """The declared APIs in key order, once `load` has been called."""
    return _apis.values()


def find(api_and_version: int) -> Route | None:
    """The route of `key << 16 | version`; None when it is not spoken here."""
    route = routes.get(api_and_version)
    if route is None:
        declared = _apis.get(api_and_version >> 16)
        version = api_and_version & 0xFFFF
        if declared is None or version not in declared.request.versions:
            return None
        route = routes[api_and_version] = Route(declared, version)
    return route
