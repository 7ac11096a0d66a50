"""Rules by which an Avro schema reads data of another, and the messages of Confluent's registry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wirekafka.schemas.avro.schema import parse

Json = Any


def record(*fields: Json, name: str = "R", **more: Json) -> Json:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, type: Json, **more: Json) -> Json:
    return {"name": name, "type": type, **more}


def enum(*symbols: str, name: str = "E", **more: Json) -> Json:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def messages(reader: Json, writer: Json) -> list[str]:
    return list(parse(json.dumps(reader)).incompatibilities(parse(json.dumps(writer))))


def kinds(reader: Json, writer: Json) -> list[str]:
    return [message.split("'")[1] for message in messages(reader, writer)]


_A = field("a", "string")


@pytest.mark.parametrize(
    ("reader", "writer", "message"),
    [
        (
            record(_A, field("b", "string")),
            record(_A),
            "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path "
            "'/fields/1' in the {reader} schema has no default value and is missing in the "
            "{writer} schema', additionalInfo:'b'}",
        ),
        (
            record(_A, name="New"),
            record(_A, name="n.Old"),
            "{errorType:'NAME_MISMATCH', description:'The name of the schema has changed "
            "(path '/name')', additionalInfo:'expected: n.Old'}",
        ),
        (
            record(field("f", {"type": "fixed", "name": "F", "size": 4})),
            record(field("f", {"type": "fixed", "name": "F", "size": 8})),
            "{errorType:'FIXED_SIZE_MISMATCH', description:'The size of FIXED type field at path "
            "'/fields/0/type/size' in the {reader} schema does not match with the {writer} "
            "schema', additionalInfo:'expected: 8, found: 4'}",
        ),
        (
            record(_A, field("e", enum("A"))),
            record(_A, field("e", enum("C", "A", "B"))),
            "{errorType:'MISSING_ENUM_SYMBOLS', description:'The {reader} schema is missing enum "
            "symbols '[B, C]' at path '/fields/1/type/symbols' in the {writer} schema', "
            "additionalInfo:'[B, C]'}",
        ),
        (
            record(_A, field("b", "int")),
            record(_A, field("b", "string")),
            "{errorType:'TYPE_MISMATCH', description:'The type (path '/fields/1/type') of a field "
            "in the {reader} schema does not match with the {writer} schema', "
            "additionalInfo:'reader type: INT not compatible with writer type: STRING'}",
        ),
        (
            record(_A, field("b", ["null", "int"])),
            record(_A, field("b", ["null", "int", "string"])),
            "{errorType:'MISSING_UNION_BRANCH', description:'The {reader} schema is missing a "
            "type inside a union field at path '/fields/1/type/2' in the {writer} schema', "
            "additionalInfo:'reader union lacking writer type: STRING'}",
        ),
    ],
    ids=lambda value: value.split("'")[1] if isinstance(value, str) else "",
)
def test_messages_are_those_of_confluents_registry(
    reader: Json, writer: Json, message: str
) -> None:
    assert messages(reader, writer) == [message]


@pytest.mark.parametrize(
    ("reader", "writers"),
    [
        ("null", ()),
        ("boolean", ()),
        ("int", ()),
        ("long", ("int",)),
        ("float", ("int", "long")),
        ("double", ("int", "long", "float")),
        ("bytes", ("string",)),
        ("string", ("bytes",)),
    ],
)
def test_a_primitive_type_is_read_as_wider_types_only(
    reader: str, writers: tuple[str, ...]
) -> None:
    words = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
    assert {word for word in words if not kinds(reader, word)} == {reader, *writers}


def test_a_field_with_a_default_may_be_added_and_any_field_may_be_removed() -> None:
    assert kinds(record(_A, field("b", "int", default=0)), record(_A)) == []
    assert kinds(record(), record(_A)) == []


def test_aliases_of_the_reader_rename_types_and_fields() -> None:
    assert kinds(record(name="New", aliases=["R"]), record()) == []
    assert kinds(record(), record(name="New", aliases=["R"])) == ["NAME_MISMATCH"]
    assert kinds(record(field("b", "string", aliases=["a"])), record(_A)) == []


def test_namespaces_do_not_count_for_names() -> None:
    assert kinds(record(namespace="a"), record(namespace="b")) == []


def test_an_enum_with_a_default_reads_symbols_that_it_lacks() -> None:
    assert kinds(enum("A", default="A"), enum("A", "B")) == []


def test_a_union_reads_each_of_its_types_and_is_read_if_all_of_its_types_are() -> None:
    assert kinds(["null", "long"], "int") == []
    assert kinds("long", ["int", "long"]) == []
    assert kinds("long", ["int", "string"]) == ["TYPE_MISMATCH"]
    assert kinds(["null", "long"], "string") == ["MISSING_UNION_BRANCH"]


def test_types_that_contain_themselves_are_compared_once() -> None:
    def tree(**more: Json) -> Json:
        return record(field("left", ["null", "R"]), field("right", ["null", "R"]), more)

    assert kinds(tree(**field("v", "long")), tree(**field("v", "int"))) == []
    assert kinds(tree(**field("v", "int")), tree(**field("v", "long"))) == ["TYPE_MISMATCH"]


def test_many_large_types_of_one_union_are_compared_in_seconds() -> None:
    events = [
        record(*[field(f"f{number}", ["null", "string"]) for number in range(20)], name=f"E{event}")
        for event in range(50)
    ]
    assert kinds(events, events) == []
    assert kinds(events[1:], events) == ["MISSING_UNION_BRANCH"]


def test_reasons_that_repeat_at_each_level_are_not_multiplied_for_ever() -> None:
    def levels(type: str) -> Json:
        last = record(field("v", type), name="L0")
        pairs = (
            record(field("a", f"L{level}"), field("b", f"L{level}"), name=f"L{level + 1}")
            for level in range(60)
        )
        return record(field("types", ["null", last, *pairs]), field("value", "L60"))

    found = kinds(levels("int"), levels("string"))
    assert 1 < len(found) <= 1000
