"""The published rules of Confluent's registry for JSON schemas, each difference in both ways."""

from __future__ import annotations

import json

import pytest

from wirekafka.schemas.json.compatibility import JsonComparison
from wirekafka.schemas.json.differences import INCOMPATIBLE, LENIENT, JsonChange
from wirekafka.schemas.json.document import tree_of
from wirekafka.schemas.json.schema import JsonSchema, parse
from wirekafka.schemas.json.shape_reader import shape_of
from wirekafka.schemas.schema import Dependency

STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def of(keyword: str, value, **others) -> dict:
    kinds = {"Length": "string", "pattern": "string", "Items": "array", "Properties": "object"}
    kind = next((each for key, each in kinds.items() if key in keyword), "number")
    return {"type": kind, keyword: value} | others


def an_object(properties=None, **others) -> dict:
    return {"type": "object"} | ({"properties": properties} if properties else {}) | others


def closed(properties=None, **others) -> dict:
    return an_object(properties, additionalProperties=False, **others)


def a_tuple(*items, **others) -> dict:
    return {"type": "array", "items": list(items), **others}


LIMITS = [
    ("maxLength", "MAX_LENGTH"),
    ("minLength", "MIN_LENGTH"),
    ("maximum", "MAXIMUM"),
    ("minimum", "MINIMUM"),
    ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM"),
    ("exclusiveMinimum", "EXCLUSIVE_MINIMUM"),
    ("maxItems", "MAX_ITEMS"),
    ("minItems", "MIN_ITEMS"),
    ("maxProperties", "MAX_PROPERTIES"),
    ("minProperties", "MIN_PROPERTIES"),
]

CASES: list[tuple[str, dict | bool, dict | bool, str, str]] = [
    # The change, the older schema, the newer, the path, and the change the other way round.
    *(
        case
        for keyword, name in LIMITS
        for case in (
            (
                f"{name}_ADDED",
                {"type": of(keyword, 1)["type"]},
                of(keyword, 5),
                f"#/{keyword}",
                f"{name}_REMOVED",
            ),
            (
                f"{name}_INCREASED",
                of(keyword, 5),
                of(keyword, 6),
                f"#/{keyword}",
                f"{name}_DECREASED",
            ),
        )
    ),
    ("PATTERN_ADDED", STRING, of("pattern", "^a"), "#/pattern", "PATTERN_REMOVED"),
    ("PATTERN_CHANGED", of("pattern", "a"), of("pattern", "b"), "#/pattern", "PATTERN_CHANGED"),
    ("MULTIPLE_OF_ADDED", NUMBER, of("multipleOf", 2), "#/multipleOf", "MULTIPLE_OF_REMOVED"),
    (
        "MULTIPLE_OF_EXPANDED",
        of("multipleOf", 0.1),
        of("multipleOf", 0.3),
        "#/multipleOf",
        "MULTIPLE_OF_REDUCED",
    ),
    (
        "MULTIPLE_OF_CHANGED",
        of("multipleOf", 2),
        of("multipleOf", 3),
        "#/multipleOf",
        "MULTIPLE_OF_CHANGED",
    ),
    ("TYPE_EXTENDED", INTEGER, NUMBER, "#", "TYPE_NARROWED"),
    ("TYPE_CHANGED", INTEGER, STRING, "#", "TYPE_CHANGED"),
    (
        "TYPE_CHANGED",
        an_object({"a": INTEGER}),
        an_object({"a": STRING}),
        "#/properties/a",
        "TYPE_CHANGED",
    ),
    ("TYPE_CHANGED", {"type": "null"}, {"type": "boolean"}, "#", "TYPE_CHANGED"),
    ("TYPE_CHANGED", {}, STRING, "#", ""),
    ("TYPE_CHANGED", True, an_object({"a": STRING}), "#", ""),
    ("TYPE_CHANGED", STRING, False, "#", ""),
    ("TYPE_CHANGED", {"const": 1}, {"enum": [1, 2]}, "#", "TYPE_CHANGED"),
    ("ENUM_ARRAY_EXTENDED", {"enum": [1]}, {"enum": [2, 1]}, "#/enum", "ENUM_ARRAY_NARROWED"),
    ("ENUM_ARRAY_CHANGED", {"enum": [1, 2]}, {"enum": [1, 3]}, "#/enum", "ENUM_ARRAY_CHANGED"),
    ("ENUM_ARRAY_CHANGED", {"enum": [1]}, {"enum": [True]}, "#/enum", "ENUM_ARRAY_CHANGED"),
    ("ENUM_ARRAY_CHANGED", {"const": "a"}, {"const": "b"}, "#/const", "ENUM_ARRAY_CHANGED"),
    # Objects.
    (
        "REQUIRED_ATTRIBUTE_ADDED",
        an_object({"a": STRING}),
        an_object({"a": STRING}, required=["a"]),
        "#/required/a",
        "REQUIRED_ATTRIBUTE_REMOVED",
    ),
    (
        "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED",
        an_object({"a": STRING}),
        an_object({"a": STRING | {"default": ""}}, required=["a"]),
        "#/required/a",
        "REQUIRED_ATTRIBUTE_REMOVED",
    ),
    (
        "ADDITIONAL_PROPERTIES_ADDED",
        closed(),
        an_object(),
        "#/additionalProperties",
        "ADDITIONAL_PROPERTIES_REMOVED",
    ),
    (
        "ADDITIONAL_PROPERTIES_EXTENDED",
        an_object(additionalProperties=STRING),
        an_object(),
        "#/additionalProperties",
        "ADDITIONAL_PROPERTIES_NARROWED",
    ),
    (
        "TYPE_CHANGED",
        an_object(additionalProperties=STRING),
        an_object(additionalProperties=INTEGER),
        "#/additionalProperties",
        "TYPE_CHANGED",
    ),
    (
        "DEPENDENCY_ARRAY_ADDED",
        an_object(),
        an_object(dependencies={"a": ["b"]}),
        "#/dependencies/a",
        "DEPENDENCY_ARRAY_REMOVED",
    ),
    (
        "DEPENDENCY_ARRAY_EXTENDED",
        an_object(dependencies={"a": ["b"]}),
        an_object(dependencies={"a": ["b", "c"]}),
        "#/dependencies/a",
        "DEPENDENCY_ARRAY_NARROWED",
    ),
    (
        "DEPENDENCY_ARRAY_CHANGED",
        an_object(dependencies={"a": ["b"]}),
        an_object(dependencies={"a": ["c"]}),
        "#/dependencies/a",
        "DEPENDENCY_ARRAY_CHANGED",
    ),
    (
        "DEPENDENCY_SCHEMA_ADDED",
        an_object(),
        an_object(dependencies={"a": an_object(required=["b"])}),
        "#/dependencies/a",
        "DEPENDENCY_SCHEMA_REMOVED",
    ),
    (
        "REQUIRED_ATTRIBUTE_ADDED",
        an_object(dependencies={"a": an_object(minProperties=1)}),
        an_object(dependencies={"a": an_object(minProperties=1, required=["b"])}),
        "#/dependencies/a/required/b",
        "REQUIRED_ATTRIBUTE_REMOVED",
    ),
    (
        "SCHEMA_ADDED",
        an_object(),
        an_object(propertyNames={"maxLength": 3}),
        "#/propertyNames",
        "SCHEMA_REMOVED",
    ),
    (
        "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        an_object({"a": STRING}),
        an_object({"a": STRING, "b": STRING}),
        "#/properties/b",
        "PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL",
    ),
    (
        "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        an_object(),
        an_object({"b": {"description": "any"}}),
        "#/properties/b",
        "PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL",
    ),
    (
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        closed(),
        closed({"b": STRING}),
        "#/properties/b",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ),
    (
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        closed(),
        closed({"b": False}),
        "#/properties/b",
        "PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ),
    (
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL",
        closed(),
        closed({"b": STRING | {"default": ""}}, required=["b"]),
        "#/properties/b",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL REQUIRED_ATTRIBUTE_REMOVED",
    ),
    (
        "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        closed(),
        closed({"b": STRING}, required=["b"]),
        "#/properties/b",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL REQUIRED_ATTRIBUTE_REMOVED",
    ),
    (
        "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        an_object(additionalProperties=INTEGER),
        an_object({"b": NUMBER}, additionalProperties=INTEGER),
        "#/properties/b",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    (
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        an_object(additionalProperties=NUMBER),
        an_object({"b": INTEGER}, additionalProperties=NUMBER),
        "#/properties/b",
        "PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    (
        "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        closed(patternProperties={"^b": INTEGER}),
        closed({"b1": INTEGER}, patternProperties={"^b": INTEGER}),
        "#/properties/b1",
        "PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    (
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        closed(patternProperties={"^b": INTEGER}),
        closed({"a": INTEGER}, patternProperties={"^b": INTEGER}),
        "#/properties/a",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ),
    # A pattern that RE2 cannot evaluate may match any name.
    (
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        closed(patternProperties={"(?=b)": INTEGER}),
        closed({"b": INTEGER}, patternProperties={"(?=b)": INTEGER}),
        "#/properties/b",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    # Arrays.
    (
        "UNIQUE_ITEMS_ADDED",
        {"type": "array"},
        {"type": "array", "uniqueItems": True},
        "#/uniqueItems",
        "UNIQUE_ITEMS_REMOVED",
    ),
    (
        "SCHEMA_ADDED",
        {"type": "array"},
        {"type": "array", "items": STRING},
        "#/items",
        "SCHEMA_REMOVED",
    ),
    (
        "SCHEMA_ADDED",
        {"type": "array"},
        {"type": "array", "contains": STRING},
        "#/contains",
        "SCHEMA_REMOVED",
    ),
    (
        "TYPE_EXTENDED",
        {"type": "array", "items": INTEGER},
        {"type": "array", "items": NUMBER},
        "#/items",
        "TYPE_NARROWED",
    ),
    (
        "ADDITIONAL_ITEMS_ADDED",
        a_tuple(STRING, additionalItems=False),
        a_tuple(STRING),
        "#/additionalItems",
        "ADDITIONAL_ITEMS_REMOVED",
    ),
    (
        "ADDITIONAL_ITEMS_EXTENDED",
        a_tuple(STRING, additionalItems=STRING),
        a_tuple(STRING),
        "#/additionalItems",
        "ADDITIONAL_ITEMS_NARROWED",
    ),
    (
        "TYPE_EXTENDED",
        a_tuple(STRING, additionalItems=INTEGER),
        a_tuple(STRING, additionalItems=NUMBER),
        "#/additionalItems",
        "TYPE_NARROWED",
    ),
    (
        "ITEM_ADDED_TO_OPEN_CONTENT_MODEL",
        a_tuple(STRING),
        a_tuple(STRING, INTEGER),
        "#/items/1",
        "ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL",
    ),
    (
        "ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        a_tuple(STRING),
        a_tuple(STRING, {}),
        "#/items/1",
        "ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL",
    ),
    (
        "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL",
        a_tuple(STRING, additionalItems=False),
        a_tuple(STRING, INTEGER, additionalItems=False),
        "#/items/1",
        "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ),
    (
        "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL",
        a_tuple(STRING, additionalItems=False),
        a_tuple(STRING, False, additionalItems=False),
        "#/items/1",
        "ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ),
    (
        "ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        a_tuple(STRING, additionalItems=INTEGER),
        a_tuple(STRING, NUMBER, additionalItems=INTEGER),
        "#/items/1",
        "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    (
        "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        a_tuple(STRING, additionalItems=NUMBER),
        a_tuple(STRING, INTEGER, additionalItems=NUMBER),
        "#/items/1",
        "ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    ("SCHEMA_ADDED", {"type": "array"}, {"type": "array", "contains": True}, "#/contains", ""),
    # Combined schemas.
    (
        "PRODUCT_TYPE_EXTENDED",
        {"allOf": [of("maxLength", 3), of("minLength", 1)]},
        {"allOf": [of("maxLength", 3), of("minLength", 1), of("pattern", "a")]},
        "#",
        "PRODUCT_TYPE_NARROWED",
    ),
    (
        "SUM_TYPE_EXTENDED",
        {"oneOf": [STRING, INTEGER]},
        {"oneOf": [{"type": "null"}, INTEGER, STRING]},
        "#",
        "SUM_TYPE_NARROWED",
    ),
    (
        "SUM_TYPE_EXTENDED",
        {"type": ["string", "null"]},
        {"type": ["null", "string", "integer"]},
        "#",
        "SUM_TYPE_NARROWED",
    ),
    ("SUM_TYPE_EXTENDED", STRING, {"anyOf": [INTEGER, STRING]}, "#", "TYPE_CHANGED"),
    ("SUM_TYPE_EXTENDED", STRING, {"type": ["null", "string"]}, "#", "TYPE_CHANGED"),
    (
        "PRODUCT_TYPE_NARROWED",
        {"allOf": [of("maxLength", 3), of("minLength", 1)]},
        of("minLength", 1),
        "#",
        "TYPE_CHANGED",
    ),
    ("PRODUCT_TYPE_NARROWED", STRING | {"enum": ["a"]}, STRING, "#", "TYPE_CHANGED"),
    (
        "COMBINED_TYPE_EXTENDED",
        {"oneOf": [STRING, INTEGER]},
        {"anyOf": [STRING, INTEGER]},
        "#",
        "COMBINED_TYPE_CHANGED",
    ),
    (
        "COMBINED_TYPE_EXTENDED",
        {"allOf": [STRING, of("minLength", 1)]},
        {"anyOf": [STRING, of("minLength", 1)]},
        "#",
        "COMBINED_TYPE_CHANGED",
    ),
    (
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
        {"oneOf": [STRING, INTEGER]},
        {"oneOf": [STRING, {"type": "null"}]},
        "#",
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
    ),
    (
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
        an_object({"a": STRING | {"enum": ["x", "y"]}}),
        an_object({"a": STRING | {"enum": ["x"]}}),
        "#/properties/a",
        "",
    ),
    ("NOT_TYPE_EXTENDED", {"not": INTEGER}, {"not": NUMBER}, "#/not", "NOT_TYPE_NARROWED"),
    (
        "TYPE_CHANGED",
        {"if": STRING, "then": of("minLength", 1)},
        {"if": INTEGER, "then": of("minLength", 1)},
        "#/if",
        "TYPE_CHANGED",
    ),
    (
        "MIN_LENGTH_INCREASED",
        {"if": STRING, "then": of("minLength", 1)},
        {"if": STRING, "then": of("minLength", 2)},
        "#/then/minLength",
        "MIN_LENGTH_DECREASED",
    ),
    ("SCHEMA_ADDED", {"if": STRING}, {"if": STRING, "else": INTEGER}, "#/else", "SCHEMA_REMOVED"),
]


def changes(older: dict | bool, newer: dict | bool) -> list[tuple[str, str]]:
    shapes = [shape_of(tree_of(json.dumps(each))) for each in (older, newer)]
    return [(str(each.change), each.path) for each in JsonComparison().differences(*shapes)]


def schema(tree, *dependencies: Dependency) -> JsonSchema:
    return parse(json.dumps(tree), dependencies)


@pytest.mark.parametrize(("change", "older", "newer", "path", "reverse"), CASES)
def test_a_change_has_its_published_name_in_each_direction(change, older, newer, path, reverse):
    assert changes(older, newer) == [(change, path)]
    found = changes(newer, older)
    assert " ".join(each for each, _ in found) == reverse or (not reverse and not _broken(found))


@pytest.mark.parametrize(("change", "older", "newer", "path", "reverse"), CASES)
def test_the_verdict_is_incompatible_if_a_change_is(change, older, newer, path, reverse):
    assert bool(schema(newer).incompatibilities(schema(older))) == (change in INCOMPATIBLE)
    is_broken = any(each in INCOMPATIBLE for each in reverse.split())
    assert bool(schema(older).incompatibilities(schema(newer))) == is_broken


def _broken(found: list[tuple[str, str]]) -> list[str]:
    return [change for change, _ in found if change in INCOMPATIBLE]


def test_the_cases_show_every_change():
    shown = {case[0] for case in CASES} | {each for case in CASES for each in case[4].split()}
    assert shown == set(JsonChange)


PUBLISHED = [
    # The change, and whether it is compatible BACKWARD and FORWARD: lenient, open, closed.
    ("add optional", {"a": STRING}, {"a": STRING, "b": STRING}, (), ()),
    ("add required", {"a": STRING}, {"a": STRING, "b": STRING}, (), ("b",)),
    (
        "add variant",
        {"a": {"oneOf": [STRING, INTEGER]}},
        {"a": {"oneOf": [STRING, INTEGER, {"type": "null"}]}},
        (),
        (),
    ),
    ("widen", {"a": INTEGER}, {"a": NUMBER}, (), ()),
]
VERDICTS = {
    "add optional": ((True, True), (False, True), (True, False)),
    "add required": ((False, True), (False, True), (False, False)),
    "add variant": ((True, False), (True, False), (True, False)),
    "widen": ((True, False), (True, False), (True, False)),
}


@pytest.mark.parametrize(("name", "before", "after", "required", "required_after"), PUBLISHED)
def test_the_published_table_of_policies_holds(name, before, after, required, required_after):
    """The reverse change has the verdicts of the change in reverse."""
    lenient, is_open, is_closed = VERDICTS[name]
    for model, expected in ((an_object, is_open), (closed, is_closed)):
        older = schema(model(before, required=list(required)))
        newer = schema(model(after, required=list(required_after)))
        assert (not newer.incompatibilities(older), not older.incompatibilities(newer)) == expected
        assert (
            not newer.lenient_incompatibilities(older),
            not older.lenient_incompatibilities(newer),
        ) == lenient


def test_the_lenient_policy_allows_changes_that_the_strict_one_refuses():
    assert set(INCOMPATIBLE) > LENIENT


def test_messages_have_the_words_of_the_published_responses():
    older = schema(an_object({"a": STRING, "c": INTEGER}))
    newer = schema(an_object({"a": INTEGER, "b": STRING, "c": INTEGER}, required=["c"]))
    assert newer.incompatibilities(older) == [
        '{errorType:"TYPE_CHANGED", description:"A type at path \'#/properties/a\' is different '
        "between the {reader} schema and the {writer} schema'}",
        '{errorType:"PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", description:"The {reader} schema has '
        "an open content model and has a property or item at path '#/properties/b' which is "
        "missing in the {writer} schema'}",
        '{errorType:"REQUIRED_ATTRIBUTE_ADDED", description:"The keyword at path '
        "'#/required/c' in the {reader} schema is not present in the {writer} schema'}",
    ]
    assert schema(closed()).incompatibilities(schema(closed({"a": STRING}))) == [
        '{errorType:"PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", description:"The {reader} has a '
        "closed content model and is missing a property or item present at path '#/properties/a' "
        "in the {writer} schema'}"
    ]


def test_drafts_with_the_same_meaning_are_compatible():
    draft_4 = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "number"}
    limited = draft_4 | {"maximum": 3, "exclusiveMaximum": True}
    assert not schema(limited).incompatibilities(schema(of("exclusiveMaximum", 3)))
    newest = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "array"}
    tuple_of_newest = newest | {"prefixItems": [STRING], "items": False}
    older = schema(a_tuple(STRING, additionalItems=False))
    assert not schema(tuple_of_newest).incompatibilities(older)
    assert not older.incompatibilities(schema(tuple_of_newest))
    dependent = {"type": "object", "dependencies": {"a": ["b"]}}
    of_newest = newest | {"type": "object", "dependentRequired": {"a": ["b"]}}
    assert not schema(of_newest).incompatibilities(schema(dependent))


def test_unevaluated_properties_close_an_object_like_additional_ones():
    newest = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
    older = schema(newest | {"unevaluatedProperties": False})
    newer = schema(newest | {"unevaluatedProperties": False, "properties": {"a": STRING}})
    assert not newer.incompatibilities(older)


def test_a_reference_is_compared_as_its_target():
    inline = an_object({"a": of("maxLength", 3)})
    by_reference = an_object(
        {"a": {"$ref": "#/definitions/b"}}, definitions={"b": {"$ref": "c.json"}}
    )
    wider, narrower = (
        Dependency("c.json", json.dumps(of("maxLength", 4))),
        json.dumps(of("maxLength", 2)),
    )
    assert not schema(by_reference, wider).incompatibilities(schema(inline))
    [message] = schema(by_reference, Dependency("c.json", narrower)).incompatibilities(
        schema(inline)
    )
    assert "MAX_LENGTH_DECREASED" in message and "'#/properties/a/maxLength'" in message


def a_list(item: dict, **others) -> dict:
    """A list whose every node refers to itself through a union."""
    following = {"anyOf": [{"type": "null"}, {"$ref": "#/definitions/node"}]}
    node = an_object({"item": item, "next": following}, **others)
    return {"$ref": "#/definitions/node", "definitions": {"node": node}}


def test_recursive_schemas_are_compared_once():
    assert not schema(a_list(NUMBER)).incompatibilities(schema(a_list(INTEGER)))
    [message] = [
        each
        for each in schema(a_list(STRING)).incompatibilities(schema(a_list(INTEGER)))
        if "'#/properties/item'" in each
    ]
    assert "TYPE_CHANGED" in message


def test_an_assumption_about_a_recursion_that_fails_is_not_kept():
    """Two unions within each other: the verdict of the inner depends on the outer."""
    definitions = {
        "outer": an_object(
            {"inner": {"anyOf": [{"$ref": "#/definitions/inner"}, STRING]}, "x": INTEGER}
        ),
        "inner": {"type": "array", "items": {"anyOf": [{"$ref": "#/definitions/outer"}, STRING]}},
    }
    older = {
        "definitions": definitions,
        "type": "object",
        "properties": {
            "o": {"anyOf": [{"$ref": "#/definitions/outer"}, STRING]},
            "i": {"$ref": "#/definitions/inner"},
        },
    }
    newer = json.loads(json.dumps(older))
    newer["definitions"]["outer"]["properties"]["x"] = STRING
    found = schema(newer).incompatibilities(schema(older))
    paths = [message.split("path '")[1].split("'")[0] for message in found]
    assert paths == ["#/properties/o", "#/properties/i/items"]


def test_parts_of_a_union_are_matched_in_the_best_way():
    """The first part fits both; only one assignment gives each part a partner of its own."""
    older = {"anyOf": [of("maxLength", 2), of("maxLength", 3), of("maxLength", 4)]}
    newer = {"anyOf": [of("maxLength", 4), of("maxLength", 2), of("maxLength", 3)]}
    assert changes(older, newer) == []
    assert changes(older, {"anyOf": [*newer["anyOf"][:2], of("maxLength", 1)]}) == [
        ("COMBINED_TYPE_SUBSCHEMAS_CHANGED", "#")
    ]


def test_braces_and_signs_of_names_stay_as_they_are():
    older, newer = schema(an_object({"@{x}%s": STRING})), schema(an_object({"@{x}%s": INTEGER}))
    [message] = newer.incompatibilities(older)
    assert "'#/properties/@{x}%s'" in message
