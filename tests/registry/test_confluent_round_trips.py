"""confluent-kafka's serializers and the commands: each reads what the other has written."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.registry.served_registry import Served, served_registry
from wirekafka import Broker
from wirekafka.cli.main import main

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
    }
)
JSON = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
        "required": ["id"],
    }
)
PROTOBUF = """syntax = "proto3";
package shop;

message Other {
  string text = 1;
}
message Order {
  int64 id = 1;
  string note = 2;
}
"""
VALUES = {
    "avro": {"id": 7, "note": "tea"},
    "json": {"id": 7, "note": "tea"},
    "protobuf": {"id": "7", "note": "tea"},
}
"""What `consume --decode` prints: JSON of Protobuf has integers of 64 bits as strings."""

each_format = pytest.mark.parametrize("format", VALUES)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with served_registry() as served:
        yield served


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(served: Served) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": served.url})


@pytest.fixture
def run(
    served: Served, broker: Broker, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> Callable[..., str]:
    """Run a command, which must succeed; returns what it printed."""
    monkeypatch.setenv("WIREKAFKA_BOOTSTRAP", broker.bootstrap_servers)
    monkeypatch.setenv("WIREKAFKA_SCHEMA_REGISTRY", served.url)

    def run(*words: str, given: str = "") -> str:
        source, sink = os.pipe()
        os.write(sink, given.encode())
        os.close(sink)
        with os.fdopen(source) as stdin, pytest.raises(SystemExit) as exit:
            monkeypatch.setattr(sys, "stdin", stdin)
            main(words)
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        assert exit.value.code in (0, None), captured.err.decode()
        printed: str = captured.out.decode()
        return printed

    return run


def order_class() -> Any:
    """The class of the message Order, as protoc would generate it."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in (
        ("Other", [("text", kinds.TYPE_STRING)]),
        ("Order", [("id", kinds.TYPE_INT64), ("note", kinds.TYPE_STRING)]),
    ):
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, 1):
            message.field.add(
                name=field, number=number, type=kind, label=kinds.LABEL_OPTIONAL, json_name=field
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def serializer(format: str, client: SchemaRegistryClient, **options: Any) -> Callable[..., bytes]:
    """confluent-kafka's serializer of orders, which registers their schema."""
    match format:
        case "avro":
            return AvroSerializer(client, AVRO, conf=options)
        case "json":
            return JSONSerializer(JSON, client, conf=options)
    order = order_class()
    serialize = ProtobufSerializer(order, client, {"use.deprecated.format": False, **options})
    return lambda value, context: serialize(order(id=7, note=value["note"]), context)


def read_by_confluent(format: str, client: SchemaRegistryClient, data: bytes, topic: str) -> Any:
    """The value as confluent-kafka's deserializer reads it."""
    context = SerializationContext(topic, MessageField.VALUE)
    match format:
        case "avro":
            return AvroDeserializer(client)(data, context)
        case "json":
            return JSONDeserializer(None, schema_registry_client=client)(data, context)
    deserialize = ProtobufDeserializer(order_class(), {"use.deprecated.format": False}, client)
    order = deserialize(data, context)
    return {"id": order.id, "note": order.note}


def produce(broker: Broker, topic: str, value: bytes, headers: Any = ()) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, value, headers=list(headers))
    producer.flush()


@each_format
def test_what_confluents_serializers_write_is_decoded(format, client, broker, run):
    topic = f"written-by-confluent-{format}"
    context = SerializationContext(topic, MessageField.VALUE)
    value = serializer(format, client)({"id": 7, "note": "tea"}, context)
    produce(broker, topic, value)
    printed = run("consume", topic, "-f", "beginning", "-e", "--decode")
    assert json.loads(printed) == VALUES[format]
    line = json.loads(run("consume", topic, "-f", "beginning", "-e", "--decode", "--json"))
    assert line["value_schema"]["type"] == format.upper()


@each_format
def test_the_schema_is_found_by_the_guid_of_a_header(format, client, broker, run):
    topic = f"headers-{format}"
    headers: list[tuple[str, bytes]] = []
    context = SerializationContext(topic, MessageField.VALUE, headers)
    options = {"schema.id.serializer": header_schema_id_serializer}
    value = serializer(format, client, **options)({"id": 7, "note": "tea"}, context)
    assert [name for name, _ in headers] == ["__value_schema_id"]
    produce(broker, topic, value, headers)
    printed = run("consume", topic, "-f", "beginning", "-e", "--decode")
    assert json.loads(printed) == VALUES[format]


@each_format
def test_what_the_command_writes_is_read_by_confluents_deserializers(
    format, client, broker, run, tmp_path: Path
):
    topic = f"written-by-command-{format}"
    if format == "protobuf":
        # The first message of a file is the type of its values.
        text = 'syntax = "proto3";\npackage shop;\nmessage Order {\n  int64 id = 1;\n'
        schema = text + "  string note = 2;\n}\n"
    else:
        schema = {"avro": AVRO, "json": JSON}[format]
    file = tmp_path / f"order{ {'avro': '.avsc', 'json': '.json', 'protobuf': '.proto'}[format] }"
    file.write_text(schema)
    run("produce", topic, "--schema", str(file), given='{"id": 7, "note": "tea"}\n')
    run("produce", topic, "--schema", f"{topic}-value", given='{"id": 8, "note": "tea"}\n')
    first, second = broker.records(topic)
    for id, record in ((7, first), (8, second)):
        found = read_by_confluent(format, client, record.value or b"", topic)
        assert found == {"id": id, "note": "tea"}


def test_a_schema_that_refers_to_another_is_decoded(client, broker, run):
    item = '{"type": "record", "name": "Item", "namespace": "shop", "fields": []}'
    client.register_schema("item", Schema(item, "AVRO"))
    basket = json.dumps(
        {
            "type": "record",
            "name": "Basket",
            "namespace": "shop",
            "fields": [{"name": "first", "type": "shop.Item"}, {"name": "count", "type": "int"}],
        }
    )
    schema = Schema(basket, "AVRO", [SchemaReference("shop.Item", "item", 1)])
    context = SerializationContext("baskets", MessageField.VALUE)
    value = AvroSerializer(client, schema)({"first": {}, "count": 3}, context)
    produce(broker, "baskets", value)
    printed = run("consume", "baskets", "-f", "beginning", "-e", "--decode")
    assert json.loads(printed) == {"first": {}, "count": 3}
