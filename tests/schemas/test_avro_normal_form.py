"""The normal form of Avro schemas, as Confluent's Java classes write it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wirekafka.schemas.avro.schema import parse

Json = Any


def normal(schema: Json) -> Json:
    """The normal form, with the order of its attributes."""
    return json.loads(parse(json.dumps(schema)).normalized().canonical)


def texts(schema: Json) -> str:
    return parse(json.dumps(schema)).normalized().canonical


def record(*fields: Json, **more: Json) -> Json:
    return {"type": "record", "name": "R", **more, "fields": list(fields)}


def test_objects_in_properties_and_defaults_are_sorted() -> None:
    values = {"type": "map", "values": "int"}
    schema = record(
        {"name": "m", "type": values, "default": {"b": 1, "a": 2}}, p=[{"d": 1, "c": 2}]
    )
    assert texts(schema) == (
        '{"type":"record","name":"R","fields":[{"name":"m","type":{"type":"map","values":"int"},'
        '"default":{"a":2,"b":1}}],"p":[{"c":2,"d":1}]}'
    )


def test_types_without_a_namespace_take_that_of_their_surroundings() -> None:
    inner = {"type": "enum", "name": "E", "namespace": "a", "symbols": ["A"]}
    outer = {**record({"name": "y", "type": inner}, namespace=""), "name": "N"}
    assert texts(record({"name": "x", "type": outer}, namespace="a")) == (
        '{"type":"record","name":"R","namespace":"a","fields":[{"name":"x","type":{"type":"record",'
        '"name":"N","fields":[{"name":"y","type":{"type":"enum","name":"E","symbols":["A"]}}]}}]}'
    )


def test_aliases_are_sorted_by_their_full_names() -> None:
    schema = {"type": "enum", "name": "E", "namespace": "n", "symbols": ["B"]}
    assert normal({**schema, "aliases": ["z", "o.a", "b"]})["aliases"] == ["b", "z", "o.a"]


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"long","logicalType":"timestamp-millis","aa":1}',
        '{"type":"string","logicalType":"uuid","aa":1}',
        '{"type":"string","aa":1,"avro.java.string":"String","logicalType":"uuid"}',
        '{"type":"int","aa":1,"logicalType":"timestamp-millis"}',
        '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2,"aa":1}',
        '{"type":"bytes","logicalType":"decimal","precision":4,"aa":1,"scale":0}',
        '{"type":"bytes","aa":1,"logicalType":"decimal","precision":4,"scale":9}',
        '{"type":"fixed","name":"F","size":3,"aa":1,"logicalType":"decimal","precision":9}',
        '{"type":"fixed","name":"F","size":16,"logicalType":"uuid","aa":1}',
        '{"type":"record","name":"R","fields":[],"aa":1,"logicalType":"custom"}',
    ],
)
def test_valid_logical_types_come_before_other_properties(text: str) -> None:
    shuffled = dict(sorted(json.loads(text).items(), reverse=True))
    assert texts(shuffled) == text


@pytest.mark.parametrize(
    ("type", "given", "written"),
    [
        ("double", 5, "5.0"),
        ("double", 1099511627776, "1.099511627776E12"),
        ("float", 0, "0.0"),
        ("float", 16777217, "1.6777216E7"),
        ("float", "NaN", '"NaN"'),
        ("long", 5, "5"),
        (["double", "null"], -2, "-2.0"),
        ({"type": "array", "items": "double"}, [1, 2], "[1.0,2.0]"),
        ({"type": "map", "values": "float"}, {"x": 1}, '{"x":1.0}'),
    ],
)
def test_defaults_are_numbers_of_their_type(type: Json, given: Json, written: str) -> None:
    [text] = [
        texts(record({"name": "f", "type": type, "default": given})).rpartition('"default":')[2]
    ]
    assert text == written + "}]}"


def test_defaults_of_records_have_numbers_of_their_fields_types() -> None:
    inner = {**record({"name": "d", "type": "double"}, {"name": "i", "type": "int"}), "name": "S"}
    schema = record({"name": "r", "type": inner, "default": {"i": 1, "d": 1}})
    assert texts(schema).endswith('"default":{"d":1.0,"i":1}}]}')
