"""The user by which a console asks the schema registry: the visitor, and nobody else."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.console.site import console
from tests.registry.fake_registry import FakeRegistry, fake_registry
from wirekafka import Broker
from wirekafka.client.client import CliError
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.console.registry_access import registry_of
from wirekafka.console.settings import ConsoleSettings
from wirekafka.testing import Allow

USERS = {"ann": "ann's secret", "bob": 'bob"s : secret'}
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required"
    ' username="ann" password="ann\'s secret";'
)
OTHER = {"schema.registry.basic.auth.user.info": "other:theirs"}


def users_of(fake: FakeRegistry) -> set[str | None]:
    """The users and passwords of the requests since the last call."""
    found = {each.authorization for each in fake.seen}
    fake.seen.clear()
    return {each and base64.b64decode(each.removeprefix("Basic ")).decode() for each in found}


def settings(url: str | None, values: dict[str, str], **more: object) -> ConsoleSettings:
    config = ClientConfig(values) if values else None
    return ConsoleSettings("b:1", Address("127.0.0.1", 0), config, schema_registry=url, **more)


def test_each_visitor_is_known_to_the_registry_by_the_name_and_password_of_the_login() -> None:
    with (
        Broker(users=USERS) as broker,
        fake_registry() as fake,
        console(
            broker.bootstrap_servers,
            config=ClientConfig({**SASL, **OTHER}),
            schema_registry=fake.url.replace("://", "://url:secret@"),
        ) as site,
    ):
        for name, password in USERS.items():
            visitor = site.another()
            visitor.log_in(name, password)
            assert visitor.get("/schemas").status == 200
            assert users_of(fake) == {f"{name}:{password}"}
        assert site.another().get("/schemas").words("h1") == "Log in"
        assert users_of(fake) == set()


def test_a_visitor_may_do_in_the_registry_what_the_acls_of_topics_allow() -> None:
    acls = [Allow("ann", ("read", "describe"), topic="orders")]
    with Broker(users=USERS, acls=acls, topics=["orders"], schema_registry=True) as broker:
        broker.schemas.register("orders-value", '"string"')
        broker.schemas.register("payments-value", '"string"')
        with console(
            broker.bootstrap_servers,
            config=ClientConfig(SASL),
            allow_changes=True,
            schema_registry=broker.schema_registry_url,
        ) as site:
            site.log_in("ann", USERS["ann"])
            assert [row[0] for row in site.get("/schemas").rows("#subjects")] == ["orders-value"]
            form = {"name": "orders-value", "format": "AVRO", "schema": '"int"', "references": ""}
            page = site.post("/schemas/register", **form, action="register")
            assert page.status == 403
            assert "User is denied operation Write" in page.words("[role=alert]")
            assert page.words("textarea[name=schema]") == '"int"'


@pytest.mark.parametrize(
    ("values", "user"),
    [
        ({}, None),
        (OTHER, "other:theirs"),
        ({**SASL, "sasl.jaas.config": JAAS}, "ann:ann's secret"),
        ({**SASL, "sasl.jaas.config": JAAS, **OTHER}, "other:theirs"),
        ({**SASL, "sasl.jaas.config": "broken"}, None),
    ],
)
def test_without_logins_it_is_the_user_of_the_configuration(
    values: dict[str, str], user: str | None
) -> None:
    with fake_registry() as fake:
        found = registry_of(settings(fake.url, values))
        assert found is not None and found.subjects() == []
        assert users_of(fake) == {user}


def test_the_authority_of_the_brokers_is_trusted_for_the_registry_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued = authority.issue("CN=elsewhere", "127.0.0.1").pem()
    context.load_cert_chain(issued)
    store = {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority.file}
    with fake_registry(tls=context) as fake:
        with pytest.raises(CliError, match="certificate"):
            registry_of(settings(fake.url, {})).subjects()
        assert registry_of(settings(fake.url, store)).subjects() == []
        pinned = settings(fake.url.replace("127.0.0.1", "localhost"), {})
        with pytest.raises(CliError, match="certificate"):
            registry_of(pinned).subjects()
        own = {"registry_certificate": Path(issued)}
        pinned = settings(fake.url.replace("127.0.0.1", "localhost"), {}, **own)
        assert registry_of(pinned).subjects() == []


def test_an_account_keeps_a_mebibyte_of_schemas() -> None:
    with fake_registry() as fake:
        registry = registry_of(settings(fake.url, {}))
        assert registry is not None
        for name in "ab":
            registry.register(name, name * (600 << 10))
        for id in (1, 2, 2, 1):
            registry.schema(id)
        assert fake.paths.count("GET /schemas/ids/1") == 2
        assert fake.paths.count("GET /schemas/ids/2") == 1


def test_a_url_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(CliError, match="no URL of a schema registry"):
        registry_of(settings("registry:8081", {}))
    assert registry_of(settings(None, {})) is None
