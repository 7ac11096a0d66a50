"""Users of the brokers in a registry: their passwords, and their ACLs of topics."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import wirekafka
from tests.registry.servers import ask, registry
from wirekafka.config.client_config import ClientConfig
from wirekafka.registry.instance import broker_access
from wirekafka.registry.instance.broker_access import topic_of
from wirekafka.testing import Allow

USERS = {"alice": "se:cret", "bob": "secret", "carol": "secret", "root": "secret"}
ALICE, BOB, CAROL, ROOT = USERS.items()
LEVEL = {"compatibility": "FULL"}


@pytest.fixture(scope="module")
def broker() -> Iterator[wirekafka.Broker]:
    acls = [
        Allow("alice", ["write", "alter_configs"], topic="orders"),
        Allow("bob", "describe", topic="orders"),
        Allow("root", "alter", cluster=True),
    ]
    with wirekafka.Broker(schema_registry=True, users=USERS, acls=acls) as broker:
        yield broker


@pytest.fixture
def url(broker: wirekafka.Broker) -> str:
    return broker.schema_registry_url


@pytest.mark.parametrize(
    ("subject", "topic"),
    [
        ("orders-value", "orders"),
        ("orders-key", "orders"),
        (":.staging:orders-key", "orders"),
        ("com.acme.Order", "com.acme.Order"),
        ("orders-value-key", "orders-value"),
        ("-value", "-value"),
    ],
)
def test_a_subject_belongs_to_a_topic(subject: str, topic: str) -> None:
    assert topic_of(subject) == topic


def test_a_login_is_needed_and_asked_for(url: str) -> None:
    refused = ask(url, "GET", "/subjects")
    assert (refused.status, refused.body["error_code"]) == (401, 401)
    assert refused.headers["www-authenticate"] == 'Basic realm="schema-registry"'
    assert ask(url, "GET", "/subjects", login=("alice", "wrong")).status == 401
    assert ask(url, "GET", "/subjects", login=("nobody", "secret")).status == 401
    assert ask(url, "GET", "/subjects", login=ALICE).status == 200


@pytest.mark.parametrize(
    "text",
    [
        "Basic",
        "Basic !!!",
        "Bearer abc",
        "Basic " + base64.b64encode(b"alice").decode(),
        "Basic " + base64.b64encode(b"\xff:x").decode(),
        "Basic " + base64.b64encode(b'alice" password="x:y').decode(),
        "Basic " + base64.b64encode(b"alice\n:se:cret").decode(),
        "Basic " + base64.b64encode(b"a:" + b"x" * 9_000).decode(),
    ],
)
def test_malformed_credentials_are_no_login(url: str, text: str) -> None:
    assert ask(url, "GET", "/subjects", Authorization=text).status == 401


def test_settings_of_a_subject_need_permissions_for_its_topic(url: str) -> None:
    path = "/config/orders-value"
    assert ask(url, "PUT", path, LEVEL, login=BOB).body == {
        "error_code": 40301,
        "message": "User is denied operation Write on Subject: orders-value",
    }
    assert ask(url, "PUT", path, LEVEL, login=ALICE).status == 200
    assert ask(url, "GET", path, login=BOB).body == {"compatibilityLevel": "FULL"}
    assert ask(url, "GET", path, login=CAROL).status == 403
    assert ask(url, "GET", "/config/:.other:orders-key", login=CAROL).status == 403
    assert ask(url, "DELETE", path, login=BOB).status == 403


def test_settings_of_the_registry_need_alter_on_the_cluster(url: str) -> None:
    assert ask(url, "PUT", "/config", LEVEL, login=ALICE).status == 403
    assert ask(url, "PUT", "/mode", {"mode": "READONLY"}, login=ALICE).status == 403
    assert ask(url, "PUT", "/config", LEVEL, login=ROOT).status == 200
    assert ask(url, "GET", "/config", login=CAROL).status == 200


def test_schemas_that_a_user_may_not_read_are_not_listed(
    broker: wirekafka.Broker, url: str
) -> None:
    for subject in ("orders-value", "hidden-value"):
        schema = {"schema": json.dumps({"title": subject}), "schemaType": "JSON"}
        broker.schemas.registry.request("POST", f"subjects/{subject}/versions", schema)
    assert ask(url, "GET", "/subjects", login=BOB).body == ["orders-value"]
    assert [each["subject"] for each in ask(url, "GET", "/schemas", login=BOB).body] == [
        "orders-value"
    ]
    assert ask(url, "GET", "/subjects", login=CAROL).body == []
    # A check before the schema is even parsed.
    answer = ask(url, "POST", "/subjects/hidden-value/versions", {"schema": "{"}, login=ALICE)
    assert answer.status == 403
    assert ask(url, "GET", "/subjects/hidden-value/versions", login=ALICE).status == 403
    assert ask(url, "GET", "/subjects/no-such-value/versions", login=ALICE).status == 403
    assert ask(url, "GET", "/subjects/orders-value/versions", login=ALICE).body == [1]


def test_many_failures_of_an_address_are_limited(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_access, "MOST_FAILURES", 3)
    assert ask(url, "GET", "/subjects", login=BOB).status == 200
    with ThreadPoolExecutor(10) as threads:
        logins = [("mallory", f"guess {number}") for number in range(10)]
        statuses = list(
            threads.map(lambda login: ask(url, "GET", "/subjects", login=login).status, logins)
        )
    assert sorted(set(statuses)) == [401, 429]
    assert statuses.count(401) <= 3
    # Users whose password was checked before are not locked out.
    assert ask(url, "GET", "/subjects", login=BOB).status == 200


def test_a_registry_that_may_not_write_transactions_says_so() -> None:
    acls = [
        Allow("registry", "all", topic="_schemas"),
        Allow("registry", "read", group="schema-registry"),
        Allow("registry", "alter", cluster=True),
    ]
    login = ("registry", "secret")
    with wirekafka.Broker(users=dict([login]), acls=acls) as broker:
        settings = broker.client_config("java", user="registry")
        config = ClientConfig({name: str(value) for name, value in settings.items()})
        with registry(broker.bootstrap_servers, config) as url:
            assert ask(url, "GET", "/subjects", login=login).status == 200
            refused = ask(url, "PUT", "/config", LEVEL, login=login)
            assert (refused.status, refused.body["error_code"]) == (500, 50001)
            assert refused.body["message"].startswith(
                "Error while writing to the Kafka store: the user may not use the transactional id"
                " wirekafka-schema-registry: it needs WRITE and DESCRIBE on it"
            )
