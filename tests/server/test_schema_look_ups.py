"""Whether schemas are registered, as a registry answers over HTTP."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tests.manual_clock import ManualClock
from tests.registry.fake_registry import FakeRegistry, Fault, fake_registry
from wirekafka.client.schema_registry import SchemaRegistry
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.config.options.schema_validation import BY_RECORD, BY_TOPIC, BY_TOPIC_AND_RECORD
from wirekafka.config.own import RegistryAccess, schema_registry
from wirekafka.replication.partition.schema_checks import ByMessage, SchemaUse, UnreachableRegistry
from wirekafka.schemas.schema import Format, SchemaReference
from wirekafka.server.schema_look_ups import SchemaLookUps

ORDER = json.dumps({"type": "record", "name": "shop.Order", "fields": []})
URL = "confluent.schema.registry.url"
CREDENTIALS = "confluent.basic.auth.credentials.source"
USER = "confluent.basic.auth.user.info"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry(user="reader", password="secret") as running:
        yield running


@pytest.fixture
def look_ups(registry: FakeRegistry) -> Iterator[SchemaLookUps]:
    opened = SchemaLookUps(RegistryAccess(registry.url, "reader", "secret"), ManualClock())
    yield opened
    opened.stop()


def register(registry: FakeRegistry, subject: str, text: str = ORDER, *references: Any) -> int:
    client = SchemaRegistry(registry.url, user="reader", password="secret")
    with client:
        return client.register(subject, text, references=references)


def use(reference: Any, strategy: str = BY_TOPIC, *, is_key: bool = False) -> SchemaUse:
    return SchemaUse(reference, "orders", is_key, strategy)


@pytest.mark.parametrize(
    ("subject", "strategy"),
    [
        ("orders-value", BY_TOPIC),
        ("shop.Order", BY_RECORD),
        ("orders-shop.Order", BY_TOPIC_AND_RECORD),
    ],
)
@pytest.mark.parametrize("by_guid", [False, True])
def test_a_schema_must_be_registered_for_the_subject_of_the_strategy(
    registry, look_ups, subject, strategy, by_guid
):
    pytest.importorskip("wirekafka.schemas.avro.schema")
    id = register(registry, "another")
    reference = registry.guid(id) if by_guid else id
    reason = look_ups.reason(use(reference, strategy))
    assert reason is not None and reason.endswith(f"which is not registered for subject {subject}")
    register(registry, subject)
    assert look_ups.reason(use(reference, strategy)) is None


SHOP = """syntax = "proto3"; package shop;
message Order { message Line { int32 id = 1; } }
message Refund { int32 id = 1; }"""


@pytest.mark.parametrize("by_guid", [False, True])
@pytest.mark.parametrize(
    ("message", "subject"),
    [((0,), "shop.Order"), ((0, 0), "shop.Order.Line"), ((1,), "shop.Refund")],
)
def test_each_message_of_protobuf_has_a_subject_of_its_own(
    registry: FakeRegistry,
    look_ups: SchemaLookUps,
    by_guid: bool,
    message: tuple[int, ...],
    subject: str,
) -> None:
    with SchemaRegistry(registry.url, user="reader", password="secret") as client:
        id = client.register("another", SHOP, Format.PROTOBUF)
        general = use(registry.guid(id) if by_guid else id, BY_RECORD)
        assert look_ups.reason(general) == ByMessage()
        reason = look_ups.reason(general._replace(message=message))
        assert isinstance(reason, str) and reason.endswith(f"registered for subject {subject}")
        client.register(subject, SHOP, Format.PROTOBUF)
    assert look_ups.reason(general._replace(message=message)) is None
    for wrong in ((), (7,), (0, 0, 0)):
        reason = look_ups.reason(general._replace(message=wrong))
        assert isinstance(reason, str) and "has no name to be registered by" in reason


def test_keys_have_a_subject_of_their_own(registry, look_ups):
    id = register(registry, "orders-key")
    assert look_ups.reason(use(id, is_key=True)) is None
    assert look_ups.reason(use(id)) == (
        f"The value has schema id {id}, which is not registered for subject orders-value"
    )


def test_unknown_ids_and_guids_are_named(registry, look_ups):
    assert look_ups.reason(use(99)) == (
        "The value has schema id 99, which the schema registry does not know"
    )
    reason = look_ups.reason(use(registry.guid(99)))
    assert reason is not None and str(registry.guid(99)) in reason


def test_a_schema_with_references_is_found_by_its_guid(registry, look_ups):
    register(registry, "shop.Order")
    id = register(registry, "orders-value", '"shop.Order"', SchemaReference("o", "shop.Order", 1))
    assert look_ups.reason(use(registry.guid(id))) is None


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_a_registry_that_fails_says_nothing_about_schemas(registry, look_ups, status):
    body = json.dumps({"error_code": status, "message": "not now"}).encode()
    registry.faults.append(Fault(status, body))
    with pytest.raises(UnreachableRegistry, match="not now"):
        look_ups.reason(use(1))


def test_a_registry_that_is_gone_says_nothing_about_schemas(registry, look_ups):
    registry.stop()
    with pytest.raises(UnreachableRegistry):
        look_ups.reason(use(1))


@pytest.mark.parametrize(
    ("settings", "access"),
    [
        ({}, None),
        ({URL: "http://r:8081"}, RegistryAccess("http://r:8081")),
        (
            {URL: "http://r:8081", CREDENTIALS: "USER_INFO", USER: "u:p:w"},
            RegistryAccess("http://r:8081", "u", "p:w"),
        ),
        (
            {URL: "https://r:8081", "confluent.ssl.truststore.location": "/ca.pem"},
            RegistryAccess("https://r:8081", ssl={"ssl.truststore.location": "/ca.pem"}),
        ),
    ],
)
def test_the_registry_and_its_user_are_settings_of_the_broker(settings, access):
    config = BrokerConfig.of(settings)
    assert schema_registry(config.sources) == access
    assert config.unknown == []


@pytest.mark.parametrize(
    "settings",
    [
        {CREDENTIALS: "SASL_INHERIT"},
        {CREDENTIALS: "USER_INFO"},
        {CREDENTIALS: "USER_INFO", USER: "u"},
    ],
)
def test_other_credentials_are_refused_without_naming_them(settings):
    with pytest.raises(ConfigError) as refused:
        schema_registry(BrokerConfig.of({URL: "http://r:8081", **settings}).sources)
    assert "expected" in str(refused.value)


def test_the_authority_of_the_registry_is_a_setting_of_the_broker(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("CN=registry", "127.0.0.1").pem())
    trusted = {
        "confluent.ssl.truststore.type": "PEM",
        "confluent.ssl.truststore.location": str(authority.file),
    }
    with fake_registry(tls=context) as registry:
        for settings, reason in (
            (trusted, "which the schema registry does not know"),
            ({}, "certificate"),
        ):
            access = schema_registry(BrokerConfig.of({URL: registry.url, **settings}).sources)
            assert access is not None
            opened = SchemaLookUps(access, ManualClock())
            try:
                assert reason in str(opened.reason(use(1)))
            except UnreachableRegistry as error:
                assert reason in str(error)
            opened.stop()


def test_a_wrong_store_names_the_option() -> None:
    access = RegistryAccess("https://r:8081", ssl={"ssl.truststore.location": "/no/such/file"})
    with pytest.raises(ConfigError, match=r"ssl\.truststore"):
        SchemaLookUps(access, ManualClock())


def test_a_url_that_is_none_is_refused():
    with pytest.raises(ConfigError, match=URL):
        SchemaLookUps(RegistryAccess("registry"), ManualClock())
