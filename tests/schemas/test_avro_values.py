"""Values of Avro schemas: decoded to JSON, encoded from JSON, and payloads of strangers refused."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest

from wirekafka.schemas.avro.schema import AvroSchema, parse
from wirekafka.schemas.schema import ValueMismatch

Json = Any


def schema(json_schema: Json) -> AvroSchema:
    return parse(json.dumps(json_schema))


def record(*fields: Json, name: str = "R") -> Json:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, type: Json, **more: Json) -> Json:
    return {"name": name, "type": type, **more}


def logical(word: str, logical_type: str, /, **more: Json) -> Json:
    return {"type": word, "logicalType": logical_type, **more}


_DECIMAL = logical("bytes", "decimal", precision=9, scale=2)
_FIXED_DECIMAL = logical("fixed", "decimal", precision=9, scale=2, name="F", size=4)
_EMPTY = record(name="E")
_TREE = record(field("next", ["null", "R"]))


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("null", None),
        ("boolean", True),
        ("int", -(1 << 31)),
        ("long", (1 << 63) - 1),
        ("float", 1.5),
        ("double", 1e300),
        ("double", "NaN"),
        ("float", "-Infinity"),
        ("bytes", "\u00ff\u0000a"),
        ("string", "text \u2028 \U0001f600"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u0000\u00fe"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        ({"type": "array", "items": "int"}, [1, -1, 0]),
        ({"type": "array", "items": _EMPTY}, [{}, {}]),
        ({"type": "map", "values": ["null", "string"]}, {"a": None, "": "b"}),
        (["null", "string", "long"], 5),
        (["bytes", "string"], "text"),
        (["float", "int"], 7),
        (_TREE, {"next": {"next": {"next": None}}}),
        (logical("int", "date"), "2026-11-27"),
        (logical("int", "date"), 1 << 30),
        (logical("int", "time-millis"), "23:59:59.999"),
        (logical("long", "time-micros"), "00:00:00.000001"),
        (logical("long", "timestamp-millis"), "1969-12-31T23:59:59.999Z"),
        (logical("long", "timestamp-micros"), "2026-11-27T02:30:00.123456Z"),
        (logical("long", "timestamp-nanos"), "2026-11-27T02:30:00.123456789Z"),
        (logical("long", "local-timestamp-millis"), "2026-11-27T02:30:00.000"),
        (logical("long", "timestamp-millis"), (1 << 62)),
        (logical("string", "uuid"), "9e107d9d-372b-4b81-9c3b-000000000001"),
        (logical("fixed", "uuid", name="F", size=16), "9e107d9d-372b-4b81-9c3b-000000000001"),
        (_DECIMAL, "-1234567.89"),
        (_DECIMAL, "0.00"),
        (_FIXED_DECIMAL, "-0.01"),
        (logical("fixed", "duration", name="F", size=12), "P1M2DT3.004S"),
    ],
)
def test_a_value_is_decoded_as_it_was_encoded(type: Json, value: Json) -> None:
    found = schema(type)
    decoded = found.decoded(found.encoded(value))
    assert decoded == value
    assert isinstance(decoded, value.__class__)
    json.dumps(decoded, allow_nan=False)


def test_payloads_are_those_of_another_library() -> None:
    type = record(
        field("id", "long"),
        field("names", {"type": "array", "items": "string"}),
        field("more", {"type": "map", "values": "double"}),
        field("kind", ["null", {"type": "enum", "name": "K", "symbols": ["A", "B"]}]),
        field("at", logical("long", "timestamp-millis")),
        field("price", _DECIMAL),
    )
    value = {
        "id": -300,
        "names": ["a", "\u00e9"],
        "more": {"x": 1.5},
        "kind": "B",
        "at": "2026-11-27T02:30:00.000Z",
        "price": "12.30",
    }
    payload = schema(type).encoded(value)
    read: Any = fastavro.schemaless_reader(BytesIO(payload), fastavro.parse_schema(type))
    assert read["at"].isoformat() == "2026-11-27T02:30:00+00:00"
    assert str(read["price"]) == "12.30"
    assert {**read, "at": value["at"], "price": value["price"]} == value
    written = BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(type), read)
    assert schema(type).decoded(written.getvalue()) == value


def test_blocks_of_arrays_and_maps_may_come_with_their_sizes() -> None:
    assert schema({"type": "array", "items": "int"}).decoded(b"\x03\x04\x02\x04\x02\x06\x00") == [
        1,
        2,
        3,
    ]


def test_a_missing_field_has_its_default_and_plain_numbers_stand_for_logical_types() -> None:
    type = record(field("a", "int", default=7), field("at", logical("long", "timestamp-millis")))
    found = schema(type)
    assert found.encoded({"at": 0}) == b"\x0e\x00"
    assert found.encoded({"at": "1970-01-01T01:00:00+01:00"}) == b"\x0e\x00"
    assert schema(_DECIMAL).decoded(schema(_DECIMAL).encoded(1.5)) == "1.50"


def test_a_value_of_a_union_may_be_in_an_object_with_the_name_of_its_type() -> None:
    found = schema(["null", "string", {"type": "fixed", "name": "n.F", "size": 1}])
    assert found.encoded({"string": "a"}) == found.encoded("a") == b"\x02\x02a"
    assert found.encoded({"n.F": "a"}) == b"\x04a"


@pytest.mark.parametrize(
    ("type", "value", "reason"),
    [
        ("int", 1 << 31, "Expected int, found 2147483648"),
        ("int", True, "Expected int, found True"),
        ("string", "\ud800", r"Expected string, found '\ud800'"),
        ("float", 1e300, "Expected float, found 1e+300"),
        (["null", "int"], "x", "Expected one of null, int, found 'x'"),
        (record(field("a", "int")), {}, "a: The value is missing, and has no default"),
        (record(field("a", "int")), {"a": 1, "b": 2}, "Record R has no field b"),
        (
            record(field("a", ["null", record(field("b", "int"), name="S")])),
            {"a": {"b": "x"}},
            "a.b: Expected int, found 'x'",
        ),
        (_DECIMAL, "1.234", "Expected decimal, found '1.234'"),
        (logical("int", "date"), "27.11.2026", "Expected date, found '27.11.2026'"),
    ],
)
def test_a_value_that_the_schema_does_not_describe_is_refused(
    type: Json, value: Json, reason: str
) -> None:
    with pytest.raises(ValueMismatch) as refusal:
        schema(type).encoded(value)
    assert str(refusal.value) == reason


@pytest.mark.parametrize(
    ("type", "payload"),
    [
        ("int", b""),
        ("int", b"\x00\x00"),
        ("int", b"\xfe\xff\xff\xff\xff\x0f"),
        ("long", b"\xff" * 30 + b"\x01"),
        ("boolean", b"\x07"),
        ("string", b"\x08a"),
        ("string", b"\x02\xff"),
        ("bytes", b"\x01abc"),
        ("bytes", b"\xfe\xff\xff\xff\x0fabc"),
        (["null", "int"], b"\x03\x02"),
        (["null", "int"], b"\x07"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01"),
        ({"type": "fixed", "name": "F", "size": 4}, b"ab"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\x0f\x00"),
        ({"type": "array", "items": _EMPTY}, b"\xfe\xff\xff\xff\x0f\x00"),
        (_TREE, b"\x02" * 1_000_000 + b"\x00"),
    ],
)
def test_a_payload_that_is_no_value_of_the_schema_is_refused(type: Json, payload: bytes) -> None:
    with pytest.raises(ValueMismatch):
        schema(type).decoded(payload)


def test_records_without_bytes_cannot_multiply() -> None:
    types: list[Json] = ["null", record(field("a", "null"), name="L0")]
    for level in range(1, 30):
        fields = [field(f"f{number}", f"L{level - 1}") for number in range(10)]
        types.append(record(*fields, name=f"L{level}"))
    with pytest.raises(ValueMismatch, match="more values than bytes"):
        schema(types).decoded(bytes([2 * (len(types) - 1)]))


def test_defaults_within_defaults_cannot_multiply() -> None:
    types: list[Json] = ["null", record(field("a", "string", default="text"), name="L0")]
    for level in range(1, 30):
        fields = [field(f"f{number}", f"L{level - 1}", default={}) for number in range(10)]
        types.append(record(*fields, name=f"L{level}"))
    with pytest.raises(ValueMismatch, match="The default is larger"):
        schema(types).encoded({"L29": {}})
