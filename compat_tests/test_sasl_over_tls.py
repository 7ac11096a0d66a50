"""Real clients log in with every mechanism over TLS, and get what the ACLs of their user allow."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from compat_tests.java_tools import JavaTools
from compat_tests.sasl_stage import SIGNING_KEY, write_keys
from tests import kafka_jars
from tests.certificates import Authority, Issued, client_context
from tests.sasl_client import signed_token
from wirekafka.config.authorization import STANDARD_AUTHORIZER
from wirekafka.testing import Broker

_HOST = "127.0.0.1"
_MODULES = "org.apache.kafka.common.security"
_OAUTH = f"{_MODULES}.oauthbearer"
_RECORDS = [b"record %d" % number for number in range(200)]
_PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret", "carol": "carol-secret"}
_USERS = {"PLAIN": "alice", "SCRAM-SHA-256": "carol", "SCRAM-SHA-512": "carol"}
"""The user of each mechanism; tokens of OAUTHBEARER belong to bob."""
_MECHANISMS = (*_USERS, "OAUTHBEARER")
each_mechanism = pytest.mark.parametrize("mechanism", _MECHANISMS)


@dataclass(frozen=True)
class Secured:
    """The address of a broker, and what its clients need."""

    bootstrap: str
    authority: Authority

    def confluent(self, mechanism: str, **more: Any) -> dict[str, Any]:
        """The settings of a client of librdkafka."""
        settings = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.authority.file,
            "sasl.mechanism": mechanism,
            "log_level": 0,
            **more,
        }
        if mechanism == "OAUTHBEARER":
            return {**settings, "oauth_cb": lambda _: (_token(), time.time() + 3600)}
        user = more.get("sasl.username", _USERS[mechanism])
        return {**settings, "sasl.username": user, "sasl.password": _PASSWORDS[user]}

    def admin(self) -> AdminClient:
        return AdminClient(self.confluent("PLAIN", **{"sasl.username": "admin"}))


def _token() -> str:
    return signed_token(SIGNING_KEY)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker that denies whatever its ACLs do not allow, and reads clients' certificates."""
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority(directory)
    listed = " ".join(f'user_{user}="{_PASSWORDS[user]}"' for user in ("admin", "alice"))
    prefix = "listener.name.sasl_ssl"
    settings = {
        "listeners": f"SASL_SSL://{_HOST}:0",
        "inter.broker.listener.name": "SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.issue("CN=broker", _HOST, key="rsa").pem(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.file,
        f"{prefix}.ssl.client.auth": "requested",
        "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
        f"{prefix}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {listed};",
        f"{prefix}.oauthbearer.sasl.jaas.config": (f"{_OAUTH}.OAuthBearerLoginModule required;"),
        f"{prefix}.oauthbearer.sasl.server.callback.handler.class": (
            f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"
        ),
        f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": write_keys(directory).as_uri(),
        f"{prefix}.sasl.oauthbearer.expected.audience": "kafka",
        f"{prefix}.sasl.oauthbearer.expected.issuer": "https://issuer",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin;User:CN=root",
    }
    for bits in ("256", "512"):
        module = f"{_MODULES}.scram.ScramLoginModule required;"
        settings[f"{prefix}.scram-sha-{bits}.sasl.jaas.config"] = module
    with Broker(config=settings) as broker:
        made = Secured(broker.bootstrap_servers, authority)
        _create_users(made.admin())
        yield made


def _create_users(admin: AdminClient) -> None:
    """Carol's credentials, and ACLs of all users for the topics and groups named `shared*`."""
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        change = UserScramCredentialUpsertion(
            "carol", ScramCredentialInfo(mechanism, 4096), _PASSWORDS["carol"].encode()
        )
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(20)
    bindings = [
        AclBinding(
            kind,
            "shared",
            ResourcePatternType.PREFIXED,
            f"User:{user}",
            "*",
            AclOperation.ALL,
            AclPermissionType.ALLOW,
        )
        for kind in (ResourceType.TOPIC, ResourceType.GROUP)
        for user in ("alice", "bob", "carol")
    ]
    for created in admin.create_acls(bindings).values():
        created.result(20)


@pytest.fixture
def topic(unique: str) -> str:
    return f"shared-{unique}"


@each_mechanism
def test_confluent_kafka(secured: Secured, mechanism: str, topic: str) -> None:
    settings = secured.confluent(mechanism)
    producer = Producer(settings)
    for value in _RECORDS:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    while len(found) < len(_RECORDS):
        found += [each.value() for each in consumer.consume(len(_RECORDS) - len(found), 30)]
    consumer.close()
    assert found == _RECORDS


@each_mechanism
def test_what_no_acl_allows_is_refused(secured: Secured, mechanism: str, unique: str) -> None:
    refused: list[KafkaError | None] = []
    producer = Producer(secured.confluent(mechanism))
    producer.produce(f"secret-{unique}", b"", on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(30) == 0
    (error,) = refused
    assert error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_the_certificate_of_a_client_that_logs_in_names_nobody(
    secured: Secured, unique: str
) -> None:
    """With SASL the login names the principal, even if the certificate is a super user's."""
    root: Issued = secured.authority.issue("CN=root", key="rsa")
    certificate = {
        "ssl.certificate.location": root.chain_file(),
        "ssl.key.location": root.key_file(),
    }
    refused: list[KafkaError | None] = []
    producer = Producer(secured.confluent("PLAIN", **certificate))
    producer.produce(f"secret-{unique}", b"", on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(30) == 0
    (error,) = refused
    assert error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


class Tokens(AbstractTokenProvider):
    """Tokens of kafka-python's kind."""

    def token(self) -> str:
        return _token()


@each_mechanism
def test_kafka_python(secured: Secured, mechanism: str, topic: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": secured.bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": secured.authority.file,
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = Tokens()
    else:
        user = _USERS[mechanism]
        settings |= {"sasl_plain_username": user, "sasl_plain_password": _PASSWORDS[user]}
    producer = KafkaProducer(**settings)
    for value in _RECORDS:
        producer.send(topic, value)
    producer.flush(30)
    producer.close()
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **settings
    )
    found = [next(consumer).value for _ in _RECORDS]
    consumer.close()
    assert found == _RECORDS


class AioTokens(AioTokenProvider):
    """Tokens of aiokafka's kind."""

    async def token(self) -> str:
        return _token()


@each_mechanism
def test_aiokafka(secured: Secured, mechanism: str, topic: str) -> None:
    async def scenario() -> list[bytes | None]:
        context: ssl.SSLContext = client_context(secured.authority)
        settings: dict[str, Any] = {
            "bootstrap_servers": secured.bootstrap,
            "security_protocol": "SASL_SSL",
            "ssl_context": context,
            "sasl_mechanism": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = AioTokens()
        else:
            user = _USERS[mechanism]
            settings |= {"sasl_plain_username": user, "sasl_plain_password": _PASSWORDS[user]}
        async with AIOKafkaProducer(**settings) as producer:
            for value in _RECORDS:
                await producer.send(topic, value)
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
            async with asyncio.timeout(30):
                return [(await consumer.getone()).value for _ in _RECORDS]

    assert asyncio.run(scenario()) == _RECORDS


def _java_settings(secured: Secured, directory: Path, mechanism: str) -> str:
    lines = [
        "security.protocol=SASL_SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={secured.authority.file}",
        f"sasl.mechanism={mechanism}",
    ]
    if mechanism == "OAUTHBEARER":
        token = _token_file(directory)
        lines += [
            f"sasl.jaas.config={_OAUTH}.OAuthBearerLoginModule required;",
            f"sasl.login.callback.handler.class={_OAUTH}.OAuthBearerLoginCallbackHandler",
            f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}",
        ]
    else:
        user = _USERS[mechanism]
        kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        login = f'{kind}LoginModule required username={user} password="{_PASSWORDS[user]}";'
        lines.append(f"sasl.jaas.config={_MODULES}.{login}")
    file = directory / f"{mechanism}.properties"
    file.write_text("".join(f"{line}\n" for line in lines))
    return str(file)


def _token_file(directory: Path) -> Path:
    path = directory / "token.jwt"
    path.write_text(_token())
    return path


@pytest.mark.parametrize(
    ("writer", "reader"), [("PLAIN", "SCRAM-SHA-256"), ("SCRAM-SHA-512", "OAUTHBEARER")]
)
def test_java_clients(
    secured: Secured,
    topic: str,
    tmp_path: Path,
    writer: str,
    reader: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    token = _token_file(tmp_path)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{allowed}.urls={token.as_uri()}")
    tools = JavaTools(kafka_jars.tools_jars(), tmp_path)
    common = ("--bootstrap-server", secured.bootstrap, "--topic", topic, "--command-config")
    tools.run(
        "kafka-console-producer",
        *(*common, _java_settings(secured, tmp_path, writer)),
        stdin="one\ntwo\n",
    )
    consumed = tools.run(
        "kafka-console-consumer",
        *(*common, _java_settings(secured, tmp_path, reader), "--group", topic),
        *("--from-beginning", "--max-messages", "2", "--timeout-ms", "30000"),
    )
    assert consumed.split() == ["one", "two"]
