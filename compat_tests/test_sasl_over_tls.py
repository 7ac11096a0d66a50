"""Real clients log in with every mechanism over TLS, and get what the ACLs of their user allow."""

from __future__ import annotations

import asyncio
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from compat_tests.java_tools import JavaTools
from compat_tests.sasl_over_tls import (
    MECHANISMS,
    PASSWORDS,
    USERS,
    Secured,
    secured_broker,
    token,
    token_file,
)
from tests import kafka_jars
from tests.certificates import Issued, client_context

_RECORDS = [b"record %d" % number for number in range(200)]
each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as made:
        yield made


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
        return token()


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
        user = USERS[mechanism]
        settings |= {"sasl_plain_username": user, "sasl_plain_password": PASSWORDS[user]}
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
        return token()


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
            user = USERS[mechanism]
            settings |= {"sasl_plain_username": user, "sasl_plain_password": PASSWORDS[user]}
        async with AIOKafkaProducer(**settings) as producer:
            for value in _RECORDS:
                await producer.send(topic, value)
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
            async with asyncio.timeout(30):
                return [(await consumer.getone()).value for _ in _RECORDS]

    assert asyncio.run(scenario()) == _RECORDS


def _properties(secured: Secured, directory: Path, mechanism: str) -> str:
    file = directory / f"{mechanism}.properties"
    settings = secured.java(directory, mechanism)
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(file)


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
    token = token_file(tmp_path)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{allowed}.urls={token.as_uri()}")
    tools = JavaTools(kafka_jars.tools_jars(), tmp_path)
    common = ("--bootstrap-server", secured.bootstrap, "--topic", topic, "--command-config")
    tools.run(
        "kafka-console-producer",
        *(*common, _properties(secured, tmp_path, writer)),
        stdin="one\ntwo\n",
    )
    consumed = tools.run(
        "kafka-console-consumer",
        *(*common, _properties(secured, tmp_path, reader), "--group", topic),
        *("--from-beginning", "--max-messages", "2", "--timeout-ms", "30000"),
    )
    assert consumed.split() == ["one", "two"]


@pytest.mark.skipif(
    shutil.which("kcat") is None, reason="kcat is not installed (Debian: apt install kcat)"
)
@pytest.mark.parametrize("mechanism", USERS)
def test_kcat(secured: Secured, mechanism: str, topic: str) -> None:
    """kcat reads no token of OAUTHBEARER from a file or command line."""
    if mechanism != "PLAIN" and _librdkafka_of_kcat() < _CORRECT_SCRAM:
        pytest.skip("its librdkafka sends a wrong SCRAM nonce, which Apache Kafka 4 refuses too")
    settings = secured.confluent(mechanism)
    options = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
    lines = "".join(f"{value.decode()}\n" for value in _RECORDS)
    _run(["kcat", *options, "-P", "-t", topic], lines)
    assert _run(["kcat", *options, "-C", "-t", topic, "-o", "beginning", "-e", "-q"]) == lines


_CORRECT_SCRAM = (2, 6, 1)
"""The first librdkafka that repeats the server's nonce as RFC 5802 says."""


def _librdkafka_of_kcat() -> tuple[int, ...]:
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", _run(["kcat", "-V"]))
    assert found is not None, "kcat names its library"
    return tuple(map(int, found.groups()))


def _run(command: Sequence[str], stdin: str = "") -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout
