"""Payloads of Protobuf: the indexes of their messages, and the messages as JSON."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from wirekafka.schemas.formats import parse as parse_format
from wirekafka.schemas.protobuf import imports as protobuf_imports
from wirekafka.schemas.protobuf.schema import ProtobufSchema, parse
from wirekafka.schemas.schema import Dependency, Format, SchemaError, ValueMismatch

SOURCE = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/any.proto";
message Order {
  string some_id = 1; int64 count = 2; bytes raw = 3; repeated string tags = 4;
  map<string, int32> by_name = 5; Kind kind = 6; optional int32 maybe = 7;
  google.protobuf.Timestamp at = 8; google.protobuf.Struct more = 9; Order next = 10;
  oneof choice { string left = 11; bool right = 12; } google.protobuf.Any any = 13;
  double d = 14;
  enum Kind { NONE = 0; SOME = 1; }
  message First { int32 x = 1; }
  message Second { int32 y = 1; message Deep { int32 z = 1; } }
}
message Other { string name = 1; }
"""
EMPTY = {
    "some_id": "",
    "count": "0",
    "raw": "",
    "tags": [],
    "by_name": {},
    "kind": "NONE",
    "d": 0.0,
}


def test_value_of_the_first_message_is_written_and_read() -> None:
    value = {
        "some_id": "x",
        "count": "-5",
        "raw": "AAE=",
        "tags": ["a", "b"],
        "kind": "SOME",
        "by_name": {"k": 1},
        "maybe": 0,
        "at": "2026-01-02T03:04:05Z",
        "d": "NaN",
        "more": {"a": [1.0, None, {}]},
        "next": {**EMPTY, "some_id": "y"},
        "right": False,
        "any": {"@type": "type.googleapis.com/shop.Other", "name": "z"},
    }
    schema = parse(SOURCE)
    payload = schema.encoded(value)
    assert payload[0] == 0
    assert schema.decoded(payload) == value
    assert schema.decoded(b"\x00") == EMPTY
    assert schema.name() == "shop.Order"


@pytest.mark.parametrize(
    "indexes, value",
    [
        (b"\x00", EMPTY),
        (b"\x02\x00", EMPTY),
        (b"\x02\x02", {"name": ""}),
        (b"\x04\x00\x02", {"x": 0}),
        (b"\x04\x00\x04", {"y": 0}),
        (b"\x06\x00\x04\x00", {"z": 0}),
        (b"\x04\x00\x00", {"x": 0}),
    ],
    ids=["none", "first", "second", "nested", "nested second", "deep", "not the entry of a map"],
)
def test_indexes_name_a_message(indexes: bytes, value: Any) -> None:
    assert parse(SOURCE).decoded(indexes) == value


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"\x80", b"\xff" * 20, b"\x01", b"\x04\x00", b"\x02\x04", b"\x04\x02\x00"),
        *(b"\x06\x00\x02\x00", b"\xfe\xff\x03", b"\x02\x01"),
        *(b"\x00\xff", b"\x00\x0a\x05ab", b"\x00\x0a\x01\xff", b"\x00" + b"\x52\x7f" * 500),
        b"\x00\x6a\x0e\x0a\x0ctype.of/none",
    ],
)
def test_payload_of_no_message_is_a_mismatch(payload: bytes) -> None:
    with pytest.raises(ValueMismatch):
        parse(SOURCE).decoded(payload)


@pytest.mark.parametrize(
    "value",
    [
        *(None, [], "x", 5, {"missing": 1}, {"count": "x"}, {"kind": "MISSING"}, {"raw": 5}),
        *({"count": 1 << 70}, {"at": "no time"}, {"left": "a", "right": True}),
    ],
)
def test_value_of_no_message_is_a_mismatch(value: Any) -> None:
    with pytest.raises(ValueMismatch):
        parse(SOURCE).encoded(value)


def test_deep_values_are_mismatches() -> None:
    value: dict[str, Any] = {}
    for _ in range(5000):
        value = {"next": value}
    with pytest.raises(ValueMismatch):
        parse(SOURCE).encoded(value)
    payload = b""
    for _ in range(5000):
        payload = b"\x52" + _varint(len(payload)) + payload
    with pytest.raises(ValueMismatch):
        parse(SOURCE).decoded(b"\x00" + payload)


def test_schema_without_messages_has_no_values() -> None:
    schema = parse('syntax = "proto3"; enum E { X = 0; }')
    assert schema.name() is None
    with pytest.raises(ValueMismatch):
        schema.decoded(b"\x00")
    with pytest.raises(ValueMismatch):
        schema.encoded({})


def test_messages_of_confluents_serializer_are_read_by_its_schema() -> None:
    """Its descriptors are the schema, and its indexes those of the descriptors."""
    pool = descriptor_pool.DescriptorPool()
    for name in ("timestamp", "struct", "any"):
        file = protobuf_imports.descriptor(f"google/protobuf/{name}.proto")
        pool.AddSerializedFile(file.SerializeToString())
    own = FileDescriptorProto.FromString(base64.b64decode(parse(SOURCE).serialized()))
    pool.AddSerializedFile(own.SerializeToString())
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order.Second.Deep"))
    client = SchemaRegistryClient.new_client({"url": "mock://registry"})
    settings = {
        "use.deprecated.format": False,
        "subject.name.strategy": topic_subject_name_strategy,
    }
    serializer = ProtobufSerializer(kind, client, settings)
    data = serializer(kind(z=7), _context())
    text = client.get_latest_version("topic-value").schema.schema_str
    assert parse(text).decoded(data[5:]) == {"z": 7}
    assert parse(parse(text).canonical).decoded(data[5:]) == {"z": 7}


def test_imports_of_registries_need_no_reference() -> None:
    """Google's well-known types, its common types, and what Confluent's serializers know."""
    schema = parse_format(
        Format.PROTOBUF,
        """
        syntax = "proto3";
        import "google/type/money.proto"; import "google/protobuf/wrappers.proto";
        import "confluent/meta.proto"; import "confluent/type/decimal.proto";
        message A {
          google.type.Money m = 1; google.protobuf.Int64Value v = 2;
          confluent.type.Decimal amount = 3 [(confluent.field_meta).params = {
            key: "precision" value: "8" }, (confluent.field_meta).tags = "PII"];
        }
        """,
    )
    assert isinstance(schema, ProtobufSchema)
    value = {"m": {"currency_code": "EUR", "units": "5", "nanos": 0}, "v": "7"}
    assert schema.decoded(schema.encoded(value)) == value
    assert '(confluent.field_meta).tags = "PII"' in schema.canonical


def test_references_are_imported_by_name_and_need_each_other() -> None:
    dependencies = [
        Dependency("c.proto", 'syntax = "proto3"; package c; message C { string x = 1; }'),
        Dependency(
            "b.proto",
            parse(
                'syntax = "proto3"; import public "c.proto"; message B { c.C c = 1; }',
                [Dependency("c.proto", 'syntax = "proto3"; package c; message C {}')],
            ).serialized(),
        ),
    ]
    text = 'syntax = "proto3"; import "b.proto"; message A { B b = 1; c.C c = 2; }'
    schema = parse(text, dependencies)
    assert schema.decoded(schema.encoded({"b": {"c": {"x": "y"}}})) == {"b": {"c": {"x": "y"}}}
    with pytest.raises(SchemaError, match=r"c\.C"):
        parse('syntax = "proto3"; import "b.proto"; message A { c.C c = 2; }', dependencies[1:])
    with pytest.raises(SchemaError, match=r'type: B \(the import "b.proto" is not found\)'):
        parse(text)


def test_import_that_nothing_is_of_may_be_missing() -> None:
    """As that of options, which readers of messages do not need."""
    text = (
        'syntax = "proto3";\n\nimport "buf/validate.proto";\n\nmessage A {\n  string a = 1 %s;\n}\n'
    )
    schema = parse(text % "[(buf.validate.field).string.min_len = 1]")
    assert "import" in schema.canonical and "import" in schema.normalized().canonical
    assert "(buf.validate.field).string.min_len = 1" in schema.normalized().canonical
    assert not FileDescriptorProto.FromString(base64.b64decode(schema.serialized())).dependency


def test_files_that_import_each_other_are_refused() -> None:
    texts = {"a.proto": 'import "b.proto";', "b.proto": 'import "a.proto";'}
    with pytest.raises(SchemaError, match=r"a\.proto -> b\.proto -> a\.proto"):
        parse('import "a.proto";', [Dependency(*each) for each in texts.items()])


def test_chain_of_many_imports_is_read() -> None:
    texts = [
        f'syntax = "proto3"; import "{index + 1}"; message M{index} {{}}' for index in range(60)
    ]
    dependencies = [Dependency(str(index), text) for index, text in enumerate(texts)]
    text = 'syntax = "proto3"; import "{}"; message A {{}}'
    assert parse(text.format(0), dependencies).name() == "A"
    more = [*dependencies, *(Dependency(f"m{n}", f'import "m{n + 1}";') for n in range(1000))]
    with pytest.raises(SchemaError, match="Too many files"):
        parse(text.format("m0"), more)


def _context() -> Any:
    return SerializationContext("topic", MessageField.VALUE)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])
