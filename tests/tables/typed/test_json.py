"""JSON values as typed columns: each type, what does not fit, and schemas without a table."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from resource import RUSAGE_SELF, getrusage
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirekafka.schemas.json.schema import parse
from wirekafka.schemas.schema import Dependency
from wirekafka.tables.typed import assembly, json_plan
from wirekafka.tables.typed.formats import typed_values
from wirekafka.tables.typed.values import DecodedValues, TypedValues, UnsupportedSchema

DRAFTS = (
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)
STRING, INTEGER = {"type": "string"}, {"type": "integer"}
INSTANT = pa.timestamp("us", tz="UTC")
SCALARS: list[tuple[Any, pa.DataType, Any, Any]] = [
    ({"type": "string"}, pa.string(), "é\n", "é\n"),
    ({"type": "integer"}, pa.int64(), -(1 << 63), -(1 << 63)),
    ({"type": "integer"}, pa.int64(), 2e3, 2000),
    ({"type": "number"}, pa.float64(), 1.5, 1.5),
    ({"type": "number"}, pa.float64(), (1 << 60) + 1, float(1 << 60)),
    ({"type": "number"}, pa.float64(), None, None),
    ({"type": "boolean"}, pa.bool_(), True, True),
    ({"type": "string", "format": "uuid"}, pa.string(), "x", "x"),
    ({"type": "string", "format": "date"}, pa.date32(), "2024-02-29", date(2024, 2, 29)),
    (
        {"type": "string", "format": "date-time"},
        INSTANT,
        "2024-02-29T23:59:59.123456Z",
        datetime(2024, 2, 29, 23, 59, 59, 123456, UTC),
    ),
    (
        {"type": "string", "format": "date-time"},
        INSTANT,
        "1969-12-31t23:00:00.1234567891-01:30",
        datetime(1970, 1, 1, 0, 30, 0, 123456, UTC),
    ),
    ({"type": "string", "format": "time"}, pa.string(), "01:02:03.5Z", "01:02:03.5Z"),
    ({"type": ["null", "string"]}, pa.string(), "x", "x"),
    ({"type": ["integer", "number", "null"]}, pa.float64(), 1, 1.0),
    ({"enum": ["a", "b", None]}, pa.string(), "b", "b"),
    ({"enum": [1, 2]}, pa.int64(), 2, 2),
    ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, pa.int64(), 5, 5),
    ({"oneOf": [{"type": "string", "format": "date"}, {"type": "null"}]}, pa.date32(), None, None),
    ({"anyOf": [{"type": "string", "format": "email"}, {"enum": ["x"]}]}, pa.string(), "x", "x"),
    ({"allOf": [{"type": "string"}, {"minLength": 1}]}, pa.string(), "x", "x"),
    ({"allOf": [{"type": "string"}], "format": "date"}, pa.date32(), None, None),
]


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def values_of(schema: Any, **dependencies: Any) -> TypedValues:
    named = [Dependency(name, json.dumps(each)) for name, each in dependencies.items()]
    return typed_values(parse(json.dumps(schema), named))


def decoded(schema: Any, *values: Any) -> DecodedValues:
    payloads = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in values]
    found = values_of(schema).decode(payloads)
    found.rows.validate(full=True)
    assert len(found.rows) == len(values)
    assert found.rows.is_null().to_pylist() == [i in found.failures for i in range(len(values))]
    return found


def row(schema: Any, value: Any) -> Any:
    found = decoded(schema, value)
    assert found.failures == {}
    return found.rows[0].as_py()


@pytest.mark.parametrize(("schema", "type", "value", "expected"), SCALARS)
def test_each_scalar_type_has_its_column(
    schema: Any, type: pa.DataType, value: Any, expected: Any
) -> None:
    assert values_of(of(x=schema)).type == pa.struct([("x", type)])
    assert row(of(x=schema), {"x": value}) == {"x": expected}
    # Beside an unusual value, the usual ones are the same.
    found = decoded(of(x=schema), {"x": value}, {"x": {}}, {"x": value})
    assert [each.as_py() for each in found.rows] == [{"x": expected}, None, {"x": expected}]


@pytest.mark.parametrize("draft", DRAFTS)
def test_nested_types_have_columns_in_each_draft(draft: str) -> None:
    schema = {
        "$schema": draft,
        **of(
            line=of(name={"type": "string"}, tags={"type": "array", "items": {"type": "integer"}}),
            lines={"type": "array", "items": of(name={"type": "string"})},
            counts={"type": "object", "additionalProperties": {"type": "integer"}},
            matrix={"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        ),
    }
    assert values_of(schema).type == pa.struct(
        [
            (
                "line",
                pa.struct(
                    [("name", pa.string()), ("tags", pa.list_(pa.field("element", pa.int64())))]
                ),
            ),
            ("lines", pa.list_(pa.field("element", pa.struct([("name", pa.string())])))),
            ("counts", pa.map_(pa.string(), pa.int64())),
            ("matrix", pa.list_(pa.field("element", pa.list_(pa.field("element", pa.float64()))))),
        ]
    )
    value = {
        "line": {"name": "a", "tags": [1, None]},
        "lines": [{"name": "b"}, None, {}],
        "counts": {"z": 1, "a": None},
        "matrix": [[1.5], [], None],
    }
    expected = {
        **value,
        "counts": [("z", 1), ("a", None)],
        "lines": [{"name": "b"}, None, {"name": None}],
    }
    assert row(schema, value) == expected
    assert row(schema, {}) == dict.fromkeys(value)
    assert row(schema, dict.fromkeys(value)) == dict.fromkeys(value)


def test_properties_are_optional_and_in_the_order_of_the_schema() -> None:
    schema = {**of(z={"type": "integer"}, a={"type": "string"}), "required": ["z"]}
    assert values_of(schema).type.names == ["z", "a"]
    assert all(each.nullable for each in values_of(schema).type)
    assert row(schema, {}) == {"z": None, "a": None}


def test_properties_that_the_schema_does_not_name_are_dropped() -> None:
    for others in (True, False, {}):
        schema = {**of(x={"type": "integer"}), "additionalProperties": others}
        assert row(schema, {"x": 1, "y": [{"z": "\ud800"}]}) == {"x": 1}


@pytest.mark.parametrize(
    ("schema", "type", "value", "expected"),
    [
        ({"type": "array", "items": {"type": "string"}}, pa.list_(pa.string()), ["a"], ["a"]),
        ({"type": "integer"}, pa.int64(), 5, 5),
        ({"type": "integer"}, pa.int64(), None, None),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            pa.map_(pa.string(), pa.int64()),
            {"a": 1},
            [("a", 1)],
        ),
    ],
)
def test_value_that_is_no_struct_is_the_column_root(
    schema: Any, type: pa.DataType, value: Any, expected: Any
) -> None:
    assert values_of(schema).type.field("root").type.equals(type)
    assert row(schema, value) == {"root": expected}


def test_references_are_followed_if_they_do_not_recur() -> None:
    schema = {
        **of(
            one={"$ref": "#/definitions/line"},
            two={"type": "array", "items": {"$ref": "#/definitions/line"}},
            three={"$ref": "other.json#/definitions/day"},
            four={"$ref": "#/properties/one", "description": "the same"},
        ),
        "definitions": {
            "line": of(name={"$ref": "#/definitions/name"}),
            "name": {"type": "string"},
        },
    }
    other = {"definitions": {"day": {"type": "string", "format": "date"}}}
    line = pa.struct([("name", pa.string())])
    assert values_of(schema, **{"other.json": other}).type == pa.struct(
        [
            ("one", line),
            ("two", pa.list_(pa.field("element", line))),
            ("three", pa.date32()),
            ("four", line),
        ]
    )


def test_references_are_relative_to_the_schema_that_has_them() -> None:
    line = {"$id": "line.json", **of(n={"$ref": "#/$defs/name"}), "$defs": {"name": STRING}}
    schema = {
        "$schema": DRAFTS[-1],
        "$id": "http://example.com/root.json",
        **of(a={"$ref": "line.json"}, b={"$ref": "#/$defs/name"}),
        "$defs": {"line": line, "name": INTEGER},
    }
    expected = pa.struct([("a", pa.struct([("n", pa.string())])), ("b", pa.int64())])
    assert values_of(schema).type == expected


def test_parts_of_all_of_are_one_object() -> None:
    base = of(id={"type": "integer"}, kind={"type": "string"})
    schema = {
        "$schema": DRAFTS[-1],
        "$ref": "#/$defs/base",
        **of(kind={"const": "x"}, name={"type": "string"}),
        "allOf": [of(more={"type": "boolean"}), {"required": ["name"]}],
        "unevaluatedProperties": False,
        "$defs": {"base": base},
    }
    assert values_of(schema).type == pa.struct(
        [("id", pa.int64()), ("kind", pa.string()), ("more", pa.bool_()), ("name", pa.string())]
    )


def test_keywords_that_only_allow_or_forbid_values_change_no_column() -> None:
    schema = {
        **of(x={"type": "integer", "minimum": 0, "not": {"const": 3}}, y={"type": "string"}),
        "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
        "if": {"properties": {"x": {"const": 1}}},
        "then": {"properties": {"y": {"minLength": 2}}, "required": ["y"]},
        "dependencies": {"x": ["y"]},
        "minProperties": 1,
    }
    assert values_of(schema).type == pa.struct([("x", pa.int64()), ("y", pa.string())])


@pytest.mark.parametrize("draft", DRAFTS)
def test_tuple_of_equal_types_is_a_list(draft: str) -> None:
    first, rest = ("prefixItems", "items") if "2020" in draft else ("items", "additionalItems")
    schema = {"type": "array", first: [{"type": "string"}] * 2, rest: {"type": "string"}}
    found = values_of({"$schema": draft, **of(x=schema)})
    assert found.type == pa.struct([("x", pa.list_(pa.field("element", pa.string())))])
    schema[rest] = {"type": "integer"}
    with pytest.raises(UnsupportedSchema, match="several types: string, int64"):
        values_of({"$schema": draft, **of(x=schema)})


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (True, "# allows any value"),
        (of(x=True), "#/properties/x allows any value"),
        (of(x=False), "#/properties/x allows no value"),
        (of(x={}), "#/properties/x has no type"),
        (of(x={"format": "date"}), "#/properties/x has no type"),
        (of(x={"type": "null"}), "#/properties/x allows only null"),
        (
            of(x={"type": ["string", "integer", "null"]}),
            "#/properties/x has values of several types: integer, string",
        ),
        (of(x={"enum": ["a", 1]}), "#/properties/x has values of several types: integer, string"),
        (
            of(x={"oneOf": [STRING, INTEGER]}),
            "#/properties/x has values of several types: string, int64",
        ),
        (
            of(x={"anyOf": [of(a=STRING), of(b=STRING)]}),
            "#/properties/x has values of several types: struct<a: string>, struct<b: string>",
        ),
        (of(x={"anyOf": [STRING, {}]}), "#/properties/x/anyOf/1 has no type"),
        (
            of(x={**of(a=STRING), "anyOf": [of(b=STRING)]}),
            "#/properties/x has anyOf beside another type",
        ),
        (of(x={"allOf": [STRING, INTEGER]}), "#/properties/x has several types: integer, string"),
        (
            {"allOf": [of(a=STRING), of(a=INTEGER)]},
            "#/allOf/0/properties/a has values of several types: string, int64",
        ),
        (of(x={"type": "object"}), "#/properties/x has no properties"),
        (of(x={"type": "array"}), "#/properties/x has no type of its items"),
        (of(x={"type": "array", "items": True}), "#/properties/x has no type of its items"),
        (
            of(x={"type": "array", "items": of(y={})}),
            "#/properties/x/items/properties/y has no type",
        ),
        (of(x={"patternProperties": {"^a": STRING}}), "#/properties/x has patternProperties"),
        (
            {**of(x=STRING), "additionalProperties": STRING},
            "# has additionalProperties beside properties",
        ),
        ({**of(x=STRING), "if": {}, "then": of(y=STRING)}, "# has then with types of its own"),
        (
            {**of(x=STRING), "dependencies": {"x": of(y=STRING)}},
            "# has dependencies with types of its own",
        ),
        (of(x={"$ref": "#"}), "# is recursive"),
        (of(x=of(y={"$ref": "#/properties/x"})), "#/properties/x is recursive"),
        (
            {
                **of(x={"$ref": "#/definitions/a~1b"}),
                "definitions": {
                    "a/b": of(y={"type": "array", "items": {"$ref": "#/definitions/a~1b"}})
                },
            },
            "#/definitions/a~1b is recursive",
        ),
        ({"allOf": [{"$ref": "#"}]}, "# is recursive"),
        ({"$schema": DRAFTS[-1], **of(x={"$dynamicRef": "#"})}, "#/properties/x has $dynamicRef"),
        ({**of(x=STRING), **of(**{"": STRING})}, "A property has an empty name: "),
        (of(**{"a.b": STRING, "a": of(b=STRING)}), "Two properties have the name a.b"),
        (of(redpanda=STRING), "The value has a field redpanda"),
    ],
)
def test_schemas_that_no_table_can_have_are_refused_with_the_place(
    schema: Any, reason: str
) -> None:
    with pytest.raises(UnsupportedSchema) as raised:
        values_of(schema)
    assert str(raised.value).startswith(reason)


def test_schemas_of_too_many_or_too_deep_columns_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assembly, "MAX_COLUMNS", 200)
    monkeypatch.setattr(json_plan, "_MAX_VISITS", 500)
    names = [f"n{i}" for i in range(30)]
    definitions: dict[str, Any] = {names[-1]: of(x=STRING)}
    for one, other in pairwise(names):
        inner = {"$ref": f"#/definitions/{other}"}
        definitions[one] = of(a=inner, b=inner)
    with pytest.raises(UnsupportedSchema, match="more than 200 columns"):
        values_of({"$ref": "#/definitions/n0", "definitions": definitions})
    for one, other in pairwise(names):
        definitions[one] = {"allOf": [{"$ref": f"#/definitions/{other}"}] * 2}
    with pytest.raises(UnsupportedSchema, match="too complex"):
        values_of({"$ref": "#/definitions/n0", "definitions": definitions})
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(assembly.MAX_DEPTH + 1):
        deep = of(x=deep)
    with pytest.raises(UnsupportedSchema, match=f"more than {assembly.MAX_DEPTH} levels"):
        values_of(deep)


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        (of(x=INTEGER), {"x": "5"}, 'x: "5" is no integer of 64 bits'),
        (of(x=INTEGER), {"x": True}, "x: true is no integer of 64 bits"),
        (of(x=INTEGER), {"x": 1.5}, "x: 1.5 is no integer of 64 bits"),
        (of(x=INTEGER), {"x": 1 << 63}, "x: 9223372036854775808 is no integer of 64 bits"),
        (of(x=INTEGER), {"x": 10**300}, "x: a number of many digits is no integer of 64 bits"),
        (of(x=INTEGER), b'{"x": 1e999}', "x: Infinity is no integer of 64 bits"),
        (of(x=STRING), {"x": 5}, "x: 5 is no string"),
        (of(x=STRING), {"x": {}}, "x: an object is no string"),
        (of(x=STRING), {"x": "\ud800"}, 'x: "\\ud800" is no text: it has half of a surrogate pair'),
        (of(x={"type": "number"}), {"x": "1"}, 'x: "1" is no number of 64 bits'),
        (of(x={"type": "number"}), {"x": False}, "x: false is no number of 64 bits"),
        (of(x={"type": "number"}), b'{"x": -1e999}', "x: -Infinity is no number of 64 bits"),
        (of(x={"type": "number"}), {"x": 10**400}, "x: a number of many digits is no number"),
        (of(x={"type": "boolean"}), {"x": 0}, "x: 0 is no boolean"),
        (of(x=of(y=INTEGER)), {"x": {"y": []}}, "x.y: an array is no integer"),
        (of(x=of(y=INTEGER)), {"x": 5}, "x: 5 is no object"),
        (of(x={"items": of(y=STRING)}), {"x": [{}, {"y": 1}]}, "x.y: 1 is no string"),
        (of(x={"items": STRING}), {"x": "ab"}, 'x: "ab" is no array'),
        (of(x={"additionalProperties": INTEGER}), {"x": {"k": "v"}}, 'x: "v" is no integer'),
        (of(x={"additionalProperties": INTEGER}), {"x": {"\ud800": 1}}, 'x: "\\ud800" is no text'),
        (of(x=STRING), None, "null is no object"),
        (of(x=STRING), [], "an array is no object"),
        (of(x=STRING), b"", "invalid JSON"),
        (of(x=STRING), b'{"x": NaN}', "invalid JSON"),
        (of(x=STRING), b'{"x": "a"} {}', "invalid JSON"),
        (of(x=STRING), b'{"x": "\xff"}', "invalid JSON"),
        (of(x=STRING), b"[" * 100_000, "the JSON text is nested too deeply"),
        (INTEGER, "x", '"x" is no integer of 64 bits'),
    ],
)
def test_value_that_does_not_fit_fails_with_its_path(schema: Any, value: Any, reason: str) -> None:
    good = {"x": None} if "properties" in schema else 5
    found = decoded(schema, good, value, good)
    assert list(found.failures) == [1]
    assert found.failures[1].startswith(reason)
    assert found.rows[2].as_py() == {next(iter(found.rows.type)).name: good if good == 5 else None}


@pytest.mark.parametrize(
    ("format", "texts"),
    [
        (
            "date-time",
            [
                *("2024-02-30T00:00:00Z", "2024-01-01", "2024-01-01T00:00:00", ""),
                *("2024-01-01T25:00:00Z", "2024-01-01T00:00Z", "2024-01-01T00:00:00+25:00"),
                *("0000-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00"),
                *("9999-12-31T23:59:59-01:00", "2024-01-01T00:00:00.Z", "20240101T000000Z"),
                *("2024-01-01 00:00:00Z", "٢٠٢٤-01-01T00:00:00Z", "2024-01-01T00:00:00Z\n"),
            ],
        ),
        ("date", ["2023-02-29", "0000-01-01", "20240101", "2024-1-1", "2024-01-01T00:00:00Z"]),
    ],
)
def test_text_that_is_no_moment_fails(format: str, texts: list[str]) -> None:
    schema = of(x={"type": "string", "format": format})
    assert set(decoded(schema, *({"x": each} for each in texts)).failures) == set(range(len(texts)))
    for text in texts:
        assert set(decoded(schema, {"x": text}, {"x": 5}).failures) == {0, 1}


def test_white_space_and_other_encodings_of_unicode_are_read() -> None:
    text = '{"x": "é"}'
    payloads = [f" \n{text}\t".encode(), text.encode("utf-16"), text.encode("utf-8-sig")]
    assert [each.as_py() for each in decoded(of(x=STRING), *payloads).rows] == [{"x": "é"}] * 3


def test_last_of_equal_names_counts() -> None:
    assert row(of(x=INTEGER), b'{"x": "a", "x": 1}') == {"x": 1}


def test_no_payloads_are_no_rows() -> None:
    assert len(decoded(of(x=INTEGER)).rows) == 0


def test_many_payloads_are_decoded_in_chunks_with_their_own_indexes() -> None:
    values: list[Any] = [{"x": i} for i in range(20_000)]
    values[9_000] = values[19_999] = {"x": "a"}
    found = decoded(of(x=INTEGER), *values)
    assert set(found.failures) == {9_000, 19_999}
    numbers = found.rows.field("x").to_pylist()
    assert [numbers[i] for i in (0, 8_999, 9_001, 19_998)] == [0, 8_999, 9_001, 19_998]


def test_payload_of_many_empty_objects_fails_in_bounded_memory() -> None:
    wide = of(**{f"f{i}": INTEGER for i in range(1000)})
    schema = of(many={"type": "array", "items": wide}, x=INTEGER)
    hostile = b'{"many": [' + b",".join([b"{}"] * 300_000) + b"]}"
    before = getrusage(RUSAGE_SELF).ru_maxrss
    found = decoded(schema, {"x": 1}, hostile, {"many": [{}] * 90})
    assert found.failures == {1: "many has too many elements for its size"}
    assert getrusage(RUSAGE_SELF).ru_maxrss - before < 256 << 10
    assert len(found.rows[2]["many"]) == 90


@settings(max_examples=100, deadline=None)
@given(payload=st.binary(max_size=30) | st.text(alphabet='{}[]":,x1e-.tfn \\u', max_size=12))
def test_any_payload_has_a_row_or_a_failure(payload: bytes | str) -> None:
    broken = payload.encode() if isinstance(payload, str) else payload
    schema = of(x=of(y=INTEGER), z={"type": "array", "items": STRING})
    found = decoded(schema, {"x": {"y": 1}}, broken, {"z": ["a"]})
    assert set(found.failures) <= {1}


MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(
    lambda moment: moment.replace(tzinfo=UTC)
)
LEAVES: list[tuple[Any, Any]] = [
    (STRING, st.text()),
    (INTEGER, st.integers(-(1 << 63), (1 << 63) - 1)),
    ({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False)),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "string", "format": "date-time"}, MOMENTS.map(datetime.isoformat)),
    ({"type": "string", "format": "date"}, st.dates().map(date.isoformat)),
]
NAMES = st.sampled_from(["a", "b", "é", "a b", "items"])


def _nested(inner: Any) -> Any:
    return st.one_of(
        inner.map(
            lambda pair: ({"type": "array", "items": pair[0]}, st.lists(pair[1], max_size=3))
        ),
        inner.map(
            lambda pair: (
                {"type": "object", "additionalProperties": pair[0]},
                st.dictionaries(st.text(), pair[1], max_size=3),
            )
        ),
        st.dictionaries(NAMES, inner, min_size=1, max_size=4).map(_object),
    )


def _object(pairs: dict[str, Any]) -> Any:
    optional = {name: pair[1] for name, pair in pairs.items()} | {"unknown": st.just([{}])}
    return of(**{name: pair[0] for name, pair in pairs.items()}), st.fixed_dictionaries(
        {}, optional=optional
    )


PAIRS = st.recursive(
    st.sampled_from(LEAVES).map(lambda pair: (pair[0], st.none() | pair[1])), _nested, max_leaves=8
)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_columns_have_the_values_of_the_json(data: st.DataObject) -> None:
    schema, strategy = data.draw(st.dictionaries(NAMES, PAIRS, min_size=1, max_size=4).map(_object))
    values = data.draw(st.lists(strategy, max_size=5))
    found = decoded(schema, *values)
    assert found.failures == {}
    assert found.rows.to_pylist() == [_expected(each, schema) for each in values]


def _expected(value: Any, schema: Any) -> Any:
    """The row of a value that its text has been read from."""
    if value is None:
        return None
    match schema:
        case {"properties": properties}:
            return {name: _expected(value.get(name), each) for name, each in properties.items()}
        case {"additionalProperties": inner}:
            return [(name, _expected(each, inner)) for name, each in value.items()]
        case {"items": inner}:
            return [_expected(each, inner) for each in value]
        case {"format": "date"}:
            return date.fromisoformat(value)
        case {"format": "date-time"}:
            return datetime.fromisoformat(value).astimezone(UTC) + timedelta()
    return json.loads(json.dumps(value))
