"""Parsing, canonical and normalized texts of Avro schemas, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.schemas.avro_pairs import pairs
from wirekafka.schemas import formats
from wirekafka.schemas.avro.schema import AvroSchema, parse, parse_stored
from wirekafka.schemas.schema import Dependency, Format, SchemaError

_SEED = 5


def test_the_format_avro_is_parsed_here() -> None:
    schema = formats.parse(Format.AVRO, '{"type": "string"}')
    assert (schema.format, schema.canonical, schema.name()) == (Format.AVRO, '"string"', None)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('{"type": "long", "doc": "dropped"}', '"long"'),
        ('{"type":"int","logicalType":"date"}', '{"type":"int","logicalType":"date"}'),
        (
            '{"fields":[{"type":"int","default":1,"name":"a","custom":2,"doc":"d"}],"name":"n.R",'
            '"x":1.0,"type":"record","aliases":["n.Q"],"doc":"of R"}',
            '{"type":"record","name":"R","namespace":"n","doc":"of R","fields":[{"name":"a",'
            '"type":"int","doc":"d","default":1,"custom":2}],"x":1.0,"aliases":["Q"]}',
        ),
        (
            '["null",{"type":"enum","name":"E","namespace":"n","symbols":["A"]},'
            '{"type":"record","name":"n.R","fields":[{"name":"e","type":"n.E"}]}]',
            '["null",{"type":"enum","name":"E","namespace":"n","symbols":["A"]},'
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"e","type":"E"}]}]',
        ),
    ],
)
def test_canonical_texts_have_the_order_of_javas_library(text: str, canonical: str) -> None:
    assert parse(text).canonical == canonical


@pytest.mark.parametrize(
    ("number", "written"),
    [
        ("1", "1"),
        ("1.50", "1.5"),
        ("-0.0", "-0.0"),
        ("0.001", "0.001"),
        ("1e-4", "1.0E-4"),
        ("9999999.0", "9999999.0"),
        ("10000000.0", "1.0E7"),
        ("123456789.5", "1.234567895E8"),
        ("1e21", "1.0E21"),
        ("5e-324", "4.9E-324"),
        ("1e400", '"Infinity"'),
        ("99999999999999999999", "99999999999999999999"),
    ],
)
def test_numbers_are_written_as_java_writes_them(number: str, written: str) -> None:
    assert parse(f'{{"type":"int","x":{number}}}').canonical == f'{{"type":"int","x":{written}}}'


def test_a_type_may_be_used_before_its_definition_and_is_written_where_it_is_used_first() -> None:
    use, definition = (
        '{"name":"a","type":"S"}',
        '{"name":"b","type":{"type":"fixed","name":"S","size":1}}',
    )
    schema = parse(f'{{"type":"record","name":"R","fields":[{use},{definition}]}}')
    assert schema.canonical == (
        '{"type":"record","name":"R","fields":'
        '[{"name":"a","type":{"type":"fixed","name":"S","size":1}},{"name":"b","type":"S"}]}'
    )
    assert schema.encoded({"a": "x", "b": "y"}) == b"xy"


def test_types_of_references_are_written_by_their_names() -> None:
    address = Dependency("n.Address", '{"type":"record","name":"n.Address","fields":[]}')
    order = '{"type":"record","name":"n.Order","fields":[{"name":"to","type":"Address"}]}'
    schema = parse(order, [address])
    assert schema.name() == "n.Order"
    assert schema.canonical == (
        '{"type":"record","name":"Order","namespace":"n","fields":[{"name":"to","type":"Address"}]}'
    )
    with pytest.raises(SchemaError, match=r"Undefined schema: n\.Address"):
        parse(order)


def test_normalized_texts_differ_in_meaning_only() -> None:
    texts = (
        '{"type":"record","name":"R","doc":"","z":1,"b":2,"aliases":["Q","P"],"fields":[]}',
        '{"type":"record","name":"R","b":2,"aliases":["P","Q"],"z":1,"fields":[]}',
    )
    first, second = (parse(text) for text in texts)
    assert first != second
    assert first.normalized() == second.normalized()
    assert first.normalized().canonical == (
        '{"type":"record","name":"R","fields":[],"b":2,"z":1,"aliases":["P","Q"]}'
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Cannot parse <null> schema"),
        ("string", "Expecting value: line 1 column 1 (char 0)"),
        ('{"type":"int","x":NaN}', "Non-standard token 'NaN'"),
        ('"foo"', "Undefined schema: foo"),
        ('{"type":"record","name":"R"}', 'Record has no fields: {"type":"record","name":"R"}'),
        ('{"type":"record","name":"a-b","fields":[]}', "Illegal character in: a-b"),
        ('{"type":"enum","name":"E","symbols":["A","A"]}', "Duplicate enum symbol: A"),
        ('["int","int"]', "Duplicate in union:int"),
        ('{"type":"array"}', 'Array has no items type: {"type":"array"}'),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}',
            'Invalid default for field a: "x" not a "int"',
        ),
    ],
)
def test_a_refusal_gives_the_reason(text: str, reason: str) -> None:
    with pytest.raises(SchemaError) as refusal:
        parse(text)
    assert str(refusal.value) == reason


def test_half_of_a_surrogate_pair_becomes_a_question_mark_in_texts_and_refusals() -> None:
    half, whole = "\\uD83D", "\\uD83D\\uDE00"
    text = f'{{"type":"int","x":"{half}","y":"{whole}","z":1e400}}'
    assert parse(text).canonical == '{"type":"int","x":"?","y":"\U0001f600","z":"Infinity"}'
    with pytest.raises(SchemaError, match=r"Undefined schema: \?"):
        parse(f'"{half}"')


def test_a_stored_schema_may_have_a_default_of_a_wrong_type() -> None:
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}'
    assert parse_stored(text).canonical == text
    assert formats.parse_stored(Format.AVRO, text).canonical == text
    dependency = Dependency("R", text)
    assert parse('{"type":"array","items":"R"}', [dependency]).canonical.endswith('"items":"R"}')


@pytest.mark.parametrize("depth", [200, 5000, 100_000])
@pytest.mark.parametrize(
    ("before", "middle", "after"),
    [
        ('{"type":"array","items":', '"int"', "}"),
        ("[", "", "]"),
        ('{"type":{"type":"record","name":"R","fields":', "[]", "}}"),
    ],
)
def test_a_schema_that_is_nested_too_deeply_is_refused(
    depth: int, before: str, middle: str, after: str
) -> None:
    with pytest.raises(SchemaError):
        parse(before * depth + middle + after * depth)


def test_annotations_that_are_nested_deeply_are_refused_or_written() -> None:
    for depth in (100, 400, 900, 5000):
        text = f'{{"type":"int","x":{"[" * depth}1{"]" * depth}}}'
        try:
            assert parse(text).canonical == text
        except SchemaError:
            assert depth > 400


def test_a_chain_of_types_whose_text_would_be_nested_too_deeply_is_refused() -> None:
    with pytest.raises(SchemaError, match="nested too deeply"):
        parse(json.dumps(chain(300, step=1)))
    assert len(parse(json.dumps(chain(300, step=-1))).incompatibilities(parse('"null"'))) == 0


def chain(length: int, step: int) -> list[Any]:
    """A union of records, each with a field of the next one's type or the previous one's."""
    types = {number: f"C{number}" for number in range(length)}
    return ["null"] + [
        {
            "type": "record",
            "name": name,
            "fields": [{"name": "other", "type": ["null", types.get(number + step, "int")]}],
        }
        for number, name in types.items()
    ]


@pytest.mark.parametrize(
    "text", ['"\\' * 100_000 + "/", "/*" * 200_000, '{"a":"/' + '"\\"' * 100_000]
)
def test_hostile_comments_are_refused_in_linear_time(text: str) -> None:
    with pytest.raises(SchemaError):
        parse(text)


def test_generated_texts_are_parsed_to_equal_schemas_again() -> None:
    count = 0
    for text in {text for pair in pairs(_SEED, 200) for text in pair}:
        try:
            schema = parse(text)
        except SchemaError:
            continue
        count += 1
        assert_stable(schema)
    assert count > 200


def assert_stable(schema: AvroSchema) -> None:
    again = parse(schema.canonical)
    assert again == schema
    assert hash(again) == hash(schema)
    normal = schema.normalized()
    assert parse(normal.canonical) == normal == normal.normalized()
    assert schema.incompatibilities(again) == []
