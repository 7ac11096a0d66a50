"""Verdicts on generated pairs of JSON schemas, beside values that the library itself checks.

If a newer schema is compatible, each value that is valid under the older has to be valid under it.
The library decides what is valid; it knows no rule of compatibility.
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jsonschema import Draft7Validator

from wirekafka.schemas.json.compatibility import incompatibilities
from wirekafka.schemas.json.document import tree_of
from wirekafka.schemas.json.shape_reader import shape_of

SEED = 20_261_127
MUTATED_PAIRS = 1_500
FREE_PAIRS = 1_500
VALUES_PER_PAIR = 25

NAMES = ["a", "b", "c"]
TEXTS = ["", "a", "ab", "abc", "abcd"]
SCALARS = [None, True, False, -1, 0, 1, 2, 3, 4, 0.5, 2.5, *TEXTS]


def is_compatible(older: Any, newer: Any) -> bool:
    return not incompatibilities(*(shape_of(tree_of(json.dumps(each))) for each in (older, newer)))


# Schemas. Each has a type; they have none of the keywords on which Confluent's rules are looser.


def a_schema(source: random.Random, depth: int = 2) -> Any:
    kinds: list[Callable[[random.Random, int], Any]] = [a_scalar, a_scalar, an_enumeration]
    if depth:
        kinds += [an_object, an_object, an_array, a_tuple, a_union, a_product, a_negation]
        kinds += [a_condition, a_reference]
    return source.choice(kinds)(source, depth)


def a_scalar(source: random.Random, depth: int) -> Any:
    kind = source.choice(["string", "integer", "number", "boolean", "null"])
    if source.random() < 0.15:
        return {"type": source.sample(["string", "integer", "boolean", "null"], 2)}
    limits = {}
    if kind == "string":
        limits = {"minLength": source.randrange(3), "maxLength": source.randrange(2, 5)}
    if kind in ("integer", "number"):
        limits = {"minimum": source.randrange(3), "maximum": source.randrange(2, 5)}
        limits |= {"exclusiveMaximum": source.randrange(3, 6), "multipleOf": source.choice([1, 2])}
    return {"type": kind} | some_of(source, limits)


def an_enumeration(source: random.Random, depth: int) -> Any:
    values = source.sample(TEXTS, source.randrange(1, 4))
    return source.choice(
        [{"enum": values}, {"type": "string", "enum": values}, {"const": values[0]}, True, {}]
    )


def an_object(source: random.Random, depth: int) -> Any:
    properties = {
        name: a_schema(source, depth - 1) for name in source.sample(NAMES, source.randrange(3))
    }
    additional = source.choice([True, False, False, a_schema(source, 0)])
    keywords = {
        "required": source.sample(NAMES, 1),
        "additionalProperties": additional,
        "minProperties": source.randrange(2),
        "maxProperties": source.randrange(1, 4),
        "propertyNames": {"type": "string", "maxLength": source.randrange(1, 3)},
        "dependencies": {"a": source.choice([["b"], {"type": "object", "required": ["c"]}])},
    }
    return {"type": "object", "properties": properties} | some_of(source, keywords, 0.3)


def an_array(source: random.Random, depth: int) -> Any:
    keywords = {
        "items": a_schema(source, depth - 1),
        "contains": a_schema(source, 0),
        "minItems": source.randrange(2),
        "maxItems": source.randrange(1, 4),
        "uniqueItems": True,
    }
    return {"type": "array"} | some_of(source, keywords)


def a_tuple(source: random.Random, depth: int) -> Any:
    items = [a_schema(source, 0) for _ in range(source.randrange(1, 3))]
    additional = source.choice([True, False, a_schema(source, 0)])
    return {"type": "array", "items": items} | some_of(source, {"additionalItems": additional})


def a_union(source: random.Random, depth: int) -> Any:
    return {"anyOf": [a_part(source, depth) for _ in range(source.randrange(1, 4))]}


def a_product(source: random.Random, depth: int) -> Any:
    return {"allOf": [a_part(source, depth) for _ in range(source.randrange(1, 3))]}


def a_part(source: random.Random, depth: int) -> Any:
    """A schema that does not allow anything: a union with such a part would allow anything."""
    found = a_schema(source, depth - 1)
    return {"type": "null"} if found in (True, {}) else found


def a_negation(source: random.Random, depth: int) -> Any:
    return {"not": a_schema(source, 0)}


def a_condition(source: random.Random, depth: int) -> Any:
    branches = {"then": a_schema(source, 0), "else": a_schema(source, 0)}
    return {"if": a_scalar(source, 0)} | some_of(source, branches)


def a_reference(source: random.Random, depth: int) -> Any:
    return {"$ref": f"#/definitions/{source.choice(['scalar', 'list'])}"}


def some_of(source: random.Random, keywords: dict, share: float = 0.5) -> dict:
    return {name: value for name, value in keywords.items() if source.random() < share}


def a_root(source: random.Random) -> dict:
    """With a schema of a recursive list among its definitions."""
    following = {"anyOf": [{"type": "null"}, {"$ref": "#/definitions/list"}]}
    properties = {"item": a_scalar(source, 0), "next": following}
    definitions = {
        "scalar": a_scalar(source, 0),
        "list": {"type": "object", "properties": properties, "additionalProperties": False},
    }
    return {"definitions": definitions, "allOf": [a_schema(source)]}


# Changes.

UPPER = ["maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties"]
LOWER = ["minLength", "minimum", "minItems", "minProperties"]
REMOVABLE = [
    *UPPER,
    *LOWER,
    "multipleOf",
    "uniqueItems",
    "propertyNames",
    "contains",
    "dependencies",
]


def widenings(tree: dict) -> Iterator[dict]:
    """Changes of a schema that are compatible, each in the words of the rules."""
    kept = {name: value for name, value in tree.items() if name != "type"}
    for keyword in REMOVABLE:
        if keyword in tree:
            yield {name: value for name, value in tree.items() if name != keyword}
    for keyword in UPPER:
        if keyword in tree:
            yield tree | {keyword: tree[keyword] + 1}
    for keyword in LOWER:
        if tree.get(keyword):
            yield tree | {keyword: tree[keyword] - 1}
    if tree.get("type") == "integer":
        yield {"type": "number"} | kept
    if isinstance(tree.get("type"), list):
        yield tree | {"type": [*tree["type"], "array"]}
    if "enum" in tree:
        yield tree | {"enum": [*tree["enum"], "other"]}
    if "anyOf" in tree:
        yield tree | {"anyOf": [*tree["anyOf"], {"type": "array", "maxItems": 7}]}
    if tree.get("required"):
        yield tree | {"required": []}
    if tree.get("additionalProperties") is False:
        yield tree | {"additionalProperties": True}
        yield tree | {"properties": tree.get("properties", {}) | {"new": {"type": "string"}}}
    if tree.get("additionalProperties", "") is True and tree.get("properties"):
        yield tree | {"properties": dict(list(tree["properties"].items())[1:])}
    if tree.get("multipleOf") == 2:
        yield tree | {"multipleOf": 1}


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Where schemas are within a schema that make it wider if they are wider."""
    if not isinstance(tree, dict):
        return
    groups = [tree[name] for name in ("properties", "anyOf", "allOf") if name in tree]
    if isinstance(tree.get("items"), list):
        groups.append(tree["items"])
    for group in groups:
        for key in group if isinstance(group, dict) else range(len(group)):
            yield group, key
            yield from places(group[key])
    for name in ("items", "additionalProperties", "contains", "then", "else"):
        if isinstance(tree.get(name), dict):
            yield tree, name
            yield from places(tree[name])


def mutated(source: random.Random) -> tuple[dict, dict] | None:
    """An older schema and a wider one: one change at one place."""
    older = a_root(source)
    newer = copy.deepcopy(older)
    group, key = source.choice(list(places(newer)))
    found = list(widenings(group[key])) if isinstance(group[key], dict) else []
    if not found:
        return None
    group[key] = source.choice(found)
    return older, newer


def free(source: random.Random) -> tuple[dict, dict]:
    """A schema with other schemas in place of some, or with the keywords of an other."""
    older = a_root(source)
    newer = copy.deepcopy(older)
    for _ in range(source.randrange(1, 3)):
        group, key = source.choice(list(places(newer)))
        change = source.random()
        if change < 0.4 or not isinstance(group[key], dict):
            group[key] = a_schema(source, 1)
        elif change < 0.7:
            group[key] = source.choice([group[key], *widenings(group[key])])
        else:
            dropped = source.choice([*(each for each in group[key] if each != "type"), ""])
            group[key] = {name: each for name, each in group[key].items() if name != dropped}
    return (older, newer) if source.random() < 0.5 else (newer, older)


# Values.


def a_value(source: random.Random, tree: Any, root: dict, depth: int = 4) -> Any:
    """A value that may match a schema, or nearly."""
    if not isinstance(tree, dict) or not depth or source.random() < 0.08:
        return source.choice([*SCALARS, [], [1], {}, {"a": 1}, {"a": "a", "b": 1, "c": None}])
    if "$ref" in tree:
        return a_value(source, root["definitions"][tree["$ref"].split("/")[-1]], root, depth - 1)
    for operator in ("anyOf", "allOf"):
        if operator in tree:
            return a_value(source, source.choice(tree[operator]), root, depth)
    for keyword in ("then", "else"):
        if keyword in tree and source.random() < 0.5:
            return a_value(source, tree[keyword], root, depth - 1)
    if "enum" in tree:
        return source.choice(tree["enum"])
    if "const" in tree:
        return tree["const"]
    if tree.get("type") == "object":
        names = {*tree.get("required", []), *source.sample(NAMES, source.randrange(4))}
        names |= {name for name in tree.get("properties", {}) if source.random() < 0.6}
        additional = tree.get("additionalProperties", True)
        if additional is False and source.random() < 0.9:
            names &= set(tree.get("properties", {}))
        properties = tree.get("properties", {})
        return {
            name: a_value(source, properties.get(name, additional), root, depth - 1)
            for name in sorted(names)
        }
    if tree.get("type") == "array":
        items = tree.get("items", {})
        leading = items if isinstance(items, list) else []
        rest = tree.get("additionalItems") if leading else items
        schemas = [*leading, *[rest] * source.randrange(3)][: source.randrange(4)]
        if "contains" in tree:
            schemas.append(tree["contains"])
        return [a_value(source, each, root, depth - 1) for each in schemas]
    kinds = tree.get("type", [])
    of_kind = [each for each in SCALARS if matches_type(each, kinds)]
    return source.choice(of_kind or SCALARS)


def matches_type(value: Any, kinds: Any) -> bool:
    names = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
    return names[type(value)] in kinds or (kinds == "number" and type(value) is int)


def witnesses(source: random.Random, older: dict, newer: dict) -> list[Any]:
    """Values that the older schema allows and the newer does not."""
    of_older, of_newer = Draft7Validator(older), Draft7Validator(newer)
    values = [a_value(source, source.choice([older, newer]), older) for _ in range(VALUES_PER_PAIR)]
    return [each for each in values if of_older.is_valid(each) and not of_newer.is_valid(each)]


@pytest.mark.long
@pytest.mark.parametrize("part", range(5))
def test_wider_schemas_are_compatible_and_their_reverse_is_not(part):
    source = random.Random(SEED + part)
    pairs = [mutated(source) for _ in range(MUTATED_PAIRS // 5 * 3)]
    checked = [pair for pair in pairs if pair is not None][: MUTATED_PAIRS // 5]
    assert len(checked) == MUTATED_PAIRS // 5
    for older, newer in checked:
        assert is_compatible(older, newer), (older, newer)
        assert not is_compatible(newer, older), (older, newer)
        assert witnesses(source, older, newer) == [], (older, newer)


@pytest.mark.long
@pytest.mark.parametrize("part", range(5))
def test_a_compatible_schema_accepts_every_value_of_the_older(part):
    source = random.Random(SEED - 1 - part)
    verdicts: Counter[tuple[bool, bool]] = Counter()
    for _ in range(FREE_PAIRS // 5):
        older, newer = free(source)
        compatible, found = is_compatible(older, newer), witnesses(source, older, newer)
        assert not (compatible and found), (older, newer, found[0])
        verdicts[compatible, bool(found)] += 1
    # The pairs try both verdicts, and many refusals are for a value that was found.
    assert verdicts[True, False] > 60 and verdicts[False, True] > 60, verdicts


LOOSER = {
    # Where Confluent's rules are looser than JSON Schema: the older, the newer, and a value that
    # the older allows and the newer does not.
    "a keyword without a type is compared as if it had the type": (
        {"minLength": 1},
        {"type": "string", "minLength": 1},
        1,
    ),
    "oneOf is compared like anyOf": (
        {"oneOf": [{"type": "integer"}]},
        {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        1,
    ),
    "patterns of properties are not compared": (
        {"type": "object", "patternProperties": {"a": {"type": "string"}}},
        {"type": "object", "patternProperties": {"a": {"type": "integer"}}},
        {"a": "b"},
    ),
    "a property with a default may become required": (
        {"type": "object", "properties": {"a": {"default": 1}}},
        {"type": "object", "properties": {"a": {"default": 1}}, "required": ["a"]},
        {},
    ),
    "a required property with a default may be added": (
        {"type": "object", "additionalProperties": False},
        {
            "type": "object",
            "properties": {"a": {"default": 1}},
            "required": ["a"],
            "additionalProperties": False,
        },
        {},
    ),
}


@pytest.mark.parametrize("rule", LOOSER)
def test_the_rules_that_are_looser_are_known(rule):
    older, newer, value = LOOSER[rule]
    assert is_compatible(older, newer)
    assert Draft7Validator(older).is_valid(value) and not Draft7Validator(newer).is_valid(value)
