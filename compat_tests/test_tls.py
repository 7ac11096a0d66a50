"""Real clients over TLS with certificates of their own: Kafka's in C, Python and Java."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from compat_tests.java_tools import JavaTools
from tests import kafka_jars
from tests.certificates import PASSWORD, Authority, Issued
from wirekafka.testing import Broker

_HOST = "127.0.0.1"
_RECORDS = [b"record %d" % number for number in range(500)]
_LARGE = [bytes([number]) * 500_000 for number in range(10)]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Issued:
    return authority.issue("O=Example,CN=alice", key="rsa")


@pytest.fixture(scope="module", params=["TLSv1.2", "TLSv1.3"])
def bootstrap(request: pytest.FixtureRequest, authority: Authority) -> Iterator[str]:
    """The address of a broker that requires certificates."""
    settings = {
        "listeners": f"SSL://{_HOST}:0",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": authority.issue("CN=broker", _HOST, key="rsa").pkcs12(),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.file,
        "ssl.client.auth": "required",
        "ssl.enabled.protocols": request.param,
    }
    with Broker(config=settings) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("values", [_RECORDS, _LARGE], ids=["many records", "large records"])
def test_confluent_kafka_writes_and_reads(
    bootstrap: str, authority: Authority, alice: Issued, unique: str, values: list[bytes]
) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": authority.file,
        "ssl.certificate.location": alice.chain_file(),
        "ssl.key.location": alice.key_file(),
    }
    producer = Producer(settings)
    for value in values:
        producer.produce(unique, value)
    assert producer.flush(30) == 0
    consumer = Consumer(settings | {"group.id": unique, "auto.offset.reset": "earliest"})
    consumer.subscribe([unique])
    found: list[bytes | None] = []
    while len(found) < len(values):
        found += [message.value() for message in consumer.consume(len(values) - len(found), 30)]
    consumer.close()
    assert found == values


def test_kafka_python_writes_and_reads(
    bootstrap: str, authority: Authority, alice: Issued, unique: str
) -> None:
    settings = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": authority.file,
        "ssl_certfile": alice.chain_file(),
        "ssl_keyfile": alice.key_file(),
    }
    producer = KafkaProducer(**settings)
    for value in _RECORDS:
        producer.send(unique, value)
    producer.flush()
    producer.close()
    consumer = KafkaConsumer(
        unique, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **settings
    )
    found = [next(consumer).value for _ in _RECORDS]
    consumer.close()
    assert found == _RECORDS


def test_aiokafka_writes_and_reads(
    bootstrap: str, authority: Authority, alice: Issued, unique: str
) -> None:
    context = ssl.create_default_context(cafile=authority.file)
    context.load_cert_chain(alice.pem())

    async def scenario() -> list[bytes | None]:
        settings = {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SSL",
            "ssl_context": context,
        }
        async with AIOKafkaProducer(**settings) as producer:
            for value in _RECORDS:
                await producer.send(unique, value)
        async with AIOKafkaConsumer(unique, auto_offset_reset="earliest", **settings) as consumer:
            async with asyncio.timeout(30):
                return [(await consumer.getone()).value for _ in _RECORDS]

    assert asyncio.run(scenario()) == _RECORDS


def test_java_clients_write_and_read(
    bootstrap: str, authority: Authority, alice: Issued, unique: str, tmp_path: Path
) -> None:
    tools = JavaTools(kafka_jars.tools_jars(), tmp_path)
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={authority.file}\n"
        f"ssl.keystore.type=PKCS12\nssl.keystore.location={alice.pkcs12()}\n"
        f"ssl.keystore.password={PASSWORD}\nssl.key.password={PASSWORD}\n"
    )
    tools.run(
        "kafka-console-producer",
        *("--bootstrap-server", bootstrap, "--topic", unique, "--command-config", str(file)),
        stdin="one\ntwo\n",
    )
    consumed = tools.run(
        "kafka-console-consumer",
        *("--bootstrap-server", bootstrap, "--topic", unique, "--command-config", str(file)),
        *("--from-beginning", "--max-messages", "2", "--timeout-ms", "30000"),
    )
    assert consumed.split() == ["one", "two"]
