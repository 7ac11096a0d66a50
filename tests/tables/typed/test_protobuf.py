"""Protobuf messages as typed columns, compared with the library's own mapping to JSON."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, datetime, timedelta
from random import Random
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import json_format, message_factory, text_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schemas.protobuf_generator import source_of
from wirekafka.schemas.message_indexes import message_indexes
from wirekafka.schemas.protobuf.schema import ProtobufSchema, parse
from wirekafka.schemas.schema import Dependency, ValueMismatch
from wirekafka.tables.typed import assembly
from wirekafka.tables.typed.formats import typed_values
from wirekafka.tables.typed.protobuf import indexes_of
from wirekafka.tables.typed.values import UnsupportedSchema

Field = FieldDescriptor

SOURCE = """
syntax = "proto3";
package shop;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  double a_double = 1; float a_float = 2; int32 an_int32 = 3; int64 an_int64 = 4;
  uint32 a_uint32 = 5; uint64 a_uint64 = 6; sint32 a_sint32 = 7; sint64 a_sint64 = 8;
  fixed32 a_fixed32 = 9; fixed64 a_fixed64 = 10; sfixed32 an_sfixed32 = 11;
  sfixed64 an_sfixed64 = 12; bool a_bool = 13; string a_string = 14; bytes some_bytes = 15;
  Kind kind = 16; optional int32 maybe = 17; optional string maybe_text = 18;
  optional Kind maybe_kind = 19; Line line = 20; repeated Line lines = 21;
  repeated int32 numbers = 22; repeated string texts = 23; repeated Kind kinds = 24;
  repeated uint64 unsigned_numbers = 25; map<string, int64> counts = 26;
  map<int32, Line> lines_by_number = 27; map<bool, Kind> kinds_by_flag = 28;
  oneof choice { string left = 29; uint64 right = 30; Line middle = 31; }
  google.protobuf.Timestamp at = 32; repeated google.protobuf.Timestamp times = 33;
  map<string, google.protobuf.Timestamp> times_by_name = 34;
  google.protobuf.Struct more = 35; google.protobuf.Value anything = 36;
  google.protobuf.ListValue list = 37; google.protobuf.Int64Value boxed = 38;
  google.protobuf.Duration lasted = 39; repeated google.protobuf.Value values = 40;
  enum Kind { NONE = 0; SOME = 1; ALL = 2; }
  message Line { string name = 1; optional uint64 price = 2; repeated Tag tags = 3;
    message Tag { string key = 1; } }
}
message Other { int32 x = 1; }
"""
SCHEMA = parse(SOURCE)
TYPE = """
a_double: double
a_float: float
an_int32: int32
an_int64: int64
a_uint32: int64
a_uint64: string
a_sint32: int32
a_sint64: int64
a_fixed32: int64
a_fixed64: string
an_sfixed32: int32
an_sfixed64: int64
a_bool: bool
a_string: string
some_bytes: binary
kind: string
maybe: int32
maybe_text: string
maybe_kind: string
line: LINE
lines: list<element: LINE>
numbers: list<element: int32>
texts: list<element: string>
kinds: list<element: string>
unsigned_numbers: list<element: string>
counts: map<string, int64>
lines_by_number: map<int32, LINE>
kinds_by_flag: map<bool, string>
left: string
right: string
middle: LINE
at: timestamp[us, tz=UTC]
times: list<element: timestamp[us, tz=UTC]>
times_by_name: map<string, timestamp[us, tz=UTC]>
more: string
anything: string
list: string
boxed: struct<value: int64>
lasted: struct<seconds: int64, nanos: int32>
values: list<element: string>
""".strip().replace(
    "LINE", "struct<name: string, price: string, tags: list<element: struct<key: string>>>"
)


def test_each_type_has_its_column() -> None:
    columns = typed_values(SCHEMA).type
    assert [f"{each.name}: {each.type}" for each in columns] == TYPE.splitlines()
    assert all(each.nullable for each in columns)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 40), count=st.integers(1, 8))
def test_columns_have_the_values_of_the_librarys_mapping_to_json(seed: int, count: int) -> None:
    _check_against_json(SCHEMA, Random(seed), count)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_columns_of_generated_schemas_have_the_values_of_the_mapping(first: int) -> None:
    for seed in range(first, first + 20):
        schema = parse(source_of(seed))
        if schema.name() is None:
            continue
        try:
            typed_values(schema)
        except UnsupportedSchema:
            continue
        _check_against_json(schema, Random(seed), 5)


def test_absent_values_are_null_only_where_the_format_knows_of_presence() -> None:
    row = _row(SCHEMA, b"")
    assert (row["an_int32"], row["a_string"], row["kind"]) == (0, "", "NONE")
    assert (row["a_uint64"], row["some_bytes"], row["a_bool"]) == ("0", b"", False)
    assert (row["numbers"], row["counts"], row["lines"]) == ([], [], [])
    for name in ("maybe", "maybe_text", "maybe_kind", "line", "left", "right", "at", "more"):
        assert row[name] is None, name


def test_present_default_of_an_optional_field_is_a_value() -> None:
    row = _row(SCHEMA, _payload(SCHEMA, {"maybe": 0, "maybe_text": "", "left": "", "line": {}}))
    assert (row["maybe"], row["maybe_text"], row["left"]) == (0, "", "")
    assert row["line"] == {"name": "", "price": None, "tags": []}
    assert row["middle"] is None


def test_proto2_field_that_is_absent_has_its_declared_default_or_null() -> None:
    schema = parse("""
    syntax = "proto2";
    message M {
      optional int32 plain = 1; optional int32 five = 2 [default = 5]; required string needed = 3;
      optional Kind kind = 4 [default = B]; optional Kind other = 5; repeated int32 many = 6;
      enum Kind { A = 0; B = 1; }
    }""")
    expected = {"plain": None, "five": 5, "needed": None, "kind": "B", "other": None, "many": []}
    assert _row(schema, b"") == expected


def test_number_of_an_enum_without_a_name_is_its_text() -> None:
    payload = b"\x80\x01\x09" + b"\xc2\x01\x02\x01\x07"
    row = _row(SCHEMA, payload)
    assert (row["kind"], row["kinds"]) == ("9", ["SOME", "7"])


def test_unsigned_numbers_have_all_twenty_digits() -> None:
    largest = (1 << 64) - 1
    row = _row(SCHEMA, _payload(SCHEMA, {"a_uint64": largest, "unsigned_numbers": [0, largest]}))
    assert row["a_uint64"] == str(largest)
    assert row["unsigned_numbers"] == ["0", str(largest)]
    assert _row(SCHEMA, _payload(SCHEMA, {"a_uint32": (1 << 32) - 1}))["a_uint32"] == (1 << 32) - 1


def test_entries_of_a_map_are_sorted_by_key() -> None:
    counts = {f"key{number}": number for number in range(20)}
    row = _row(SCHEMA, _payload(SCHEMA, {"counts": counts}))
    assert row["counts"] == sorted(counts.items())


def test_dynamic_values_are_json_texts_with_sorted_names() -> None:
    values = {"more": {"b": [1, None, {"c": "é"}], "a": True}, "anything": "text", "list": []}
    row = _row(SCHEMA, _payload(SCHEMA, values))
    assert row["more"] == '{"a":true,"b":[1.0,null,{"c":"é"}]}'
    assert (row["anything"], row["list"]) == ('"text"', "[]")


def test_message_without_fields_has_no_column() -> None:
    schema = parse("""
    syntax = "proto3"; import "google/protobuf/empty.proto";
    message M { google.protobuf.Empty nothing = 1; int32 x = 2; map<string, Nothing> by_name = 3;
      message Nothing {} }
    message Marker {}""")
    assert typed_values(schema).type == pa.struct([("x", pa.int32())])
    marker = typed_values(schema, (1,)).decode([b"", b"\x08\x01", b"\xff"])
    assert marker.rows.is_valid().to_pylist() == [True, True, False]


def test_field_may_have_the_name_of_a_method_or_a_keyword() -> None:
    names = ("HasField", "DESCRIPTOR", "FromString", "from", "__class__", "ListFields")
    fields = "".join(f"optional int32 {name} = {i};" for i, name in enumerate(names, 1))
    schema = parse(f'syntax = "proto3"; message M {{ {fields} }}')
    payload = b"".join(bytes([i << 3, i]) for i in range(1, len(names)))
    expected = {**{name: i for i, name in enumerate(names, 1)}, names[-1]: None}
    assert _row(schema, payload) == expected


def test_messages_of_imported_files_have_columns() -> None:
    imported = 'syntax = "proto3"; package lib; message Line { int32 x = 1; }'
    source = 'syntax = "proto3"; import "line.proto"; message M { repeated lib.Line lines = 1; }'
    schema = parse(source, [Dependency("line.proto", imported)])
    assert _row(schema, b"\x0a\x02\x08\x05\x0a\x00") == {"lines": [{"x": 5}, {"x": 0}]}


def test_fields_that_the_schema_does_not_have_are_ignored() -> None:
    newer = parse('syntax = "proto3"; message M { int32 x = 1; string y = 2; M deeper = 3; }')
    payload = _payload(newer, {"x": 1, "y": "z", "deeper": {"x": 2}})
    assert _row(parse('syntax = "proto3"; message M { int32 x = 1; }'), payload) == {"x": 1}


def test_broken_payloads_fail_and_leave_the_rows_of_others() -> None:
    good = _payload(SCHEMA, {"an_int32": 7, "texts": ["a"]})
    payloads = [good, b"\xff", good[:-1], b"\x72\x01\xff", b"", good]
    decoded = typed_values(SCHEMA).decode(payloads)
    assert set(decoded.failures) == {1, 2, 3}
    assert all("shop.Order" in reason for reason in decoded.failures.values())
    assert decoded.rows.is_valid().to_pylist() == [True, False, False, False, True, True]
    assert [decoded.rows[i]["an_int32"].as_py() for i in (0, 4, 5)] == [7, 0, 7]
    decoded.rows.validate(full=True)


def test_values_that_no_column_can_have_fail_with_their_path() -> None:
    schema = parse("""
    syntax = "proto2"; import "google/protobuf/timestamp.proto";
    import "google/protobuf/struct.proto";
    message M { optional string text = 1; repeated Line lines = 2;
      optional google.protobuf.Value value = 3; map<string, string> names = 4;
      message Line { optional google.protobuf.Timestamp at = 1; } }""")
    late, odd = (_line(each) for each in ("seconds: 253402300800", "nanos: -1"))
    latest = _line("seconds: 253402300799 nanos: 999999999")
    not_a_number = b"\x1a\x09\x11" + np.float64("nan").tobytes()
    entries = b"\x22\x03\x0a\x01\xff" + b"\x22\x03\x0a\x01a" + b"\x22\x03\x12\x01\xff"
    decoded = typed_values(schema).decode(
        [b"\x0a\x01\xff", latest + late, odd, not_a_number, entries, latest]
    )
    assert {index: reason.split(" ")[0] for index, reason in decoded.failures.items()} == {
        0: "text",
        1: "lines.at",
        2: "lines.at",
        3: "value",
        4: "names",
    }
    assert decoded.rows[5].as_py()["lines"] == [
        {"at": datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)}
    ]
    assert decoded.rows.is_valid().to_pylist() == [False] * 5 + [True]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("message M { optional M next = 1; }", "next is recursive: M -> M"),
        (
            "message M { optional A a = 1; } message A { repeated B bs = 1; }"
            " message B { map<string, A> more = 1; }",
            "a.bs.more.value is recursive: A -> B -> A",
        ),
        ("message M { optional group G = 1 { optional int32 x = 1; } }", "g of M is a group"),
        (
            "message M { extensions 5 to 9; } extend M { optional int32 more = 5; }",
            "The message M has the extension more",
        ),
    ],
)
def test_schemas_that_no_table_can_have_are_named(source: str, reason: str) -> None:
    with pytest.raises(UnsupportedSchema) as raised:
        typed_values(parse(f'syntax = "proto2"; {source}'))
    assert str(raised.value) == reason


def test_schemas_with_too_many_or_too_deep_columns_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assembly, "MAX_COLUMNS", 200)
    wide = "".join(
        f"message M{i} {{ optional M{i + 1} a = 1; optional M{i + 1} b = 2; }}" for i in range(30)
    )
    with pytest.raises(UnsupportedSchema, match="more than 200 columns"):
        typed_values(parse(f'syntax = "proto2"; {wide} message M30 {{ optional int32 x = 1; }}'))
    depth = assembly.MAX_DEPTH
    deep = "".join(f"message M{i} {{ optional M{i + 1} a = 1; }}" for i in range(depth))
    end = f"message M{depth} {{ optional int32 x = 1; }}"
    with pytest.raises(UnsupportedSchema, match=f"more than {depth} levels"):
        typed_values(parse(f'syntax = "proto2"; {deep} {end}'))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1 << 40),
    changes=st.lists(st.tuples(st.integers(0, 999), st.integers(0, 255)), max_size=4),
)
def test_damaged_payload_has_a_row_if_the_library_reads_it(
    seed: int, changes: list[tuple[int, int]]
) -> None:
    message_class = _message_class(SCHEMA)
    message = message_class()
    _fill(message, Random(seed))
    payload = bytearray(message.SerializeToString())
    for position, byte in changes:
        if payload:
            payload[position % len(payload)] = byte
    decoded = typed_values(SCHEMA).decode([b"", bytes(payload), b"\x18\x05"])
    decoded.rows.validate(full=True)
    assert set(decoded.failures) <= {1}
    assert [each["an_int32"].as_py() for each in (decoded.rows[0], decoded.rows[2])] == [0, 5]
    try:
        message_class.FromString(bytes(payload))
    except DecodeError:
        assert 1 in decoded.failures
    else:  # A time may be out of range, and a number not be one.
        reason = decoded.failures.get(1, "")
        assert reason == "" or reason.endswith("out of range") or "no JSON" in reason


def test_indexes_name_a_message() -> None:
    assert indexes_of(SCHEMA, "shop.Order") == (0,)
    assert indexes_of(SCHEMA, "shop.Other") == (1,)
    tag = indexes_of(SCHEMA, "shop.Order.Line.Tag")
    assert typed_values(SCHEMA, tag).type == pa.struct([("key", pa.string())])
    with pytest.raises(UnsupportedSchema, match=r"no message shop\.Order\.Tag"):
        indexes_of(SCHEMA, "shop.Order.Tag")
    with pytest.raises(UnsupportedSchema, match=r"no message with the indexes \[9\]"):
        typed_values(SCHEMA, (9,))
    assert message_indexes(b"\x00rest") == ((0,), 1)
    assert message_indexes(b"\x04\x02\x06rest") == ((1, 3), 3)
    for broken in (b"", b"\x04\x02", b"\x03", b"\xff" * 11):
        with pytest.raises(ValueMismatch):
            message_indexes(broken)


def test_no_payloads_are_no_rows() -> None:
    decoded = typed_values(SCHEMA).decode([])
    assert (len(decoded.rows), decoded.rows.type) == (0, typed_values(SCHEMA).type)


def test_many_payloads_are_decoded_in_chunks_with_their_own_indexes() -> None:
    schema = parse('syntax = "proto3"; message M { int32 x = 1; }')
    payloads = [_payload(schema, {"x": i}) for i in range(20_000)]
    payloads[9_000] = payloads[19_999] = b"\xff"
    decoded = typed_values(schema).decode(payloads)
    assert set(decoded.failures) == {9_000, 19_999}
    values = decoded.rows.field("x").to_pylist()
    assert [values[i] for i in (0, 8_999, 9_001, 19_998)] == [0, 8_999, 9_001, 19_998]
    assert decoded.rows.null_count == 2


def _wide(fields: int) -> ProtobufSchema:
    declared = "".join(f"optional int64 f{i} = {i};" for i in range(1, fields + 1))
    return parse(
        f'syntax = "proto3"; message M {{ repeated Wide many = 1; int32 x = 2; Wide one = 3; }}'
        f" message Wide {{ {declared} }}"
    )


def test_payload_of_many_empty_messages_fails_before_the_library_reserves_memory() -> None:
    hostile = b"\x0a\x00" * 500_000
    before = getrusage(RUSAGE_SELF).ru_maxrss
    decoded = typed_values(_wide(1000)).decode([b"\x10\x01", hostile, b"\x0a\x00" * 90])
    assert decoded.failures == {1: "A message M with too many messages for its size"}
    assert getrusage(RUSAGE_SELF).ru_maxrss - before < 256 << 10
    assert decoded.rows[0].as_py() == {"many": [], "x": 1, "one": None}
    assert len(decoded.rows[2]["many"]) == 90


def test_payload_of_many_sparse_messages_fails_before_its_columns_take_memory() -> None:
    hostile = b"\x0a\x00" * 20_000
    decoded = typed_values(_wide(100)).decode([b"\x10\x01", hostile])
    assert decoded.failures == {1: "many has too many elements for its size"}
    assert decoded.rows[0].as_py() == {"many": [], "x": 1, "one": None}


def test_large_payload_of_usual_messages_has_all_of_them() -> None:
    schema = _wide(100)
    line = {f"f{i}": 1 << 40 for i in range(0, 40, 3) if i}
    decoded = typed_values(schema).decode([_payload(schema, {"many": [line]}) * 5_000])
    assert decoded.failures == {}
    assert len(decoded.rows[0]["many"]) == 5_000
    broken = b"\x0a\xff\xff\xff\xff\x0f" + b"\xff" * 100_000
    assert list(typed_values(schema).decode([broken]).failures) == [0]


def test_payload_of_messages_nested_without_end_fails() -> None:
    nested = b""
    for _ in range(2_000):
        nested = b"\x0b" + nested + b"\x0c"
    decoded = typed_values(parse('syntax = "proto3"; message M { int32 x = 2; }')).decode([nested])
    assert list(decoded.failures) == [0]


def _row(schema: ProtobufSchema, payload: bytes) -> dict[str, Any]:
    decoded = typed_values(schema).decode([payload])
    assert decoded.failures == {}
    decoded.rows.validate(full=True)
    row = decoded.rows[0].as_py()
    assert isinstance(row, dict)
    return row


def _line(timestamp: str) -> bytes:
    inner = text_format.Parse(timestamp, Timestamp()).SerializeToString()
    line = bytes([0x0A, len(inner)]) + inner
    return bytes([0x12, len(line)]) + line


def _payload(schema: ProtobufSchema, values: dict[str, Any]) -> bytes:
    return schema.encoded(values)[1:]


def _message_class(schema: ProtobufSchema) -> Any:
    first = next(iter(schema.file.descriptor.message_types_by_name.values()))
    return message_factory.GetMessageClass(first)


def _check_against_json(schema: ProtobufSchema, random: Random, count: int) -> None:
    message_class = _message_class(schema)
    descriptor = message_class.DESCRIPTOR
    messages = []
    for _ in range(count):
        message = message_class()
        _fill(message, random)
        messages.append(message)
    decoded = typed_values(schema).decode([each.SerializePartialToString() for each in messages])
    assert decoded.failures == {}
    decoded.rows.validate(full=True)
    for row, message in zip(
        decoded.rows.to_pylist(maps_as_pydicts="strict"), messages, strict=True
    ):
        expected = json_format.MessageToDict(
            message,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            descriptor_pool=schema.file.pool,
        )
        assert _json_of(row, descriptor) == _comparable(expected)


_NUMBERS = {
    Field.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    Field.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    Field.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    Field.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}
_FLOATS = (0.0, -0.0, 1.5, -2.25e10, math.inf, -math.inf, math.nan)


def _fill(message: Message, random: Random) -> None:
    for field in message.DESCRIPTOR.fields:
        if random.random() < 0.4:
            continue
        target = getattr(message, field.name)
        if field.label != Field.LABEL_REPEATED:
            _set(message, field, random)
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            value = field.message_type.fields_by_name["value"]
            for _ in range(random.randint(0, 3)):
                key = _scalar(field.message_type.fields_by_name["key"], random)
                if value.message_type is None:
                    target[key] = _scalar(value, random)
                else:
                    _fill_message(target[key], random)
        else:
            for _ in range(random.randint(0, 3)):
                if field.message_type is None:
                    target.append(_scalar(field, random))
                else:
                    _fill_message(target.add(), random)


def _set(message: Message, field: FieldDescriptor, random: Random) -> None:
    if field.message_type is None:
        setattr(message, field.name, _scalar(field, random))
        return
    inner = getattr(message, field.name)
    inner.SetInParent()
    _fill_message(inner, random)


def _fill_message(message: Any, random: Random) -> None:
    match message.DESCRIPTOR.full_name:
        case "google.protobuf.Timestamp":
            message.seconds = random.randint(-62_135_596_800, 253_402_300_799)
            message.nanos = random.randint(0, 999_999) * 1000
        case "google.protobuf.Duration":
            message.seconds = random.randint(0, 1000)
            message.nanos = random.choice((0, 5_000_000))
        case "google.protobuf.Struct":
            message.update({"x": random.random(), "y": [None, {"z": "é"}]})
        case "google.protobuf.Value":
            message.string_value = random.choice(("", "é", '"'))
        case "google.protobuf.ListValue":
            message.extend([True, None, 5])
        case _:
            _fill(message, random)


def _scalar(field: FieldDescriptor, random: Random) -> Any:
    if field.type == Field.TYPE_ENUM:
        return random.choice(list(field.enum_type.values_by_number))
    if field.type == Field.TYPE_BYTES:
        return random.randbytes(random.randint(0, 5))
    match field.cpp_type:
        case Field.CPPTYPE_BOOL:
            return random.random() < 0.5
        case Field.CPPTYPE_STRING:
            return "".join(random.choice("aé€😀\0") for _ in range(random.randint(0, 4)))
        case Field.CPPTYPE_FLOAT | Field.CPPTYPE_DOUBLE:
            return random.choice((*_FLOATS, random.uniform(-1e9, 1e9)))
    low, high = _NUMBERS[field.cpp_type]
    return random.choice((low, high, 0, 1, random.randint(low, high)))


def _json_of(row: dict[str, Any], descriptor: Descriptor) -> Any:
    """A row in the mapping to JSON."""
    found = {}
    for field in descriptor.fields:
        value = row.get(field.name)
        message = field.message_type
        if value is None:
            continue
        if message is not None and message.GetOptions().map_entry:
            inner = message.fields_by_name["value"]
            found[field.name] = {
                json.dumps(key) if isinstance(key, bool) else str(key): _json_value(each, inner)
                for key, each in value.items()
            }
        elif field.label == Field.LABEL_REPEATED:
            found[field.name] = [_json_value(each, field) for each in value]
        else:
            found[field.name] = _json_value(value, field)
    return found


def _json_value(value: Any, field: FieldDescriptor) -> Any:
    if field.message_type is not None:
        return _json_message(value, field.message_type)
    match field.cpp_type:
        case Field.CPPTYPE_INT64 | Field.CPPTYPE_UINT64:
            return str(value)
        case Field.CPPTYPE_FLOAT | Field.CPPTYPE_DOUBLE:
            return _comparable(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _json_message(value: Any, message: Descriptor) -> Any:
    match message.full_name:
        case "google.protobuf.Timestamp":
            return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        case "google.protobuf.Duration":
            return f"{value['seconds']}{'.005' if value['nanos'] else ''}s"
        case "google.protobuf.Struct" | "google.protobuf.Value" | "google.protobuf.ListValue":
            return _comparable(json.loads(value))
        case "google.protobuf.Int64Value":
            return str(value["value"])
    return _json_of(value, message)


def _comparable(value: Any) -> Any:
    """With floating-point numbers rounded to 32 bits, and times as microseconds."""
    match value:
        case dict():
            return {name: _comparable(each) for name, each in value.items()}
        case list():
            return [_comparable(each) for each in value]
        case float():
            return str(np.float32(value))
        case "NaN":
            return "nan"
        case "Infinity" | "-Infinity":
            return value.lower().removesuffix("inity")
        case str() if value.endswith("Z") and value[4:5] == "-":
            at = datetime.fromisoformat(value)
            return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return value
