"""The registry of APIs, which the other modules of this package enter with `@api`.

Dispatch, ApiVersions and the documentation are derived from it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from wirekafka.codec.message import Request, Response, Versions
from wirekafka.errors import KafkaError
from wirekafka.quotas.mutations import UNLIMITED, MutationQuota
from wirekafka.security.access import Access

if TYPE_CHECKING:
    from wirekafka.broker import Broker
    from wirekafka.controller import ControllerRole
    from wirekafka.quotas.client_quotas import Account, ClientQuotas
    from wirekafka.security.sasl.login import Login

Handler = TypeVar("Handler", bound=Callable[..., Any])
Failure = TypeVar("Failure", bound=Callable[..., Response])

_API_VERSIONS = 18


class Call(Access):
    """A connection and its current request: client, principal, listener and version.

    There is one per connection, reused for every request. A connection serves one request at
    a time, so that a handler may keep it across awaits.
    """

    __slots__ = (
        "account",
        "api_name",
        "authorizer",
        "began_ns",
        "broker",
        "client_host",
        "client_id",
        "client_software",
        "connection_id",
        "correlation_id",
        "identity",
        "is_authenticated",
        "listener",
        "login",
        "needs_buffer",
        "principal",
        "request_bytes",
        "throttle_ms",
        "user",
        "version",
        "wants_close",
        "worked_ns",
    )

    def __init__(
        self,
        broker: Broker,
        *,
        client_host: str = "/127.0.0.1",
        connection_id: str = "",
        listener: str = "PLAINTEXT",
    ):
        self.broker = broker
        self.authorizer = broker.authorizer
        self.api_name = ""
        self.client_host = client_host
        self.client_id: str | None = None
        self.client_software = ("unknown", "unknown")
        self.connection_id = connection_id
        self.listener = listener
        self.login: Login | None = None
        """The SASL authentication of the connection; None on a listener without SASL."""
        self.authenticated("User:ANONYMOUS")
        self.version = 0
        self.correlation_id = 0
        self.wants_close = False
        self.throttle_ms = 0
        """The throttle time of this request: the response reports it, and the connection is muted
        for that long after the response (KIP-219)."""
        self.account: Account | None
        """The quotas that the last request was counted against. Use `account_of`."""
        self.request_bytes = 0
        """The size of the request, without its size prefix. Only set while quotas are stored, as
        are `began_ns` and `worked_ns`."""
        self.began_ns = 0
        """When the work for the request began, or went on after a wait; 0 if it is not measured."""
        self.worked_ns = 0
        """How long the work had taken before the last wait."""
        self.needs_buffer = False
        """Set by a handler that reads `Records` of its request after an await: they are slices of
        the receive buffer, which is otherwise reused meanwhile."""

    def authenticated(self, principal: str) -> None:
        """Set the client's principal, such as "User:name"."""
        self.principal = principal
        self.user = principal.partition(":")[2]
        self.account = None
        self.is_authenticated = True
        self.identity = f"{principal} at {self.client_host}"
        """What authorization depends on: principal and host. Empty until the client has
        authenticated."""

    def require_authentication(self) -> None:
        """Reject APIs that are not declared `before_authentication`, until `authenticated`."""
        self.is_authenticated = False
        self.identity = ""

    @property
    def now_ms(self) -> int:
        """Wall-clock milliseconds."""
        return self.broker.clock.now_ms()

    def account_of(self, quotas: ClientQuotas) -> Account:
        """The client's account for the current request."""
        account = self.account
        if (
            account is None
            or account.revision != quotas.revision
            or account.client_id != (self.client_id or "")
        ):
            account = self.account = quotas.account(self.user, self.client_id, self.now_ms)
        return account

    def pause_work(self) -> None:
        """Exclude the time until `resume_work` from the work for the request."""
        if self.began_ns:
            self.worked_ns += self.broker.clock.work_ns() - self.began_ns

    def resume_work(self) -> None:
        """Measure the work for the request again, after a wait."""
        self.began_ns = self.broker.clock.work_ns()

    def take_work_ns(self) -> int:
        """Return the duration of the work for the request so far, and measure from 0 again."""
        now_ns = self.broker.clock.work_ns()
        worked_ns = self.worked_ns + now_ns - (self.began_ns or now_ns)
        self.began_ns, self.worked_ns = now_ns, 0
        return worked_ns

    def close(self) -> None:
        """Close the connection after this request; a returned response is sent first."""
        self.wants_close = True


class ControllerCall(Access):
    """A request at the controller, from a client through a broker, or from a broker itself.

    The client's name, address, principal and version are those of the request that a broker
    forwarded (KIP-590). A node's requests to its own controller are not authorized.
    """

    __slots__ = (
        "_is_clients",
        "api_name",
        "authorizer",
        "client_host",
        "client_id",
        "controller",
        "listener",
        "principal",
        "version",
    )

    def __init__(self, controller: ControllerRole, version: int, asked_by: Call | None = None):
        self.controller = controller
        self.version = version
        self.authorizer = controller.authorizer if asked_by else None
        self.api_name = asked_by.api_name if asked_by else ""
        self.client_host = asked_by.client_host if asked_by else "/127.0.0.1"
        self.client_id = asked_by.client_id if asked_by else None
        self.listener = asked_by.listener if asked_by else ""
        self.principal = asked_by.principal if asked_by else "User:ANONYMOUS"
        self._is_clients = asked_by is not None

    @property
    def now_ms(self) -> int:
        """Wall-clock milliseconds."""
        return self.controller.clock.now_ms()

    def mutation_quota(self, *, strict_since: int) -> MutationQuota:
        """The client's limit on the partitions that it creates and deletes (KIP-599).

        It is strict from this version of the request on. A node's own requests have none.
        """
        quotas = self.controller.quotas
        if not quotas or not self._is_clients:
            return UNLIMITED
        account = quotas.account(self.principal.partition(":")[2], self.client_id, self.now_ms)
        return MutationQuota(account.mutation, is_strict=self.version >= strict_since)


class Scope(Enum):
    """The listeners that serve an API, and whether broker or controller handles it."""

    BROKER = "on listeners for clients, by the broker"
    FORWARDED = "on listeners for clients and for brokers, by the controller"
    CONTROLLER = "on listeners for brokers, by the controller"


@dataclass(frozen=True, slots=True)
class Api:
    """One declared API: its schemas, its handler and the version range in ApiVersions."""

    request: type[Request]
    response: type[Response]
    handler: Callable[[Any, Call], Any]
    advertised: Versions
    scope: Scope = Scope.BROKER
    decide: Callable[[Any, ControllerCall], Any] | None = None
    """The controller's handler; None for an API that brokers handle alone."""
    before_authentication: bool = False
    """Whether clients may use it before they have authenticated."""
    make_failure: Callable[[Any, KafkaError, Any], Response] | None = None
    """The function declared with `failure_of`; None where the top-level error code suffices."""

    @property
    def key(self) -> int:
        key: int = self.request.key
        return key

    @property
    def name(self) -> str:
        """Kafka's name of the API, such as "Fetch"."""
        return self.request.__name__.removesuffix("Request")

    def failure(self, request: Any, error: KafkaError, call: Call | ControllerCall) -> Response:
        """The response that reports `error` to the client."""
        if self.make_failure is not None:
            return self.make_failure(request, error, call)
        names = {field.name for field in self.response.fields}
        assert "error_code" in names, f"{self.name} needs a failure_of"
        values: dict[str, Any] = {"error_code": error.error}
        if "error_message" in names:
            values["error_message"] = error.message
        return self.response(**values)


class Route:
    """The decoder, encoder and handler of one version of an API, compiled on first use."""

    __slots__ = (
        "api",
        "decode",
        "encode",
        "handle",
        "header_is_flexible",
        "key",
        "name",
        "needs_authentication",
        "reports_throttling",
        "response_header_is_flexible",
        "version",
    )

    def __init__(self, declared: Api, version: int):
        self.api = declared
        self.key = declared.key
        self.name = declared.name
        self.version = version
        self.decode = declared.request.decoder(version)
        self.encode = declared.response.encoder(version)
        self.handle = _forward if declared.scope is Scope.FORWARDED else declared.handler
        self.header_is_flexible = version in declared.request.flexible
        # Clients decode the ApiVersions response before they know the broker's versions.
        self.response_header_is_flexible = self.header_is_flexible and declared.key != _API_VERSIONS
        self.needs_authentication = not declared.before_authentication
        self.reports_throttling = any(
            field.name == "throttle_time_ms" for field in declared.response.fields
        )


_apis: dict[int, Api] = {}
routes: dict[int, Route] = {}
"""The routes used so far, by `key << 16 | version`."""


def api(
    request: type[Request],
    response: type[Response],
    *,
    advertise: str | None = None,
    forwarded: bool = False,
    on_controller: Callable[[Any, ControllerCall], Any] | None = None,
    before_authentication: bool = False,
) -> Callable[[Handler], Handler]:
    """Declare the handler of an API that brokers serve to clients.

    It is a `def` if it never waits, an `async def` if it may wait; a `def` may also return a
    coroutine in those cases where it waits.

    It is called with (request, call) and returns a response, or None to send none.
    A KafkaError it raises is reported by the response's top-level error code, or by the
    function that the module declares with `failure_of`. `advertise` widens the versions in
    ApiVersions.
    `before_authentication`: clients may use it before they have authenticated.

    A `forwarded` request is passed to the controller unchanged, and the handler is called there
    with (request, ControllerCall). Where brokers check a request before they forward it,
    `on_controller` is the controller's handler.
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
            before_authentication=before_authentication,
        )
        return handler

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


def _forward(request: Any, call: Call) -> Any:
    return call.broker.controller_channel.forward(request, call)


def failure_of(handler: Callable[..., Any]) -> Callable[[Failure], Failure]:
    """Declare how a handler's errors are reported where no top-level error code can.

    It is called with (request, error, call), `error` being a KafkaError, and returns a response.
    """

    def declare(failure: Failure) -> Failure:
        [key] = [declared.key for declared in _apis.values() if declared.handler is handler]
        _apis[key] = replace(_apis[key], make_failure=failure)
        return failure

    return declare


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


def served() -> Iterable[Api]:
    """The APIs that clients may use, in key order. Call `load` first."""
    return [declared for declared in _apis.values() if declared.scope is not Scope.CONTROLLER]


def declared_by(request: type[Request]) -> Api:
    """The API of a request class, on any listener. Raises KeyError."""
    key: int = request.key
    return _apis[key]


def find(api_and_version: int) -> Route | None:
    """The route of `key << 16 | version`; None for APIs and versions that clients may not use."""
    route = routes.get(api_and_version)
    if route is None:
        declared = _apis.get(api_and_version >> 16)
        version = api_and_version & 0xFFFF
        if (
            declared is None
            or declared.scope is Scope.CONTROLLER
            or version not in declared.request.versions
        ):
            return None
        route = routes[api_and_version] = Route(declared, version)
    return route
