"""The properties by which clients name their schema registry, as Confluent's clients do."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.registry.fake_registry import fake_registry
from wirekafka.client.client import CliError
from wirekafka.client.registry_settings import registry_of
from wirekafka.client.schema_registry import RegistryRefused
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.option import ConfigError

_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="alice" password="secret";'
)


def test_without_a_url_there_is_no_registry():
    assert registry_of(None) is None
    assert registry_of(ClientConfig({"schema.registry.basic.auth.user.info": "a:b"})) is None


def test_a_url_of_the_command_line_comes_before_the_url_of_the_properties():
    config = ClientConfig({"schema.registry.url": "http://properties:8081"})
    assert registry_of(config).url == "http://properties:8081"
    assert registry_of(config, "http://given:8081").url == "http://given:8081"


@pytest.mark.parametrize(
    "properties",
    [
        {"schema.registry.basic.auth.user.info": "alice:secret"},
        {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "alice:secret"},
        {"basic.auth.credentials.source": "SASL_INHERIT", "sasl.jaas.config": _JAAS},
        {
            "schema.registry.basic.auth.credentials.source": "SASL_INHERIT",
            "schema.registry.sasl.jaas.config": _JAAS,
        },
    ],
)
def test_the_user_is_found_where_confluents_clients_look(properties):
    with fake_registry(user="alice", password="secret") as fake:
        assert registry_of(ClientConfig(properties), fake.url).subjects() == []
        with pytest.raises(RegistryRefused):
            registry_of(None, fake.url).subjects()
        url = fake.url.replace("://", "://alice:secret@")
        config = ClientConfig({"basic.auth.credentials.source": "URL", "schema.registry.url": url})
        assert registry_of(config).subjects() == []


def test_the_authority_is_a_trust_store_of_any_kind(tmp_path: Path):
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("CN=registry", "127.0.0.1").pem())
    properties = {
        "schema.registry.ssl.truststore.type": "PEM",
        "schema.registry.ssl.truststore.location": authority.file,
    }
    with fake_registry(tls=context) as fake:
        assert registry_of(ClientConfig(properties), fake.url).subjects() == []
        with pytest.raises(CliError, match="certificate"):
            registry_of(None, fake.url).subjects()


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({"schema.registry.basic.auth.user.info": "secret"}, "basic.auth.user.info"),
        ({"basic.auth.credentials.source": "SASL_INHERIT"}, "sasl.jaas.config"),
        (
            {"basic.auth.credentials.source": "SASL_INHERIT", "sasl.jaas.config": "secret x;"},
            "sasl.jaas.config",
        ),
        (
            {
                "basic.auth.credentials.source": "SASL_INHERIT",
                "sasl.jaas.config": "a.B required key='secret';",
            },
            "sasl.jaas.config",
        ),
        ({"basic.auth.credentials.source": "STATIC_TOKEN"}, "basic.auth.credentials.source"),
        ({"schema.registry.request.timeout.ms": "soon"}, "schema.registry.request.timeout.ms"),
        (
            {
                "schema.registry.ssl.truststore.type": "PEM",
                "schema.registry.ssl.truststore.location": "/none",
            },
            "ssl.truststore.location",
        ),
    ],
)
def test_wrong_properties_are_named_and_never_quoted(properties, name):
    with pytest.raises(ConfigError, match=name) as error:
        registry_of(ClientConfig(properties), "http://localhost:1")
    assert "secret" not in str(error.value)
