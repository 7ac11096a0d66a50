"""The client's side of a Kerberos login, with a stand-in for python-gssapi.

`compat_tests/test_kerberos.py` runs the same against a real key distribution centre.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from wirekafka.security.jaas import LoginModule
from wirekafka.security.sasl.exchange import AuthenticationFailed
from wirekafka.security.sasl.gssapi import KerberosUnavailable
from wirekafka.security.sasl.gssapi_client import KerberosLogin

KEYTAB = {"useKeyTab": "true", "keyTab": "/k", "principal": "kafka/a@R", "storeKey": "true"}


class GSSError(Exception):
    def gen_message(self) -> str:
        return str(self)


class Library:
    """python-gssapi, as far as the login uses it: a ticket takes two messages."""

    exceptions = SimpleNamespace(GSSError=GSSError)
    NameType = SimpleNamespace(kerberos_principal="principal", hostbased_service="service")
    MechType = SimpleNamespace(kerberos="kerberos")
    RequirementFlag = SimpleNamespace(mutual_authentication="mutual", integrity="integrity")

    def __init__(self) -> None:
        self.stores: list[Any] = []
        self.services: list[Any] = []
        self.has_tickets = True
        self.lifetime_s: float | None = 36_000

    def Name(self, text: str, kind: str) -> str:
        return f"{kind}:{text}"

    def Credentials(self, *, name: str | None, usage: str, store: Any) -> SimpleNamespace:
        assert usage == "initiate"
        if not self.has_tickets:
            raise GSSError("no credentials")
        self.stores.append(store)
        own = (name or "principal:cached@R").partition(":")[2]
        return SimpleNamespace(name=own, lifetime=self.lifetime_s)

    def SecurityContext(self, *, name: str, flags: list[str], **_: Any) -> Context:
        assert "mutual" in flags, "the other node must prove who it is"
        self.services.append(name)
        return Context()


class Context:
    complete = False

    def step(self, token: bytes | None) -> bytes | None:
        if token is None:
            return b"ticket"
        if token != b"proof":
            raise GSSError("not the service")
        self.complete = True
        return None

    def unwrap(self, token: bytes) -> SimpleNamespace:
        return SimpleNamespace(message=token.removeprefix(b"wrapped "))

    def wrap(self, message: bytes, encrypt: bool) -> SimpleNamespace:
        assert not encrypt
        return SimpleNamespace(message=b"wrapped " + message)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setitem(sys.modules, "gssapi", made)
    return made


def login(service: str | None = "kafka", **options: str) -> KerberosLogin:
    return KerberosLogin.of(LoginModule("Krb5LoginModule", options), service)


def test_node_shows_its_ticket_and_chooses_no_security_layer(library: Library) -> None:
    exchange = login(**KEYTAB).start("b.example")
    assert exchange.first() == b"ticket"
    assert exchange.respond(b"proof") == b"", "the turn of the other node"
    assert exchange.respond(b"wrapped \7\0\1\0") == b"wrapped \1\0\0\0kafka/a@R"
    assert exchange.respond(b"") is None
    assert library.services == ["service:kafka@b.example"]
    assert library.stores == [{"client_keytab": "FILE:/k", "ccache": "MEMORY:kafka/a@R"}]


def test_tickets_can_be_those_of_a_cache(library: Library) -> None:
    assert login(useTicketCache="true").start("b").first() == b"ticket"
    login(useTicketCache="true", ticketCache="/c").start("b").first()
    assert library.stores == [None, {"ccache": "FILE:/c"}]


def test_node_that_does_not_prove_itself_or_insists_on_a_layer_is_refused(library: Library) -> None:
    exchange = login(**KEYTAB).start("b")
    exchange.first()
    with pytest.raises(AuthenticationFailed, match="Kerberos failed: not the service"):
        exchange.respond(b"something else")
    exchange.respond(b"proof")
    for offer in (b"wrapped \6\0\1\0", b"wrapped ", b"wrapped \1\0\0\0more"):
        with pytest.raises(AuthenticationFailed, match="insists on a security layer"):
            exchange.respond(offer)


def test_missing_tickets_are_the_reason_of_the_failure(library: Library) -> None:
    library.has_tickets = False
    with pytest.raises(AuthenticationFailed, match="no Kerberos ticket: no credentials"):
        login(**KEYTAB).start("b").first()


@pytest.mark.parametrize(
    ("service", "options", "reason"),
    [
        (None, KEYTAB, "No serviceName defined in either JAAS or Kafka config"),
        ("kafka", {**KEYTAB, "serviceName": "other"}, "Conflicting serviceName values found"),
        ("kafka", {"useKeyTab": "true", "keyTab": "/k"}, "needs keyTab and principal"),
        ("kafka", {"principal": "a@R"}, "needs useKeyTab=true or useTicketCache=true"),
    ],
)
def test_incomplete_login_modules_are_refused(
    library: Library, service: str | None, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(KerberosUnavailable, match=reason):
        login(service, **options)


def test_service_name_may_be_in_the_login_module(library: Library) -> None:
    assert login(None, **KEYTAB, serviceName="stream").service == "stream"


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(KerberosUnavailable, match="pip install 'wirekafka"):
        login(**KEYTAB)
