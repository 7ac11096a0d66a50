"""JSON schemas made to take time, memory or stack end with an error or in bounded time."""

from __future__ import annotations

import contextlib
import json
import time

import pytest

from wirekafka.schemas.json.document import MAX_DEPTH, MAX_NODES
from wirekafka.schemas.json.schema import parse
from wirekafka.schemas.schema import SchemaError, ValueMismatch

NEWEST = "https://json-schema.org/draft/2020-12/schema"
BOUND_S = 20
"""Each case takes less than 3 s on an idle machine; a case without its bound takes minutes."""


@pytest.fixture(autouse=True)
def bounded_time():
    start = time.process_time()
    yield
    assert time.process_time() - start < BOUND_S


def nested(levels: int, keyword: str = "items") -> str:
    return f'{{"{keyword}":' * levels + "{}" + "}" * levels


def doubling(operator: str, leaf: dict, levels: int = 60) -> str:
    """Each definition refers to the next twice."""
    definitions = {str(level): two_of(operator, level) for level in range(levels)}
    definitions[str(levels)] = leaf
    return json.dumps({"$ref": "#/definitions/0", "definitions": definitions})


def two_of(operator: str, level: int) -> dict:
    following = {"$ref": f"#/definitions/{level + 1}"}
    if operator == "properties":
        return {"type": "object", "properties": {"a": following, "b": following}}
    return {operator: [following, dict(following)]}


@pytest.mark.parametrize("keyword", ["items", "not", "default"])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 100_000])
def test_deep_schemas_are_refused(keyword, levels):
    with pytest.raises(SchemaError, match="nested"):
        parse(nested(levels, keyword))


def test_schemas_of_usual_depth_are_accepted():
    for levels in (60, MAX_DEPTH - 2):
        assert parse(nested(levels)).canonical
        assert parse(f'{{"$schema":"{NEWEST}","not":{nested(levels)}}}').canonical


def test_huge_schemas_are_refused():
    with pytest.raises(SchemaError, match="values"):
        parse(json.dumps({"enum": list(range(MAX_NODES))}))


@pytest.mark.parametrize("operator", ["allOf", "anyOf", "oneOf", "properties"])
def test_references_that_double_are_compared_once(operator):
    older, same = parse(doubling(operator, {"type": "integer"})), {"type": "number"}
    newer = parse(doubling(operator, same))
    try:
        assert older.incompatibilities(older) == []
        assert newer.incompatibilities(older) == []
        assert 0 < len(older.incompatibilities(newer)) <= 1_000
    except SchemaError as error:
        assert "too complex" in str(error)


@pytest.mark.long
@pytest.mark.parametrize("operator", ["allOf", "anyOf", "oneOf"])
def test_references_that_double_end_the_check_of_a_value(operator):
    schema = parse(doubling(operator, {"type": "integer"}))
    with pytest.raises(ValueMismatch):
        schema.encoded("a")


def test_a_schema_that_refers_to_itself_without_an_end_ends_the_check_of_a_value():
    schema = parse('{"allOf": [{"$ref": "#"}]}')
    assert schema.incompatibilities(parse('{"allOf": [{"$ref": "#"}]}')) == []
    with pytest.raises(ValueMismatch):
        schema.encoded(1)


@pytest.mark.long
def test_a_long_chain_of_references_is_followed_without_recursion():
    definitions = {
        str(level): {"type": "object", "properties": {"a": {"$ref": f"#/definitions/{level + 1}"}}}
        for level in range(1_000)
    }
    text = json.dumps({"$ref": "#/definitions/0", "definitions": definitions | {"1000": {}}})
    assert parse(text).incompatibilities(parse(text)) == []
    chain = {str(level): {"$ref": f"#/definitions/{level + 1}"} for level in range(3_000)}
    text = json.dumps({"$ref": "#/definitions/0", "definitions": chain | {"3000": {}}})
    assert parse(text).incompatibilities(parse("{}")) == []


@pytest.mark.long
def test_unions_nested_by_references_are_refused_or_compared():
    definitions = {
        str(level): {"anyOf": [{"$ref": f"#/definitions/{level + 1}"}, {"type": "null"}]}
        for level in range(300)
    }
    for depth in (10, 300):
        kept = {name: each for name, each in definitions.items() if int(name) < depth}
        text = json.dumps({"$ref": "#/definitions/0", "definitions": kept | {str(depth): {}}})
        older, newer = parse(text), parse(text.replace("null", "boolean"))
        try:
            newer.incompatibilities(older)
        except SchemaError as error:
            assert "too complex" in str(error) and depth > 10


@pytest.mark.long
def test_large_unions_are_matched_or_refused():
    parts = [{"type": "string", "maxLength": length} for length in range(100)]
    older = parse(json.dumps({"anyOf": parts}))
    assert older.incompatibilities(parse(json.dumps({"anyOf": parts[::-1]}))) == []
    larger = parse(json.dumps({"anyOf": [{"const": each} for each in range(300)]}))
    with pytest.raises(SchemaError, match="too complex"):
        larger.incompatibilities(parse(larger.canonical))


def test_expressions_that_backtrack_take_linear_time():
    for dialect in ("http://json-schema.org/draft-07/schema#", NEWEST):
        inner = {"$schema": dialect, "pattern": "^(a+)+$", "uniqueItems": True}
        schema = parse(json.dumps({"properties": {"x": inner}}))
        with pytest.raises(ValueMismatch):
            schema.encoded({"x": "a" * 50_000 + "!"})
        names = {
            "$schema": NEWEST,
            "patternProperties": {"^(a+)+$": {}},
            "unevaluatedProperties": False,
        }
        with pytest.raises(ValueMismatch):
            parse(json.dumps(names)).encoded({"a" * 50_000 + "!": 1})


@pytest.mark.long
def test_many_patterns_take_bounded_time():
    patterns = {f"^(a{number}|b){{0,900}}\\pL*$": {} for number in range(500)}
    older = parse(json.dumps({"type": "object", "patternProperties": patterns}))
    properties = {f"a{number}": {"type": "string"} for number in range(500)}
    newer = {"type": "object", "patternProperties": patterns, "properties": properties}
    with pytest.raises(SchemaError, match="too complex"):
        parse(json.dumps(newer)).incompatibilities(older)


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-04/schema#", NEWEST])
def test_items_without_an_order_are_compared_in_linear_time(draft):
    mixed = [each for number in range(10_000) for each in (number, str(number), [number])]
    schema = parse(json.dumps({"$schema": draft, "enum": mixed}))
    unique = parse(json.dumps({"$schema": draft, "uniqueItems": True}))
    unique.encoded(mixed)
    assert schema.incompatibilities(schema) == []


@pytest.mark.parametrize("number", ["1e999999999", "1" * 4_000, "1e-999999999"])
def test_extreme_numbers_are_compared(number):
    text = f'{{"type": "number", "multipleOf": {number}, "maximum": {number}}}'
    try:
        extreme = parse(text)
    except SchemaError:
        return
    extreme.incompatibilities(parse('{"type": "number", "multipleOf": 3, "maximum": 0.1}'))
    with contextlib.suppress(ValueMismatch):
        extreme.encoded(7.5)


def test_a_number_with_too_many_digits_is_refused():
    with pytest.raises(SchemaError):
        parse('{"maximum": ' + "1" * 10_000 + "}")
