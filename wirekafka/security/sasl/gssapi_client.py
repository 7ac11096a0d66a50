"""The client's side of SASL/GSSAPI: a node logs in at other nodes with Kerberos (RFC 4752)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from wirekafka.security.jaas import LoginModule
from wirekafka.security.sasl.exchange import AuthenticationFailed
from wirekafka.security.sasl.gssapi import NO_LAYER, KerberosUnavailable, library

NAME = "GSSAPI"


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """Where a node's tickets come from, and the service that it requests tickets for."""

    principal: str | None
    """The node's own name; None is the name in the ticket cache."""
    store: dict[str, str]
    """The keytab and the cache, as MIT's Kerberos names them."""
    service: str
    """The other nodes' service name, `kafka` in `kafka/host@REALM`."""
    uses_cache: bool = False
    """Whether the tickets are from a cache that something else fills, rather than a keytab."""

    @classmethod
    def of(cls, module: LoginModule, service_name: str | None) -> KerberosLogin:
        """Read a `Krb5LoginModule` and `sasl.kerberos.service.name`.

        Raises KerberosUnavailable, worded as by Kafka where it has the same reason.
        """
        options = {name.lower(): value for name, value in module.options.items()}
        service = options.get("servicename") or service_name
        if not service:
            raise KerberosUnavailable("No serviceName defined in either JAAS or Kafka config")
        if service_name and service != service_name:
            raise KerberosUnavailable(
                "Conflicting serviceName values found in JAAS and Kafka configs value in JAAS file "
                f"{service}, value in Kafka config {service_name}"
            )
        library()
        principal, keytab = options.get("principal"), options.get("keytab")
        if options.get("usekeytab", "").lower() == "true":
            if not keytab or not principal:
                raise KerberosUnavailable("useKeyTab=true needs keyTab and principal")
            # The library obtains tickets by the keytab when the cache has none that last.
            store = {"client_keytab": f"FILE:{keytab}", "ccache": f"MEMORY:{principal}"}
            return cls(principal, store, service)
        if options.get("useticketcache", "").lower() == "true":
            cache = options.get("ticketcache")
            store = {"ccache": f"FILE:{cache}"} if cache else {}
            return cls(principal, store, service, uses_cache=True)
        raise KerberosUnavailable("needs useKeyTab=true or useTicketCache=true")

    def start(self, host: str) -> KerberosClient:
        """Begin to log in at the node with this host name."""
        return KerberosClient(self, host)

    def credentials(self) -> Any:
        """The tickets to log in with. Raises GSSError if there are none."""
        gssapi, name = library(), None
        if self.principal is not None:
            name = gssapi.Name(self.principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(name=name, usage="initiate", store=self.store or None)

    def left_s(self) -> float:
        """How long the tickets last, 0 if there are none."""
        try:
            left_s: float | None = self.credentials().lifetime
        except library().exceptions.GSSError:
            return 0
        return inf if left_s is None else left_s

    def renew_command(self, kinit: str) -> list[str]:
        """The command by which `kinit` renews the tickets of the cache."""
        cache = self.store.get("ccache")
        return [kinit, "-R", *(("-c", cache) if cache else ())]


class KerberosClient:
    """One login (`ClientExchange`). Its methods may wait for the key distribution centre."""

    def __init__(self, login: KerberosLogin, host: str):
        self._login = login
        self._host = host
        self._context: Any = None
        self._principal = ""
        self._has_tickets = False
        self._has_chosen = False

    def first(self) -> bytes:
        """The service ticket. Raises AuthenticationFailed if there is none to be had."""
        gssapi, login = library(), self._login
        try:
            credentials = login.credentials()
            self._principal = str(credentials.name)
            self._context = gssapi.SecurityContext(
                name=gssapi.Name(
                    f"{login.service}@{self._host}", gssapi.NameType.hostbased_service
                ),
                creds=credentials,
                usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=[
                    gssapi.RequirementFlag.mutual_authentication,
                    gssapi.RequirementFlag.integrity,
                ],
            )
            return self._step(None)
        except gssapi.exceptions.GSSError as error:
            raise AuthenticationFailed(f"no Kerberos ticket: {error.gen_message()}") from None

    def respond(self, token: bytes) -> bytes | None:
        """The other node's tickets are checked, then no security layer is chosen."""
        if self._has_chosen:
            return None
        try:
            if not self._has_tickets:
                return self._step(token)
            offer = self._context.unwrap(token).message
            if len(offer) != len(NO_LAYER) or not offer[0] & NO_LAYER[0]:
                raise AuthenticationFailed("the other node insists on a security layer")
            self._has_chosen = True
            choice: bytes = self._context.wrap(NO_LAYER + self._principal.encode(), False).message
            return choice
        except library().exceptions.GSSError as error:
            raise AuthenticationFailed(f"Kerberos failed: {error.gen_message()}") from None

    def _step(self, token: bytes | None) -> bytes:
        answer: bytes = self._context.step(token) or b""
        self._has_tickets = self._context.complete
        return answer
