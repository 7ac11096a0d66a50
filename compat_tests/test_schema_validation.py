"""Topics that accept registered schemas only: Confluent's serializers, and Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from compat_tests.apache_kafka import apache_kafka_on
from spark_examples.live_broker import live_broker
from tests.eventually import eventually
from tests.ports import free_ports
from tests.registry.fake_registry import FakeRegistry, fake_registry

OPTION = "confluent.value.schema.validation"
ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
OTHER = json.dumps({"type": "record", "name": "Other", "fields": [{"name": "id", "type": "long"}]})


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        yield running


def serialized(url: str, topic: str, schema: str, **settings: object) -> bytes:
    with SchemaRegistryClient({"url": url}) as client:
        serializer = AvroSerializer(client, schema, conf=settings)
        value = serializer({"id": 1}, SerializationContext(topic, MessageField.VALUE))
    assert isinstance(value, bytes)
    return value


def outcome(bootstrap: str, topic: str, value: bytes | None, **settings: object) -> int:
    """Produce a record; its error code, 0 if it is stored."""
    reports: list[KafkaError | None] = []

    def report(error: KafkaError | None, message: Message) -> None:
        reports.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    producer.produce(topic, key=b"k", value=value, on_delivery=report)
    assert producer.flush(30) == 0
    [error] = reports
    return 0 if error is None else error.code()


def create(bootstrap: str, name: str, **config: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    options = {key.replace("_", "."): value for key, value in config.items()}
    for made in admin.create_topics([NewTopic(name, 1, config=options)]).values():
        made.result(30)
    return admin


@contextmanager
def validating_broker(tmp_path: Path, registry: FakeRegistry) -> Iterator[str]:
    """A broker with the topic `orders`, whose values have registered schemas only."""
    setting = f"confluent.schema.registry.url={registry.url}"
    with live_broker(tmp_path / "data", setting) as bootstrap:
        create(bootstrap, "orders", **{OPTION: "true"})
        yield bootstrap


@pytest.mark.timeout(120)
def test_records_of_confluents_serializer_are_accepted_once_their_schema_is_registered(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    with validating_broker(tmp_path, registry) as bootstrap:
        valid = serialized(registry.url, "orders", ORDER)
        foreign = serialized(registry.url, "elsewhere", OTHER)
        for settings in ({}, {"enable.idempotence": True}, {"compression.type": "zstd"}):
            assert outcome(bootstrap, "orders", valid, **settings) == 0
            refusals = [outcome(bootstrap, "orders", each, **settings) for each in (foreign, b"x")]
            assert refusals == [KafkaError.INVALID_RECORD] * 2
        assert outcome(bootstrap, "orders", None) == 0, "a tombstone needs no schema"
        with SchemaRegistryClient({"url": registry.url}) as client:
            schema = client.get_schema(int.from_bytes(foreign[1:5], "big"))
            client.register_schema("orders-value", schema)
        eventually(lambda: outcome(bootstrap, "orders", foreign) == 0)


@pytest.mark.timeout(120)
def test_a_broker_that_serves_a_registry_asks_it_by_default(tmp_path: Path) -> None:
    [port] = free_ports(1)
    with live_broker(
        tmp_path / "data", f"wirekafka.schema.registry.listener=127.0.0.1:{port}"
    ) as bootstrap:
        create(bootstrap, "orders", **{OPTION: "true"})
        # Its registry may still have to read its topic: producers wait for it.
        assert outcome(bootstrap, "orders", b"\0\0\0\0\7") == KafkaError.INVALID_RECORD
        url = f"http://127.0.0.1:{port}"
        assert outcome(bootstrap, "orders", serialized(url, "orders", ORDER)) == 0


@pytest.mark.timeout(120)
def test_transactions_commit_registered_schemas_and_abort_others(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    with validating_broker(tmp_path, registry) as bootstrap:
        valid = serialized(registry.url, "orders", ORDER)
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", value=valid)
        producer.commit_transaction(30)
        producer.begin_transaction()
        producer.produce("orders", value=b"bare")
        with pytest.raises(KafkaException):
            producer.commit_transaction(30)
        producer.abort_transaction(30)
        assert read(bootstrap, "orders") == [valid]


def read(bootstrap: str, topic: str) -> list[bytes | None]:
    """The values of a topic's committed records."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = list[bytes | None]()
    while (message := consumer.poll(30)) is not None and message.error() is None:
        values.append(message.value())
    consumer.close()
    return values


@pytest.mark.timeout(200)
def test_apache_kafka_opens_a_directory_with_such_a_topic_and_leaves_its_options(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    data = tmp_path / "data"
    setting = f"confluent.schema.registry.url={registry.url}"
    with live_broker(data, setting) as bootstrap:
        create(bootstrap, "orders", **{OPTION: "true", "retention_ms": "-1"})
        valid = serialized(registry.url, "orders", ORDER)
        assert outcome(bootstrap, "orders", valid) == 0
    with apache_kafka_on([data], tmp_path) as bootstrap:
        assert read(bootstrap, "orders") == [valid]
        assert outcome(bootstrap, "orders", b"unchecked") == 0
        admin = AdminClient({"bootstrap.servers": bootstrap})
        changed = ConfigResource(
            ResourceType.TOPIC,
            "orders",
            incremental_configs=[
                ConfigEntry("segment.ms", "70000", incremental_operation=AlterConfigOpType.SET)
            ],
        )
        altered = admin.incremental_alter_configs([changed])[changed]
        altered.result(30)

        def options() -> dict[str, ConfigEntry]:
            described = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "orders")])
            [entries] = [each.result(30) for each in described.values()]
            return entries

        eventually(lambda: options()["segment.ms"].value == "70000")
        assert OPTION not in options()
    with live_broker(data, setting) as bootstrap:
        assert read(bootstrap, "orders") == [valid, b"unchecked"]
        assert outcome(bootstrap, "orders", b"x") == KafkaError.INVALID_RECORD
