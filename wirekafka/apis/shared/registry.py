"""The registry of APIs, which the other modules of this package enter with `@api`.

Dispatch (`routes`), ApiVersions and the documentation are derived from it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from wirekafka.apis.shared.host import Host
from wirekafka.codec.message import Request, Response, Versions
from wirekafka.errors import KafkaError
from wirekafka.quotas.mutations import UNLIMITED, MutationQuota
from wirekafka.replication.raft.metadata_log import Sync, sync_inline
from wirekafka.security.access import Access

if TYPE_CHECKING:
    from wirekafka.broker import Broker
    from wirekafka.controller import ControllerRole
    from wirekafka.metrics.requests import ClientTraffic
    from wirekafka.quotas.client_quotas import Account, ClientQuotas
    from wirekafka.security.sasl.login import Login

Answer: TypeAlias = Response | Coroutine[Any, Any, Response | None] | None
"""What a handler returns: a response, None to send none, or a coroutine of these."""
Handle: TypeAlias = Callable[[Any, "Call"], Answer]
Decide: TypeAlias = Callable[[Any, "ControllerCall"], Answer]
"""Handlers, each of the class of requests that it is declared with: at brokers, at controllers."""

Handler = TypeVar("Handler", bound=Callable[..., Answer])
ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that has proved no identity."""
_NEVER = -2
Failure = TypeVar("Failure", bound=Callable[..., Response])


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
        "counted_client_id",
        "identity",
        "is_authenticated",
        "is_for_controllers",
        "is_limited",
        "listener",
        "login",
        "needs_buffer",
        "principal",
        "request_bytes",
        "revision",
        "run_apart",
        "seen_ms",
        "throttle_ms",
        "traffic",
        "unmeasured_revision",
        "user",
        "version",
        "wants_close",
        "work_ns",
        "worked_ns",
    )

    def __init__(
        self,
        host: Host,
        *,
        client_host: str = "/127.0.0.1",
        connection_id: str = "",
        listener: str = "PLAINTEXT",
        is_for_controllers: bool = False,
    ):
        self.broker = cast("Broker", host)
        """On a controller's listener, it has only what `Host` declares."""
        self.authorizer = host.authorizer
        self.api_name = ""
        self.client_host = client_host
        self.client_id: str | None = None
        self.client_software = ("unknown", "unknown")
        self.connection_id = connection_id
        self.listener = listener
        self.is_for_controllers = is_for_controllers
        """Whether the listener is one of controllers."""
        self.login: Login | None = None
        """The SASL authentication of the connection; None on a listener without SASL."""
        self.authenticated(ANONYMOUS)
        self.version = 0
        self.correlation_id = 0
        self.wants_close = False
        self.seen_ms = 0
        """When `now_ms` was last read for a Produce request that does not wait."""
        self.throttle_ms = 0
        """The throttle time of this request: the response reports it, and the connection is muted
        for that long after the response (KIP-219)."""
        self.account: Account | None
        """The quotas that the last request was counted against. Use `account_of`."""
        self.counted_client_id: str | None = None
        self.revision: int
        """The client id and the state of the quotas with which `account` was found."""
        self.is_limited = False
        self.unmeasured_revision: int
        """The `ClientQuotas.work_revision` since which no account has a `request_percentage`."""
        self.request_bytes = 0
        """The size of a request that waits. Only set while quotas are stored, as are `began_ns`
        and `worked_ns`."""
        self.work_ns = host.clock.work_ns
        self.began_ns = 0
        """When the work began that is not counted yet; 0 if none is measured. The next request in
        the same buffer begins where the one before ended."""
        self.worked_ns = 0
        """How long the work had taken before the last wait."""
        self.run_apart: Sync = sync_inline
        """Runs what takes long for a request of many elements: in a thread, if it is such."""
        self.traffic: ClientTraffic | None = None
        """The counters of clients with the same software; None while there are no metrics."""
        self.needs_buffer = False
        """Set by a handler that reads `Records` of its request after an await: they are slices of
        the receive buffer, which is otherwise reused meanwhile."""

    def authenticated(self, principal: str) -> None:
        """Set the principal, such as "User:name"; again when the client has named its software."""
        self.principal = principal
        self.user = principal.partition(":")[2]
        self.account = None
        self.revision = self.unmeasured_revision = -1
        self.is_authenticated = True
        software = " ".join(self.client_software)
        self.identity = f"{principal} at {self.client_host}, {self.listener}, {software}"
        """The client's identity for authorization and counters; empty until it has
        authenticated."""

    def require_authentication(self) -> None:
        """Reject APIs that are not declared `before_authentication`, until `authenticated`."""
        self.is_authenticated = False
        self.identity = ""

    @property
    def is_anonymous(self) -> bool:
        """Whether the client has proved no identity, neither by SASL nor by a certificate."""
        return self.login is None and self.principal == ANONYMOUS

    @property
    def is_token_authenticated(self) -> bool:
        """Whether the client has logged in with a delegation token."""
        return self.login is not None and self.login.is_token_authenticated

    @property
    def now_ms(self) -> int:
        """Wall-clock milliseconds."""
        now_ms = self.seen_ms = self.broker.clock.now_ms()
        return now_ms

    def account_of(self, quotas: ClientQuotas) -> Account:
        """The client's account for the current request."""
        if self.revision != quotas.revision or self.client_id != self.counted_client_id:
            self.use_account(quotas.account(self.user, self.client_id, self.now_ms), quotas)
            self.counted_client_id = self.client_id
        assert self.account is not None
        return self.account

    def use_account(self, account: Account, quotas: ClientQuotas) -> None:
        """Count the current request against an account."""
        if account.request is not None:
            self.unmeasured_revision = _NEVER
        elif self.revision != quotas.revision:
            self.unmeasured_revision = quotas.work_revision
        self.account, self.revision = account, quotas.revision
        self.is_limited = account.is_limited
        self.counted_client_id = account.client_id

    def pause_work(self, request_bytes: int) -> None:
        """Exclude the time until `resume_work` from the work for a request of this size."""
        self.request_bytes = request_bytes
        if self.began_ns:
            self.worked_ns += self.work_ns() - self.began_ns
            self.began_ns = 0

    def resume_work(self) -> None:
        """Measure the work for the request again, after a wait."""
        self.began_ns = self.work_ns()

    def take_work_ns(self) -> int:
        """Return the duration of the work for the request so far, and measure from 0 again."""
        now_ns = self.work_ns()
        worked_ns = self.worked_ns + now_ns - (self.began_ns or now_ns)
        self.began_ns, self.worked_ns = now_ns, 0
        return worked_ns

    def close(self) -> None:
        """Close the connection after this request; a returned response is sent first."""
        self.wants_close = True


class ControllerCall(Access):
    """A request at the controller, from a client through a broker, or from a broker itself.

    The client's name, address, principal and version come from the request that a broker has
    forwarded (KIP-590), unless `is_direct`. A node's own requests are not authorized.
    """

    __slots__ = (
        "_is_clients",
        "api_name",
        "authorizer",
        "client_host",
        "client_id",
        "controller",
        "is_anonymous",
        "is_direct",
        "is_token_authenticated",
        "listener",
        "principal",
        "run_apart",
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
        self.principal = asked_by.principal if asked_by else ANONYMOUS
        self.is_anonymous = asked_by is not None and asked_by.is_anonymous
        self.is_token_authenticated = asked_by is not None and asked_by.is_token_authenticated
        self.run_apart = asked_by.run_apart if asked_by else sync_inline
        """As `Call.run_apart`."""
        self._is_clients = asked_by is not None
        self.is_direct = asked_by is not None and asked_by.is_for_controllers

    def for_client(self) -> ControllerCall:
        """A copy for the request in an envelope, whose client has still to be set."""
        call = ControllerCall(self.controller, self.version)
        call.authorizer, call.listener = self.authorizer, self.listener
        call._is_clients = True
        return call

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
