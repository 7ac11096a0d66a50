"""JSON schemas: their texts, their references and their values."""

from __future__ import annotations

import json
import socket

import pytest

from wirekafka.schemas.formats import parse as parse_format
from wirekafka.schemas.json.dialects import dialect_of
from wirekafka.schemas.json.schema import parse
from wirekafka.schemas.schema import Dependency, Format, SchemaError, ValueMismatch

DRAFTS = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]


def test_the_format_is_parsed_by_name():
    found = parse_format(Format.JSON, '{"title": "Order"}')
    assert (found.format, found.canonical, found.name()) == (
        Format.JSON,
        '{"title":"Order"}',
        "Order",
    )


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('{ "b" : 1.0,\n "a" : [ 1e5, 1.50, -0.0, 1E-7, 0.000001 ] }',
         '{"b":1.0,"a":[1E+5,1.50,0.0,1E-7,0.000001]}'),
        ('{"const": 123456789012345678901234567890}', '{"const":123456789012345678901234567890}'),
        ('{"a": "\\u00e9\\u001f\\/\\n\\"", "b": [], "c": {}}',
         '{"a":"é\\u001F/\\n\\"","b":[],"c":{}}'),
        ('{"const": [true, false, null]}', '{"const":[true,false,null]}'),
        (" true ", "true"),
    ],
)  # fmt: skip
def test_the_canonical_text_is_compact_in_the_order_of_the_source(text, canonical):
    assert parse(text).canonical == canonical
    assert parse(canonical).canonical == canonical


def test_the_normalized_text_has_sorted_members_at_every_level():
    text = '{"type":"object","properties":{"b":{"type":"string","default":"x"},"a":{"const":1.0}}}'
    sorted_text = (
        '{"properties":{"a":{"const":1.0},"b":{"default":"x","type":"string"}},"type":"object"}'
    )
    assert parse(text).normalized().canonical == sorted_text
    assert parse(text).normalized() == parse(sorted_text) != parse(text)
    assert hash(parse(text).normalized()) == hash(parse(sorted_text))


def test_members_are_sorted_as_java_sorts_strings():
    assert parse('{"\uffff": 1, "\U0001f600": 2, "a": 3}').normalized().canonical == (
        '{"a":3,"\U0001f600":2,"\uffff":1}'
    )


def test_a_title_that_is_no_text_is_no_name():
    assert parse("true").name() is None
    assert parse("{}").name() is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '"string"',
        "null",
        "1",
        '{"type": "strin"}',
        '{"type": ["string", "string"]}',
        '{"properties": []}',
        '{"minLength": -1}',
        '{"a": NaN}',
        '{"a": 1} x',
        '{"pattern": "("}',
        '{"patternProperties": {"[": true}}',
        '{"title": "\\ud800"}',
        '{"required": ["a", "a"]}',
    ],
)
def test_a_text_that_is_no_schema_is_refused(text):
    with pytest.raises(SchemaError):
        parse(text)


def test_the_reason_says_where():
    with pytest.raises(SchemaError, match="#/properties/a/type: 'strin' is not valid"):
        parse('{"properties": {"a": {"type": "strin"}}}')


@pytest.mark.parametrize("draft", DRAFTS)
def test_every_draft_is_checked_by_its_own_rules(draft):
    is_draft_4 = "04" in draft
    by_flag = json.dumps({"$schema": draft, "maximum": 3, "exclusiveMaximum": True})
    by_number = json.dumps({"$schema": draft, "exclusiveMaximum": 3})
    good, bad = (by_flag, by_number) if is_draft_4 else (by_number, by_flag)
    assert parse(good).encoded(2) == b"2"
    with pytest.raises(ValueMismatch):
        parse(good).encoded(3)
    with pytest.raises(SchemaError):
        parse(bad)


def test_the_uri_of_a_draft_may_have_either_scheme_and_a_fragment():
    for uri in ("http://json-schema.org/draft/2020-12/schema#", DRAFTS[4]):
        assert dialect_of({"$schema": uri}).has_prefix_items
    assert dialect_of({"$schema": "https://json-schema.org/draft-04/schema"}).id_keyword == "id"


def test_a_schema_without_a_draft_is_of_draft_7():
    parse('{"if": true, "dependencies": {"a": ["b"]}}')
    unknown = parse('{"$schema": "http://example.com/own", "exclusiveMaximum": 3}')
    with pytest.raises(ValueMismatch):
        unknown.encoded(3)


# References.

ADDRESS = '{"type":"object","properties":{"street":{"type":"string"}},"required":["street"]}'


@pytest.mark.parametrize(
    ("identifier", "name", "reference"),
    [
        (None, "address.json", "address.json"),
        (None, "address", "address#"),
        (None, "http://example.com/address.json", "http://example.com/address.json"),
        ("http://example.com/schemas/order.json", "address.json", "address.json"),
        ("http://example.com/schemas/order.json", "../address.json", "../address.json"),
        ("http://example.com/order.json", "http://example.com/address.json", "address.json"),
        ("order.json", "address.json", "address.json"),
    ],
)
def test_a_dependency_is_found_by_its_name(identifier, name, reference):
    tree = {"$id": identifier} if identifier else {}
    tree |= {"type": "object", "properties": {"to": {"$ref": reference}}}
    found = parse(json.dumps(tree), [Dependency(name, ADDRESS)])
    assert found.encoded({"to": {"street": "a"}}) == b'{"to":{"street":"a"}}'
    with pytest.raises(ValueMismatch, match="#/to: 'street' is a required property"):
        found.encoded({"to": {}})


def test_a_dependency_is_found_by_its_own_id_and_through_another():
    city = Dependency("city", '{"$id":"http://example.com/city.json","maxLength":3}')
    address = Dependency(
        "http://example.com/address.json", '{"properties":{"city":{"$ref":"city.json"}}}'
    )
    found = parse('{"$ref": "http://example.com/address.json"}', [city, address])
    with pytest.raises(ValueMismatch):
        found.encoded({"city": "Rome"})


def test_anchors_and_ids_within_a_schema_are_found():
    newest = '"$schema":"https://json-schema.org/draft/2020-12/schema"'
    by_anchor = f'{{{newest},"$ref":"#a","$defs":{{"b":{{"$anchor":"a","type":"string"}}}}}}'
    by_id = (
        '{"$id":"http://e/x","$ref":"y#/definitions/c","definitions":'
        '{"b":{"$id":"y","definitions":{"c":{"type":"string"}}}}}'
    )
    for text in (by_anchor, by_id):
        with pytest.raises(ValueMismatch):
            parse(text).encoded(1)


@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:9/other.json",
        "file:///etc/passwd",
        "/etc/passwd",
        "missing.json",
        "#/definitions/missing",
        "#missing",
        "http://[",
    ],
)
def test_an_unknown_reference_is_refused_without_a_look_outside(reference, monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", None)
    monkeypatch.setattr("builtins.open", None)
    with pytest.raises(SchemaError) as error:
        parse(json.dumps({"properties": {"a": {"$ref": reference}}}))
    assert reference in str(error.value)


def test_a_reference_to_a_part_that_is_no_schema_is_refused():
    for target in ("1", "[1]", '{"properties": 1}', '{"type": {}}', '{"allOf": true}'):
        with pytest.raises(SchemaError):
            parse(f'{{"x-own": {target}, "$ref": "#/x-own"}}')


def test_references_that_go_in_a_circle_are_refused():
    with pytest.raises(SchemaError, match="refers to itself"):
        parse('{"$ref": "#"}')
    with pytest.raises(SchemaError, match="refers to itself"):
        parse(
            '{"definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}},'
            '"properties": {"x": {"$ref": "#/definitions/a"}}}'
        )


def test_a_meta_schema_may_be_referred_to():
    found = parse('{"$ref": "http://json-schema.org/draft-07/schema#"}')
    assert found.encoded({"type": "string"})
    with pytest.raises(ValueMismatch):
        found.encoded({"type": "strin"})


def test_a_part_that_no_meta_schema_describes_may_refuse_all_values():
    found = parse('{"own": {"minLength": "a"}, "$ref": "#/own"}')
    with pytest.raises(ValueMismatch, match="the schema cannot be applied"):
        found.encoded("text")


# Values.


def test_payloads_are_decoded_without_a_check():
    found = parse('{"type": "string"}')
    assert found.decoded(b'{"a": [1, 2.5, null, "\xc3\xa9"]}') == {"a": [1, 2.5, None, "é"]}


@pytest.mark.parametrize("payload", [b"", b"{", b"\xff", b"NaN", b"[" * 100_000, b"1 2"])
def test_payloads_that_are_no_json_do_not_match(payload):
    with pytest.raises(ValueMismatch):
        parse("true").decoded(payload)


def test_values_are_encoded_compactly():
    assert parse("true").encoded({"a": [1, 2.5, None, "é"]}) == '{"a":[1,2.5,null,"é"]}'.encode()


@pytest.mark.parametrize(
    "value", [object(), float("nan"), {1: {2, 3}}, "\ud800", json.loads("[" * 900 + "]" * 900)]
)
def test_values_without_a_json_text_do_not_match(value):
    schema = parse('{"items": {"$ref": "#"}}')
    with pytest.raises(ValueMismatch):
        schema.encoded(value)


@pytest.mark.parametrize(
    ("tree", "good", "bad"),
    [
        ({"pattern": "^a+$"}, ["a", 1], ["ab", "a\n", ""]),
        ({"pattern": "\\u0061b"}, ["xaby"], ["b"]),
        ({"pattern": "^\\d$"}, ["1"], ["\u0661"]),
        ({"patternProperties": {"^n": {"type": "number"}}}, [{"n": 1, "m": "a"}], [{"n1": "a"}]),
        (
            {"properties": {"a": {}}, "patternProperties": {"b": {}}}
            | {"additionalProperties": False},
            [{"a": 1, "xb": 1}],
            [{"c": 1}],
        ),
        ({"additionalProperties": {"type": "string"}}, [{"a": "b"}, 1], [{"a": 1}]),
        ({"uniqueItems": True}, [[1, True, "1"], [[1], [True]]], [[1, 1.0], [{"a": 1}, {"a": 1}]]),
        ({"multipleOf": 0.5}, [1, 1.5], [0.7]),
    ],
)  # fmt: skip
def test_keywords_with_an_own_function_check_values(tree, good, bad):
    schema = parse(json.dumps(tree))
    for value in good:
        schema.encoded(value)
    for value in bad:
        with pytest.raises(ValueMismatch):
            schema.encoded(value)


@pytest.mark.parametrize("draft", DRAFTS[3:])
@pytest.mark.parametrize(
    ("tree", "names"),
    [
        ({"properties": {"a": {}}}, "a"),
        ({"patternProperties": {"^a": {}}}, "a"),
        ({"additionalProperties": {}}, "abc"),
        ({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, "ab"),
        ({"anyOf": [{"properties": {"a": {}}}, {"required": ["z"], "properties": {"b": {}}}]}, "a"),
        ({"if": {"required": ["a"]}, "then": {"properties": {"a": {}}}}, "a"),
        ({"if": {"properties": {"a": {}}}, "else": {"properties": {"b": {}}}}, "a"),
        ({"dependentSchemas": {"a": {"properties": {"a": {}}}}}, "a"),
        ({"$ref": "#/$defs/d", "$defs": {"d": {"properties": {"c": {}}}}}, "c"),
        ({"allOf": [{"unevaluatedProperties": True}]}, "abc"),
    ],
)
def test_unevaluated_properties_are_found_as_the_library_finds_them(draft, tree, names):
    schema = parse(json.dumps({"$schema": draft, **tree, "unevaluatedProperties": False}))
    for name in "abc":
        if name in names:
            schema.encoded({name: 1})
        else:
            with pytest.raises(ValueMismatch, match=f"property '{name}'"):
                schema.encoded({name: 1})


def test_a_pattern_that_cannot_be_evaluated_refuses_values_not_schemas():
    schema = parse('{"pattern": "(?=a)b"}')
    assert schema.encoded(1) == b"1"
    with pytest.raises(ValueMismatch, match="a pattern of the schema cannot be evaluated"):
        schema.encoded("ab")


def test_a_mismatch_names_the_path_and_is_short():
    schema = parse('{"properties": {"a": {"items": {"maxLength": 3}}}}')
    with pytest.raises(ValueMismatch, match=r"^#/a/1: 'abcd' is too long"):
        schema.encoded({"a": ["abc", "abcd"]})
    with pytest.raises(ValueMismatch) as error:
        schema.encoded({"a": ["x" * 100_000]})
    assert len(str(error.value)) < 1_000
