"""Topics that validate schemas, by the registry of `Broker(schema_registry=True)`."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.eventually import eventually
from wirekafka import Broker, Cluster

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
OTHER = {"type": "record", "name": "Other", "fields": []}
VALIDATED = {"confluent.value.schema.validation": "true"}
BY_RECORD = {
    **VALIDATED,
    "confluent.value.subject.name.strategy": (
        "io.confluent.kafka.serializers.subject.RecordNameStrategy"
    ),
}


def outcome(
    broker: Broker | Cluster, topic: str, value: bytes | None, user: str | None = None
) -> int:
    """Produce a record by a stock producer; the error code, 0 if the record is stored."""
    reports: list[KafkaError | None] = []
    producer = Producer({**broker.client_config(user=user), "message.timeout.ms": 20_000})
    producer.produce(topic, value=value, on_delivery=lambda error, _: reports.append(error))
    assert producer.flush(30) == 0
    [error] = reports
    return 0 if error is None else error.code()


def framed(id: int) -> bytes:
    return b"\0" + id.to_bytes(4, "big") + b"\2"


def test_a_topic_accepts_what_its_registry_has_for_it() -> None:
    with Broker(schema_registry=True) as broker:
        broker.create_topic("orders", config=VALIDATED)
        with SchemaRegistryClient({"url": broker.schema_registry_url}) as client:
            serializer = AvroSerializer(client, schema_str=json.dumps(ORDER))
            value = serializer({"id": 1}, SerializationContext("orders", MessageField.VALUE))
        foreign = framed(broker.schemas.register("elsewhere-value", OTHER))
        assert outcome(broker, "orders", value) == 0
        assert outcome(broker, "orders", None) == 0
        assert outcome(broker, "orders", foreign) == KafkaError.INVALID_RECORD
        assert outcome(broker, "orders", b"bare") == KafkaError.INVALID_RECORD
        broker.schemas.registry.request("PUT", "config/orders-value", {"compatibility": "NONE"})
        broker.schemas.register("orders-value", OTHER)
        eventually(lambda: outcome(broker, "orders", foreign) == 0)


def test_record_names_are_subjects_by_the_strategy_of_the_topic() -> None:
    with Broker(schema_registry=True) as broker:
        broker.create_topic("mixed", config=BY_RECORD)
        by_topic = framed(broker.schemas.register("mixed-value", OTHER))
        assert outcome(broker, "mixed", by_topic) == KafkaError.INVALID_RECORD
        assert outcome(broker, "mixed", framed(broker.schemas.register("Order", ORDER))) == 0


def test_a_reset_forgets_schemas_that_were_registered() -> None:
    with Broker(schema_registry=True) as broker:
        broker.create_topic("orders", config=VALIDATED)
        value = framed(broker.schemas.register("orders-value", ORDER))
        assert outcome(broker, "orders", value) == 0
        broker.reset()
        broker.create_topic("orders", config=VALIDATED)
        assert outcome(broker, "orders", value) == KafkaError.INVALID_RECORD


def test_a_broker_with_users_asks_as_the_user_of_its_registry() -> None:
    with Broker(schema_registry=True, users={"alice": "secret"}, tls=True) as broker:
        broker.create_topic("orders", config=VALIDATED)
        value = framed(broker.schemas.register("orders-value", ORDER))
        assert outcome(broker, "orders", value, user="alice") == 0
        assert outcome(broker, "orders", b"bare", user="alice") == KafkaError.INVALID_RECORD


def test_a_broker_in_a_child_process_validates_too() -> None:
    with Broker(schema_registry=True, process=True) as broker:
        broker.create_topic("orders", config=VALIDATED)
        value = framed(broker.schemas.register("orders-value", ORDER))
        assert outcome(broker, "orders", value) == 0
        assert outcome(broker, "orders", b"bare") == KafkaError.INVALID_RECORD


@pytest.mark.parametrize("configured", [True, False])
def test_without_a_registry_of_its_own_the_configured_one_is_asked(configured: bool) -> None:
    with Broker(schema_registry=True) as other:
        value = framed(other.schemas.register("orders-value", ORDER))
        settings = {"confluent.schema.registry.url": other.schema_registry_url}
        with Broker(config=settings if configured else {}) as broker:
            broker.create_topic("orders", config=VALIDATED)
            expected = 0 if configured else KafkaError.INVALID_CONFIG
            assert outcome(broker, "orders", value) == expected
