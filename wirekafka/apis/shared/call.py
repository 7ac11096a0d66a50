"""A request as its handler sees it: at a broker, or at the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from wirekafka.apis.shared.host import Host
from wirekafka.apis.shared.metering import Metering
from wirekafka.quotas.mutations import UNLIMITED, MutationQuota
from wirekafka.replication.raft.metadata_log import Sync, sync_inline
from wirekafka.security.access import Access

if TYPE_CHECKING:
    from wirekafka.broker import Broker
    from wirekafka.controller import ControllerRole
    from wirekafka.quotas.client_quotas import Account, ClientQuotas
    from wirekafka.security.sasl.login import Login

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that has proved no identity."""


class ClientConnection:
    """Who the client is, and on which listener it has connected."""

    __slots__ = (
        "host",
        "id",
        "identity",
        "is_authenticated",
        "is_for_controllers",
        "listener",
        "login",
        "principal",
        "software",
        "user",
    )

    def __init__(self, host: str, id: str, listener: str, *, is_for_controllers: bool):
        self.host = host
        """As Kafka writes it, such as "/127.0.0.1"."""
        self.id = id
        self.listener = listener
        self.is_for_controllers = is_for_controllers
        """Whether the listener is one of controllers."""
        self.software = ("unknown", "unknown")
        """Name and version, as in ApiVersions (KIP-511)."""
        self.login: Login | None = None
        """The SASL authentication of the connection; None on a listener without SASL."""
        self.authenticated(ANONYMOUS)

    def authenticated(self, principal: str) -> None:
        """Set the principal, such as "User:name"; again when the client has named its software."""
        self.principal = principal
        self.user = principal.partition(":")[2]
        self.is_authenticated = True
        software = " ".join(self.software)
        self.identity = f"{principal} at {self.host}, {self.listener}, {software}"
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


class Call(Access):
    """The current request of a connection, with the connection itself and what is counted of it.

    There is one per connection, reused for every request. A connection serves one request at
    a time, so that a handler may keep it across awaits.
    """

    __slots__ = (
        "api_name",
        "authorizer",
        "broker",
        "client",
        "client_id",
        "correlation_id",
        "metering",
        "needs_buffer",
        "run_apart",
        "seen_ms",
        "throttle_ms",
        "version",
        "wants_close",
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
        self.client = ClientConnection(
            client_host, connection_id, listener, is_for_controllers=is_for_controllers
        )
        self.metering = Metering(host.clock)
        self.api_name = ""
        self.client_id: str | None = None
        self.version = 0
        self.correlation_id = 0
        self.wants_close = False
        self.seen_ms = 0
        """When `now_ms` was last read for a Produce request that does not wait."""
        self.throttle_ms = 0
        """The throttle time of this request: the response reports it, and the connection is muted
        for that long after the response (KIP-219)."""
        self.run_apart: Sync = sync_inline
        """Runs what takes long for a request of many elements: in a thread, if it is such."""
        self.needs_buffer = False
        """Set by a handler that reads `Records` of its request after an await: they are slices of
        the receive buffer, which is otherwise reused meanwhile."""

    @property
    def client_host(self) -> str:
        """The client's address, as Kafka writes it, such as "/127.0.0.1"."""
        return self.client.host

    @property
    def connection_id(self) -> str:
        return self.client.id

    @property
    def listener(self) -> str:
        return self.client.listener

    @property
    def principal(self) -> str:
        """Such as "User:name"."""
        return self.client.principal

    @property
    def client_software(self) -> tuple[str, str]:
        """Name and version, as in ApiVersions (KIP-511)."""
        return self.client.software

    @property
    def is_anonymous(self) -> bool:
        """Whether the client has proved no identity, neither by SASL nor by a certificate."""
        return self.client.is_anonymous

    @property
    def is_token_authenticated(self) -> bool:
        """Whether the client has logged in with a delegation token."""
        return self.client.is_token_authenticated

    @property
    def now_ms(self) -> int:
        """Wall-clock milliseconds."""
        now_ms = self.seen_ms = self.broker.clock.now_ms()
        return now_ms

    def authenticated(self, principal: str) -> None:
        """Set the principal, such as "User:name"; again when the client has named its software."""
        self.client.authenticated(principal)
        self.metering.forget_account()

    def account_of(self, quotas: ClientQuotas) -> Account:
        """The client's account for the current request."""
        metering = self.metering
        if not metering.knows_account(self.client_id, quotas):
            found = quotas.account(self.client.user, self.client_id, self.now_ms)
            metering.use_account(found, quotas)
            metering.counted_client_id = self.client_id
        assert metering.account is not None
        return metering.account

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

    client_host: str
    principal: str

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
        self.is_direct = asked_by is not None and asked_by.client.is_for_controllers

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
