"""Values of every type that a table has columns for, as Confluent's serializers write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

from tests.schemas.protoc import compiled

START = datetime(2013, 1, 1, 5, 17, 0, 123456, UTC)
COUNT = 40
"""How many values there are of each format: every third leaves out what is optional."""

AVRO_TYPES: dict[str, Any] = {
    "yes": "boolean",
    "i": "int",
    "l": "long",
    "f": "float",
    "d": "double",
    "octets": "bytes",
    "text": "string",
    "four": {"type": "fixed", "name": "Four", "size": 4},
    "color": {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]},
    "numbers": {"type": "array", "items": "int"},
    "points": {
        "type": "array",
        "items": {
            "type": "record",
            "name": "Point",
            "fields": [{"name": "x", "type": "double"}, {"name": "y", "type": ["null", "double"]}],
        },
    },
    "counts": {"type": "map", "values": "long"},
    "home": "Point",
    "maybe": ["null", "string"],
    "either": ["null", "string", "long"],
    "day": {"type": "int", "logicalType": "date"},
    "at_ms": {"type": "long", "logicalType": "timestamp-millis"},
    "at_us": {"type": "long", "logicalType": "timestamp-micros"},
    "local": {"type": "long", "logicalType": "local-timestamp-micros"},
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "cents": {
        "type": "fixed",
        "name": "Eight",
        "size": 8,
        "logicalType": "decimal",
        "precision": 18,
        "scale": 4,
    },
    "id": {"type": "string", "logicalType": "uuid"},
    "clock": {"type": "int", "logicalType": "time-millis"},
    "watch": {"type": "long", "logicalType": "time-micros"},
}
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Everything",
        "fields": [{"name": name, "type": type} for name, type in AVRO_TYPES.items()],
    }
)

PROTOBUF = """
syntax = "proto3";
package compat;
import "google/protobuf/timestamp.proto";
enum Color { RED = 0; GREEN = 1; }
message Point { double x = 1; optional double y = 2; }
message Everything {
  bool yes = 1; int32 i = 2; int64 l = 3; uint32 u = 4; uint64 large = 5; float f = 6; double d = 7;
  bytes octets = 8; string text = 9; Color color = 10; repeated int32 numbers = 11;
  repeated Point points = 12; map<string, int64> counts = 13; Point home = 14;
  optional string maybe = 15; oneof either { string word = 16; int64 number = 17; }
  google.protobuf.Timestamp at = 18; sint64 signed = 19; fixed64 fixed = 20;
}
"""

JSON_SCHEMA = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Everything",
        "type": "object",
        "properties": {
            "yes": {"type": "boolean"},
            "l": {"type": "integer"},
            "d": {"type": "number"},
            "text": {"type": "string"},
            "maybe": {"type": "string"},
            "numbers": {"type": "array", "items": {"type": "integer"}},
            "points": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
                },
            },
            "home": {"type": "object", "properties": {"x": {"type": "number"}}},
            "day": {"type": "string", "format": "date"},
            "at": {"type": "string", "format": "date-time"},
        },
    }
)


@dataclass(frozen=True, slots=True)
class Format:
    """A schema format: its serializer, and the values as the columns of a table have them."""

    serialized: Callable[[SchemaRegistryClient, str], Iterator[bytes]]
    columns: Callable[[], list[dict[str, Any]]]


def avro_columns() -> list[dict[str, Any]]:
    """The values of `AVRO` as a table has them, but times as what Avro encodes."""
    return [_avro(number) for number in range(COUNT)]


def _avro(number: int) -> dict[str, Any]:
    has_all = number % 3 > 0
    at = START + timedelta(hours=number // 8, microseconds=number)
    return {
        "yes": bool(number % 2),
        "i": number - 2**31,
        "l": 2**63 - 1 - number,
        "f": number / 4,
        "d": number / 3,
        "octets": bytes([number, 0, 255]),
        "text": f"täxt {number}",
        "four": bytes([number] * 4),
        "color": ("RED", "GREEN")[number % 2],
        "numbers": list(range(number % 4)),
        "points": [{"x": 1.5, "y": None}, {"x": 2.5, "y": 3.5}] if has_all else [],
        "counts": {"a": number, "b": -number} if has_all else {},
        "home": {"x": 0.5, "y": 1.0 if has_all else None},
        "maybe": f"m{number}" if has_all else None,
        "either": (None, f"s{number}", number)[number % 3],
        "day": date(2013, 1, 1) + timedelta(days=number),
        "at_ms": at.replace(microsecond=at.microsecond // 1000 * 1000),
        "at_us": at,
        "local": at.replace(tzinfo=None),
        "price": Decimal(number * 101) / 100 - 7,
        "cents": Decimal(number) / 10_000,
        "id": str(UUID(int=number + (1 << 100))),
        "clock": 86_399_999 - number,
        "watch": 86_399_999_999 - number,
    }


def avro_values(registry: SchemaRegistryClient, topic: str) -> Iterator[bytes]:
    """The values of `AVRO`, serialized for a topic."""
    serializer = AvroSerializer(registry, AVRO)
    midnight = datetime(2013, 1, 1)
    for row in avro_columns():
        clock = (midnight + timedelta(milliseconds=row["clock"])).time()
        watch = (midnight + timedelta(microseconds=row["watch"])).time()
        value = serializer({**row, "clock": clock, "watch": watch}, _place(topic))
        assert value is not None
        yield value


def protobuf_class() -> Any:
    """The class of the message of `PROTOBUF`."""
    file = compiled(PROTOBUF)
    assert file is not None
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("compat.Everything"))


def protobuf_columns() -> list[dict[str, Any]]:
    """The values of `PROTOBUF` as a table has them."""
    return [_protobuf(number) for number in range(COUNT)]


def _protobuf(number: int) -> dict[str, Any]:
    has_all = number % 3 > 0
    return {
        "yes": bool(number % 2),
        "i": number - 2**31,
        "l": number - 2**63,
        "u": 2**32 - 1 - number,
        "large": str(2**64 - 1 - number),
        "f": number / 4,
        "d": number / 3,
        "octets": bytes([number, 0, 255]),
        "text": f"täxt {number}",
        "color": ("RED", "GREEN")[number % 2],
        "numbers": list(range(number % 4)),
        "points": [{"x": 1.5, "y": None}, {"x": 2.5, "y": 3.5}] if has_all else [],
        "counts": {"a": number, "b": -number} if has_all else {},
        "home": {"x": 0.5, "y": 1.0} if has_all else None,
        "maybe": f"m{number}" if has_all else None,
        "word": f"w{number}" if number % 3 == 1 else None,
        "number": number if number % 3 == 2 else None,
        "at": START + timedelta(hours=number) if has_all else None,
        "signed": -number,
        "fixed": str(2**64 - 1 - number),
    }


def protobuf_values(registry: SchemaRegistryClient, topic: str) -> Iterator[bytes]:
    """The values of `PROTOBUF`, serialized for a topic."""
    message_class = protobuf_class()
    serializer = ProtobufSerializer(message_class, registry, {"use.deprecated.format": False})
    for row in protobuf_columns():
        given = {name: value for name, value in row.items() if value is not None}
        given |= {name: int(given[name]) for name in ("large", "fixed")}
        at = given.pop("at", None)
        message = message_class(**given)
        if at is not None:
            message.at.FromDatetime(at)
        value = serializer(message, _place(topic))
        assert value is not None
        yield value


def json_columns() -> list[dict[str, Any]]:
    """The values of `JSON_SCHEMA` as a table has them."""
    return [_json(number) for number in range(COUNT)]


def _json(number: int) -> dict[str, Any]:
    has_all = number % 3 > 0
    return {
        "yes": bool(number % 2),
        "l": 2**53 - number,
        "d": number / 3,
        "text": f"täxt {number}",
        "maybe": f"m{number}" if has_all else None,
        "numbers": list(range(number % 4)),
        "points": [{"x": 1.5, "y": None}, {"x": 2.5, "y": 3.5}] if has_all else [],
        "home": {"x": 0.5} if has_all else None,
        "day": date(2013, 1, 1) + timedelta(days=number),
        "at": START + timedelta(hours=number) if has_all else None,
    }


def json_values(registry: SchemaRegistryClient, topic: str) -> Iterator[bytes]:
    """The values of `JSON_SCHEMA`, serialized for a topic."""
    serializer = JSONSerializer(JSON_SCHEMA, registry)
    for row in json_columns():
        value = serializer(_without_nulls(row), _place(topic))
        assert value is not None
        yield value


def _without_nulls(value: Any) -> Any:
    match value:
        case dict():
            return {name: _without_nulls(each) for name, each in value.items() if each is not None}
        case list():
            return [_without_nulls(each) for each in value]
        case date():
            return value.isoformat()
    return value


def _place(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


FORMATS = {
    "avro": Format(avro_values, avro_columns),
    "protobuf": Format(protobuf_values, protobuf_columns),
    "json": Format(json_values, json_columns),
}
