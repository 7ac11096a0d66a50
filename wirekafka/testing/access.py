"""TLS, users and ACLs of a broker under test: its settings, its records, its clients' settings."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from wirekafka.client.admin.acls import EVERY_ACL, creation_of, deletion_by
from wirekafka.client.admin.users import ScramUser, upsertion_of
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.prefixed_names import jaas_option
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from wirekafka.registry.names import CLIENT_ID
from wirekafka.security import client_settings
from wirekafka.security.acl import Acl
from wirekafka.security.sasl.scram import FEWEST_ITERATIONS, LOGIN_MODULE, SHA_512
from wirekafka.testing.acls import Allow
from wirekafka.testing.engine import Engine
from wirekafka.testing.settings import OWNER, unknown

_SUPER_USERS = "super.users"
_SERVICE = CLIENT_ID
_AUTHORIZER = "authorizer.class.name"


@dataclass(frozen=True, slots=True)
class Security:
    """The users, ACLs and certificates that a broker under test was given."""

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Passwords by user."""
    acls: tuple[Acl, ...] | None = None
    """None allows everything to everyone."""
    uses_tls: bool = False
    ca_pem: str | None = None
    service_password: str | None = field(default=None, repr=False)
    """The password of the schema registry's own user; None without one."""

    @classmethod
    def of(
        cls, users: Mapping[str, str] | None, acls: Iterable[Allow] | None, tls: bool
    ) -> Security:
        """Check the arguments. Raises TypeError, ValueError."""
        for name, password in (users or {}).items():
            if not isinstance(name, str) or not isinstance(password, str):
                raise TypeError("users: give names with passwords, as {'alice': 'secret'}")
            if not name or not password:
                raise ValueError("users: neither a name nor a password may be empty")
        stored = None
        if acls is not None:
            given = list(acls)
            for each in given:
                if not isinstance(each, Allow):
                    raise TypeError(f"acls: {each!r} is neither an Allow nor a Deny")
            stored = tuple(acl for each in given for acl in each.acls())
        return cls(dict(users or {}), stored, bool(tls))

    def with_service(self) -> Security:
        """Add a user for the schema registry, where clients log in."""
        return replace(self, service_password=secrets.token_urlsafe(16)) if self.users else self

    @property
    def protocol(self) -> str:
        """The security protocol of the listener, which is its name as well."""
        transport = "SSL" if self.uses_tls else "PLAINTEXT"
        return f"SASL_{transport}" if self.users else transport

    def certified(self, host: str, settings: dict[str, str]) -> Security:
        """Add the broker's settings to `settings`, with a new certificate for `host`."""
        if self.users:
            settings["sasl.enabled.mechanisms"] = SHA_512.name
            settings[jaas_option(self.protocol, SHA_512.name)] = f"{LOGIN_MODULE} required;"
        if self.acls is not None:
            settings.setdefault(_AUTHORIZER, STANDARD_AUTHORIZER)
        if _AUTHORIZER in settings:
            services = [] if self.service_password is None else [f"User:{_SERVICE}"]
            others = filter(None, [settings.get(_SUPER_USERS)])
            settings[_SUPER_USERS] = ";".join([*others, OWNER, *services])
        if not self.uses_tls:
            return self
        from wirekafka.security import certificates

        now = datetime.now(UTC)
        authority = certificates.new_authority(now)
        own = certificates.issue(authority, [host] if host else [], now)
        settings["ssl.keystore.type"] = "PEM"
        settings["ssl.keystore.key"] = own.key_pem
        settings["ssl.keystore.certificate.chain"] = own.certificate_pem
        return replace(self, ca_pem=authority.certificate_pem)

    def establish(self, engine: Engine) -> None:
        """Create the users, and replace all ACLs. Raises KafkaError."""
        if self.users:
            services = {} if self.service_password is None else {_SERVICE: self.service_password}
            _create_users(engine, {**self.users, **services})
        if self.acls is not None:
            _replace_acls(engine, self.acls)

    def client_config(self, client: str, user: str | None, address: str) -> dict[str, object]:
        """The configuration of a client; see `Broker.client_config`."""
        settings = client_settings.CLIENTS.get(client)
        if settings is None:
            raise ValueError(unknown("client", client, client_settings.CLIENTS))
        if user is None and self.users:
            raise ValueError(f"clients log in here: give user=, one of {', '.join(self.users)}")
        if user is not None and user not in self.users:
            raise ValueError(unknown("user", user, self.users))
        return settings(
            client_settings.ClientAccess(
                bootstrap_servers=address,
                user=user,
                password=self.users[user] if user is not None else "",
                mechanism=SHA_512.name,
                ca_pem=self.ca_pem,
            )
        )

    def service_config(self) -> ClientConfig | None:
        """How the schema registry connects; None where the broker is open."""
        access = client_settings.ClientAccess(
            bootstrap_servers="",
            user=None if self.service_password is None else _SERVICE,
            password=self.service_password or "",
            mechanism=SHA_512.name,
            ca_pem=self.ca_pem,
        )
        if access.security_protocol == "PLAINTEXT":
            return None
        properties = client_settings.java(access)
        return ClientConfig({name: str(value) for name, value in properties.items()})


def _create_users(engine: Engine, users: Mapping[str, str]) -> None:
    upsertions = [
        upsertion_of(ScramUser(name, SHA_512.name, FEWEST_ITERATIONS), password)
        for name, password in users.items()
    ]
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions)
    response: Any = engine.ask(request, 0)
    for each in response.results:
        _check(each.error_code, each.error_message or f"user {each.user}")


def _replace_acls(engine: Engine, acls: Iterable[Acl]) -> None:
    deleted: Any = engine.ask(deletion_by([EVERY_ACL]), 3)
    for each in deleted.filter_results:
        _check(each.error_code, each.error_message or "ACLs")
    created: Any = engine.ask(creation_of(acls), 3)
    for each in created.results:
        _check(each.error_code, each.error_message or "ACLs")


def _check(code: int, about: str) -> None:
    if code:
        raise KafkaError(Error(code), about)
