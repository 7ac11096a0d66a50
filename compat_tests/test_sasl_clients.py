"""Real clients log in with every mechanism that they support; wrong passwords are refused."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from compat_tests.java_tools import JavaTools, ToolFailed
from compat_tests.sasl_stage import SIGNING_KEY, USERS, Side, wirekafka_side
from tests import kafka_jars
from tests.sasl_client import SaslClient, signed_token
from wirekafka.protocol.metadata import MetadataRequest

MODULES = "org.apache.kafka.common.security"
OAUTH = f"{MODULES}.oauthbearer"
PASSWORDS = [
    ("PLAIN", "alice", "alice-secret"),
    ("SCRAM-SHA-256", "carol", USERS["carol"]),
    ("SCRAM-SHA-512", "carol", USERS["carol"]),
]
each_password = pytest.mark.parametrize(
    ("mechanism", "user", "password"), PASSWORDS, ids=[each[0] for each in PASSWORDS]
)


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    with wirekafka_side(tmp_path_factory.mktemp("wirekafka")) as started:
        yield started


def address(side: Side, listener: str = "BASIC") -> str:
    return f"127.0.0.1:{side.ports[listener]}"


# librdkafka


def confluent(side: Side, listener: str, **settings: Any) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": address(side, listener),
            "security.protocol": "SASL_PLAINTEXT",
            "log_level": 0,
            **{name.replace("sasl_", "sasl."): value for name, value in settings.items()},
        }
    )


@each_password
def test_confluent(side: Side, mechanism: str, user: str, password: str) -> None:
    settings = {"sasl_mechanism": mechanism, "sasl_username": user}
    admin = confluent(side, "BASIC", **settings, sasl_password=password)
    assert admin.list_topics(timeout=10).brokers
    refused = confluent(side, "BASIC", **settings, sasl_password="wrong")
    with pytest.raises(KafkaException):
        refused.list_topics(timeout=1)


def test_confluent_with_a_signed_token(side: Side) -> None:
    def token(_: str) -> tuple[str, float]:
        import time

        return signed_token(SIGNING_KEY), time.time() + 3600

    admin = confluent(side, "SIGNED", sasl_mechanism="OAUTHBEARER", oauth_cb=token)
    admin.poll(1)  # The poll fetches the token.
    assert admin.list_topics(timeout=10).brokers


def test_confluent_renews_its_session(side: Side) -> None:
    """librdkafka authenticates again in time; requests continue over the same connection."""
    settings = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "carol"}
    admin = confluent(side, "SESSION", **settings, sasl_password=USERS["carol"])
    for _ in range(3):
        assert admin.list_topics(timeout=10).brokers


# kafka-python


@each_password
def test_kafka_python(side: Side, mechanism: str, user: str, password: str) -> None:
    admin = KafkaAdminClient(
        bootstrap_servers=address(side),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username=user,
        sasl_plain_password=password,
    )
    assert isinstance(admin.list_topics(), list)
    admin.close()


# aiokafka


@each_password
def test_aiokafka(side: Side, mechanism: str, user: str, password: str) -> None:
    async def produce() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=address(side),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=user,
            sasl_plain_password=password,
        )
        await producer.start()
        try:
            await producer.send_and_wait("from-aiokafka", b"value")
        finally:
            await producer.stop()

    asyncio.run(produce())


# Kafka's own tools


def java_settings(tmp_path: Path, mechanism: str, module: str, more: str = "") -> str:
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={module};\nrequest.timeout.ms=10000\ndefault.api.timeout.ms=10000\n{more}"
    )
    return str(file)


@pytest.mark.parametrize(
    ("listener", "mechanism", "module"),
    [
        (
            "BASIC",
            "PLAIN",
            f'{MODULES}.plain.PlainLoginModule required username=alice password="alice-secret"',
        ),
        (
            "BASIC",
            "SCRAM-SHA-512",
            f'{MODULES}.scram.ScramLoginModule required username=carol password="carol-secret"',
        ),
        (
            "UNSIGNED",
            "OAUTHBEARER",
            f"{OAUTH}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=bob",
        ),
    ],
)
def test_kafka_topics(
    side: Side, listener: str, mechanism: str, module: str, tmp_path: Path
) -> None:
    tools = JavaTools(kafka_jars.tools_jars(), tmp_path)
    settings = java_settings(tmp_path, mechanism, module)
    bootstrap = ("--bootstrap-server", address(side, listener), "--command-config", settings)
    tools.run("kafka-topics", *bootstrap, "--create", "--topic", f"java-{mechanism}")
    with SaslClient(side.ports["PLAINTEXT"]) as client:
        topics = client.call(MetadataRequest(topics=None), 9).topics
    assert f"java-{mechanism}" in {topic.name for topic in topics}


def test_kafka_configs_creates_a_user_who_can_log_in(side: Side, tmp_path: Path) -> None:
    tools = JavaTools(kafka_jars.tools_jars(), tmp_path)
    admin = f"{MODULES}.plain.PlainLoginModule required username=admin password=admin-secret"
    settings = java_settings(tmp_path, "PLAIN", admin)
    bootstrap = ("--bootstrap-server", address(side), "--command-config", settings)
    user = ("--entity-type", "users", "--entity-name", "eve")
    change = ("--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=eve-secret]")
    tools.run("kafka-configs", *bootstrap, *user, *change)
    described = tools.run("kafka-configs", *bootstrap, *user, "--describe")
    assert "SCRAM-SHA-256=iterations=8192" in described
    client = confluent(
        side,
        "BASIC",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_username="eve",
        sasl_password="eve-secret",
    )
    assert client.list_topics(timeout=10).brokers


def test_a_wrong_password_is_reported_to_java(side: Side, tmp_path: Path) -> None:
    tools = JavaTools(kafka_jars.tools_jars(), tmp_path)
    module = f"{MODULES}.plain.PlainLoginModule required username=alice password=wrong"
    settings = java_settings(tmp_path, "PLAIN", module)
    with pytest.raises(ToolFailed, match="Invalid username or password"):
        tools.run(
            "kafka-topics",
            *("--bootstrap-server", address(side), "--command-config", settings, "--list"),
        )


def test_kafka_delegation_tokens(side: Side, tmp_path: Path) -> None:
    """Kafka's tool manages a token; real clients log in with it, as its owner."""
    tools = JavaTools(kafka_jars.tools_jars(), tmp_path)
    alice = f"{MODULES}.plain.PlainLoginModule required username=alice password=alice-secret"
    settings = java_settings(tmp_path, "PLAIN", alice)
    bootstrap = ("--bootstrap-server", address(side), "--command-config", settings)

    def run(*arguments: str) -> str:
        return tools.run("kafka-delegation-tokens", *bootstrap, *arguments)

    created = run("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:admin")
    token_id, hmac, *_ = re.split(r"\s+", created.strip().splitlines()[-1])
    assert token_id in run("--describe", "--owner-principal", "User:alice")
    run("--renew", "--renew-time-period", "3600000", "--hmac", hmac)

    module = (
        f"{MODULES}.scram.ScramLoginModule required username={token_id!r} "
        f"password={hmac!r} tokenauth=true"
    ).replace("'", '"')
    by_token = java_settings(tmp_path, "SCRAM-SHA-512", module)
    command = ("--bootstrap-server", address(side), "--command-config", by_token)
    tools.run("kafka-topics", *command, "--create", "--topic", "by-token")
    with pytest.raises(ToolFailed, match="Delegation Token requests are not allowed"):
        tools.run("kafka-delegation-tokens", *command, "--describe")

    java_settings(tmp_path, "PLAIN", alice)
    run("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert token_id not in run("--describe")
