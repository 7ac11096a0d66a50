"""Avro's values in typed columns: each type, each failure, and the same values as fastavro's."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.repetitions import repetitions
from tests.tables.typed.avro_generated import AvroGenerator, damaged, is_column, zigzag
from wirekafka.schemas.avro.schema import parse
from wirekafka.schemas.schema import ValueMismatch
from wirekafka.tables.typed.avro import Avro
from wirekafka.tables.typed.avro_lanes import FEWEST_LANES
from wirekafka.tables.typed.avro_types import MOST_COLUMNS
from wirekafka.tables.typed.formats import typed_values
from wirekafka.tables.typed.values import UnsupportedSchema

SEEDS = repetitions("WIREKAFKA_AVRO_SEEDS", usual=25, thorough=1000)
Json = Any


def record(*fields: Json, name: str = "R") -> Json:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(type: Json, name: str = "f", **more: Json) -> Json:
    return {"name": name, "type": type, **more}


def values_of(schema: Json) -> Avro:
    values = typed_values(parse(json.dumps(schema)))
    assert isinstance(values, Avro)
    return values


def written(schema: Json, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def logical(type: str, logical: str, **more: Json) -> Json:
    return {"type": type, "logicalType": logical, **more}


FIXED = {"type": "fixed", "name": "X", "size": 4}
INSTANT = datetime(2013, 1, 1, 10, 0, 0, 123456, UTC)
MILLISECOND = INSTANT.replace(microsecond=123000)
UUID_1 = UUID("12345678-1234-5678-9abc-def012345678")
UNIX_NANOSECONDS = 1_700_000_000_123_456_789


@pytest.mark.parametrize(
    ("schema", "arrow", "value"),
    [
        ("boolean", pa.bool_(), True),
        ("int", pa.int32(), -(1 << 31)),
        ("long", pa.int64(), (1 << 63) - 1),
        ("float", pa.float32(), 1.5),
        ("double", pa.float64(), -1e300),
        ("bytes", pa.binary(), b"\xff\0"),
        ("string", pa.string(), "Zürich €"),
        (FIXED, pa.binary(4), b"abcd"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, pa.string(), "B"),
        (logical("int", "date"), pa.date32(), date(1969, 7, 20)),
        (logical("int", "time-millis"), pa.int32(), 86_399_999),
        (logical("long", "time-micros"), pa.int64(), 86_399_999_999),
        (logical("long", "timestamp-millis"), pa.timestamp("us", "UTC"), MILLISECOND),
        (logical("long", "timestamp-micros"), pa.timestamp("us", "UTC"), INSTANT),
        (logical("long", "timestamp-nanos"), pa.int64(), UNIX_NANOSECONDS),
        (
            logical("long", "local-timestamp-millis"),
            pa.timestamp("us"),
            MILLISECOND.replace(tzinfo=None),
        ),
        (
            logical("long", "local-timestamp-micros"),
            pa.timestamp("us"),
            INSTANT.replace(tzinfo=None),
        ),
        (logical("long", "local-timestamp-nanos"), pa.int64(), UNIX_NANOSECONDS),
        (
            logical("bytes", "decimal", precision=9, scale=2),
            pa.decimal128(9, 2),
            Decimal("-1234567.89"),
        ),
        (
            {**FIXED, "logicalType": "decimal", "precision": 5, "scale": 5},
            pa.decimal128(5, 5),
            Decimal("0.12345"),
        ),
        (logical("bytes", "decimal", precision=39), pa.binary(), b"\x01"),
        (logical("bytes", "decimal", precision=2, scale=3), pa.binary(), b"\x01"),
        (logical("string", "uuid"), pa.uuid(), UUID_1),
        (
            {"type": "fixed", "name": "X", "size": 12, "logicalType": "duration"},
            pa.binary(12),
            bytes(12),
        ),
        ({"type": "fixed", "name": "X", "size": 2000}, pa.binary(), bytes(2000)),
        ({"type": "array", "items": "int"}, pa.list_(pa.field("element", pa.int32())), [1, 2, 3]),
        (
            {"type": "array", "items": ["null", "string"]},
            pa.list_(pa.field("element", pa.string())),
            ["a", None],
        ),
        (
            record(field("int", "a"), field(["null", "int"], "b"), name="S"),
            pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.int32())]),
            {"a": 1, "b": None},
        ),
    ],
)
def test_each_type_has_its_column(schema: Json, arrow: pa.DataType, value: Any) -> None:
    values = values_of(record(field(schema)))
    assert values.type == pa.struct([pa.field("f", arrow)])
    payload = written(record(field(_plain(schema))), {"f": value})
    for count in (1, FEWEST_LANES):
        found = values.decode([payload] * count)
        assert not found.failures
        assert found.rows.to_pylist() == [{"f": value}] * count


def _plain(schema: Json) -> Json:
    """A schema that fastavro has no objection to, with the same encoding."""
    if not isinstance(schema, dict) or "logicalType" not in schema:
        return schema
    is_valid = schema.get("scale", 0) <= schema.get("precision", 1)
    return schema if is_valid and "nanos" not in schema["logicalType"] else schema["type"]


def test_optional_fields_are_nullable_whichever_branch_is_null() -> None:
    for branches in (["null", "long"], ["long", "null"]):
        schema = record(field(branches))
        values = values_of(schema)
        assert values.type == pa.struct([pa.field("f", pa.int64())])
        payloads = [written(schema, {"f": each}) for each in (7, None)] * FEWEST_LANES
        assert values.decode(payloads).rows.to_pylist() == [{"f": 7}, {"f": None}] * FEWEST_LANES


def test_other_unions_are_structs_with_a_field_for_each_branch_but_null() -> None:
    inner = record(field("int", "a"), name="ns.Inner")
    schema = record(field(["null", "int", inner, logical("string", "uuid")]))
    values = values_of(schema)
    a = pa.field("a", pa.int32())
    fields = [("int", pa.int32()), ("Inner", pa.struct([a])), ("string", pa.uuid())]
    assert values.type == pa.struct([pa.field("f", pa.struct(fields))])
    given = [None, 5, {"a": 1}, UUID_1]
    payloads = [written(schema, {"f": each}) for each in given] * FEWEST_LANES
    none = {"int": None, "Inner": None, "string": None}
    rows = [None, none | {"int": 5}, none | {"Inner": {"a": 1}}, none | {"string": UUID_1}]
    assert values.decode(payloads).rows.to_pylist() == [{"f": each} for each in rows] * FEWEST_LANES


def test_branches_of_one_name_in_two_namespaces_have_their_full_names() -> None:
    branches = [record(field("int"), name="a.X"), record(field("int"), name="b.X")]
    assert values_of(record(field(branches))).type.field("f").type.names == ["a.X", "b.X"]


def test_maps_have_the_last_value_of_a_key() -> None:
    schema = record(field({"type": "map", "values": "int"}))
    entries = [(b"a", 1), (b"b", 2), (b"a", 3)]
    pairs = b"".join(zigzag(len(key)) + key + zigzag(value) for key, value in entries)
    payload = zigzag(len(entries)) + pairs + zigzag(0)
    for count in (1, FEWEST_LANES):
        found = values_of(schema).decode([payload] * count)
        assert found.rows.to_pylist() == [{"f": [("a", 3), ("b", 2)]}] * count


def test_nulls_have_no_column() -> None:
    schema = record(field("null", "a"), field("int", "b"), field(record(name="Empty"), "c"))
    values = values_of(schema)
    assert values.type.names == ["b"]
    payload = written(schema, {"a": None, "b": 1, "c": {}})
    assert values.decode([payload] * FEWEST_LANES).rows.to_pylist() == [{"b": 1}] * FEWEST_LANES


def test_a_record_without_fields_is_a_row_without_columns() -> None:
    values = values_of(record())
    for count in (2, FEWEST_LANES):
        found = values.decode([b""] * (count - 1) + [b"x"])
        assert len(found.rows) == count
        assert found.failures == {count - 1: "1 bytes follow the value"}
        assert found.rows.null_count == 1


def test_values_that_are_no_records_have_the_column_root() -> None:
    values = values_of(["null", "string"])
    assert values.type == pa.struct([pa.field("root", pa.string())])
    payloads = [written(["null", "string"], each) for each in ("x", None)] * FEWEST_LANES
    rows = values.decode(payloads).rows.to_pylist()
    assert rows == [{"root": "x"}, {"root": None}] * FEWEST_LANES


def test_no_payloads_are_no_rows() -> None:
    values = values_of(record(field("int")))
    found = values.decode([])
    assert (len(found.rows), found.rows.type, found.failures) == (0, values.type, {})


NODE = record(field("int", "a"), field(["null", "ns.Node"], "next"), name="ns.Node")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (NODE, "Record ns.Node contains itself"),
        ({"type": "array", "items": NODE}, "Record ns.Node contains itself"),
        (record(field("int", "redpanda")), "The value has a field redpanda"),
        ("null", "always null"),
        (record(field({"type": "array", "items": "null"})), "Items of an array are always null"),
        (record(field({"type": "map", "values": "null"})), "Values of a map are always null"),
        (record(field({"type": "fixed", "name": "Z", "size": 0})), "Fixed Z has no bytes"),
    ],
)
def test_schemas_that_no_table_has_are_refused(schema: Json, reason: str) -> None:
    with pytest.raises(UnsupportedSchema, match=reason):
        values_of(schema)


def test_types_that_multiply_are_refused_before_they_take_memory() -> None:
    """Each record has the one below twice: 40 of them would be a trillion columns."""
    schema = record(field("int"), name="R0")
    for level in range(1, 40):
        fields = (field(schema, "a"), field(f"R{level - 1}", "b"))
        schema = record(*fields, name=f"R{level}")
    with pytest.raises(UnsupportedSchema, match=f"more than {MOST_COLUMNS} columns"):
        values_of(schema)


def test_aliases_lead_from_older_paths_to_new_ones() -> None:
    inner = record(field("int", "new", aliases=["old", "older"]), name="Inner")
    renamed = {**record(field("int", "b", aliases=["a"]), name="Now"), "aliases": ["Before"]}
    schema = record(
        field({"type": "array", "items": inner}, "l", aliases=["list"]),
        field({"type": "map", "values": ["null", "Inner"]}, "m"),
        field(["null", "int", renamed], "u"),
    )
    assert values_of(schema).renames == {
        ("list",): ("l",),
        ("l", "element", "old"): ("l", "element", "new"),
        ("l", "element", "older"): ("l", "element", "new"),
        ("m", "value", "old"): ("m", "value", "new"),
        ("m", "value", "older"): ("m", "value", "new"),
        ("u", "Before"): ("u", "Now"),
        ("u", "Now", "a"): ("u", "Now", "b"),
    }
    root = {"type": "array", "items": record(field("int", "b", aliases=["a"]))}
    assert values_of(root).renames == {("root", "element", "a"): ("root", "element", "b")}


@pytest.mark.parametrize(
    ("schema", "payload", "reason"),
    [
        ("int", b"", "f: The payload ends within a value"),
        ("int", b"\x80", "f: The payload ends within a value"),
        ("int", zigzag(5) + b"x", "1 bytes follow the value"),
        ("int", zigzag(1 << 31), "f: 2147483648 is out of the range of int32"),
        ("long", b"\xff" * 9 + b"\x02", "f: An integer has more than 64 bits"),
        ("long", b"\xff" * 10 + b"\x00", "f: An integer has more than 64 bits"),
        ("boolean", b"\x02", "f: A boolean is neither 0 nor 1: 2"),
        ("double", bytes(7), "f: The payload ends within a value"),
        ("string", zigzag(3) + b"ab", "f: The payload ends within a value"),
        ("string", zigzag((1 << 63) - 1) + b"ab", "f: The payload ends within a value"),
        ("string", zigzag(-1) + b"ab", "f: A length is negative: -1"),
        ("string", zigzag(2) + b"a\xff", "f: A string is not UTF-8: invalid start byte"),
        (FIXED, b"abc", "f: The payload ends within a value"),
        (["null", "int"], zigzag(2), "f: A union of 2 types has no type 2"),
        (["null", "int"], zigzag(-1), "f: A union of 2 types has no type -1"),
        (["int", "string"], zigzag(-1), "f: A union of 2 types has no type -1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, zigzag(1), "f: Enum E has no symbol 1"),
        (logical("string", "uuid"), zigzag(3) + b"abc", "f: No UUID: 'abc'"),
        (
            logical("long", "timestamp-millis"),
            zigzag(1 << 60),
            f"f: {1 << 60} is out of the range of timestamp[us, tz=UTC]",
        ),
        (
            logical("bytes", "decimal", precision=2),
            zigzag(1) + b"\x64",
            "f: A decimal has more than 2 digits",
        ),
        (
            {"type": "array", "items": "long"},
            zigzag((1 << 62) - 1),
            f"f: {(1 << 62) - 1} items cannot be in 0 bytes",
        ),
        (
            {"type": "array", "items": "double"},
            zigzag(2) + bytes(15),
            "f: The payload ends within a value",
        ),
        (
            {"type": "map", "values": "long"},
            zigzag(-(1 << 63)) + zigzag(0),
            f"f: {1 << 63} items cannot be in 0 bytes",
        ),
        (
            record(field({"type": "array", "items": "string"}, "a"), name="S"),
            zigzag(1) + zigzag(1) + b"\xff" + zigzag(0),
            "f.a: A string is not UTF-8: invalid start byte",
        ),
    ],
)
def test_a_payload_that_does_not_decode_disturbs_no_other(
    schema: Json, payload: bytes, reason: str
) -> None:
    generator = AvroGenerator(Random(1), is_moderate=True)
    json_schema = record(field(schema))
    for count in (1, 2 * FEWEST_LANES):
        around = [generator.payload(json_schema) for _ in range(count)]
        values = values_of(json_schema)
        found = values.decode([*around, payload, *around])
        found.rows.validate(full=True)
        assert found.failures == {count: reason}
        expected = values.decode(around).rows.to_pylist()
        assert found.rows.to_pylist() == [*expected, None, *expected]


def test_iceberg_tables_have_each_type(tmp_path: Path) -> None:
    inner = record(field("int", "a"), field(logical("string", "uuid"), "b"), name="Inner")
    types: list[Json] = [
        "boolean",
        "int",
        ["null", "string"],
        "bytes",
        FIXED,
        logical("string", "uuid"),
        logical("bytes", "decimal", precision=9, scale=2),
        logical("int", "date"),
        logical("long", "time-micros"),
        logical("long", "timestamp-millis"),
        logical("long", "local-timestamp-micros"),
        {"type": "array", "items": inner},
        {"type": "map", "values": ["null", "double"]},
        ["null", "int", "float", {**inner, "name": "Other"}],
    ]
    schema = record(*(field(each, f"f{index}") for index, each in enumerate(types)))
    generator = AvroGenerator(Random(1), is_moderate=True)
    values = values_of(schema)
    decoded = values.decode([generator.payload(schema) for _ in range(FEWEST_LANES)])
    rows = pa.Table.from_arrays(decoded.rows.flatten(), schema=pa.schema(values.type))
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("redpanda")
    table = catalog.create_table("redpanda.t", rows.schema)
    table.append(rows)
    assert table.scan().to_arrow().to_pylist() == rows.to_pylist()
    catalog.close()


def test_lists_of_any_length_are_decoded() -> None:
    schema = record(field({"type": "array", "items": "string"}), field("int", "after"))
    values = values_of(schema)
    lengths = [0, 1, 5000, 3] * FEWEST_LANES
    given = [{"f": ["é"] * length, "after": length} for length in [*lengths, 40_000]]
    found = values.decode([written(schema, each) for each in given])
    assert found.rows.to_pylist() == given


@pytest.mark.long
def test_generated_values_are_those_of_fastavro() -> None:
    for seed in range(SEEDS):
        generator = AvroGenerator(Random(seed), is_moderate=True)
        json_schema = generator.record()
        payloads = [generator.payload(json_schema) for _ in range(FEWEST_LANES + 8)]
        found = values_of(json_schema).decode(payloads)
        assert not found.failures, seed
        parsed = fastavro.parse_schema(json_schema)
        for payload, row in zip(payloads, found.rows.to_pylist(), strict=True):
            expected = fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)
            assert _as_fastavro(json_schema, row) == expected, seed


def _as_fastavro(schema: Json, value: Any) -> Any:
    """A value of a column as fastavro has it: unions are the value of their branch."""
    match schema:
        case list():
            return _as_branch(schema, value)
        case {"type": "record"}:
            fields = schema["fields"]
            row = value or {}
            return {
                each["name"]: _as_fastavro(each["type"], row.get(each["name"])) for each in fields
            }
        case {"type": "array"}:
            return [_as_fastavro(schema["items"], each) for each in value]
        case {"type": "map"}:
            return {key: _as_fastavro(schema["values"], each) for key, each in value}
        case {"logicalType": "time-millis"}:
            return (datetime.min + timedelta(milliseconds=value)).time()
        case {"logicalType": "time-micros"}:
            return (datetime.min + timedelta(microseconds=value)).time()
    return value


def _as_branch(branches: list[Json], value: Any) -> Any:
    others = [each for each in branches if each != "null"]
    if len(others) == 1 and len(branches) == 2:
        return None if value is None else _as_fastavro(others[0], value)
    for branch in others:
        name = branch if isinstance(branch, str) else branch.get("name", branch["type"])
        if value is not None and value.get(name) is not None:
            return _as_fastavro(branch, value[name])
    return None


@pytest.mark.long
def test_damaged_payloads_fail_where_the_registrys_decoder_fails() -> None:
    """And where a column has a narrower range than the text of a logical type."""
    for seed in range(SEEDS):
        random = Random(seed)
        generator = AvroGenerator(random)
        json_schema = generator.record(2)
        schema = parse(json.dumps(json_schema))
        if not is_column(json_schema):
            continue
        has_logical = "logicalType" in json.dumps(json_schema)
        payloads = [damaged(random, generator.payload(json_schema)) for _ in range(40)]
        failures = Avro(schema).decode(payloads).failures
        for index, payload in enumerate(payloads):
            try:
                schema.decoded(payload)
            except ValueMismatch:
                assert index in failures, seed
            else:
                assert index not in failures or has_logical, (seed, failures[index])
