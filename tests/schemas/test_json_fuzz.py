"""JSON schemas with odd values in odd places are parsed, compared and applied, or refused."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.schemas.test_json_schema import DRAFTS
from wirekafka.schemas.json.schema import JsonSchema, parse
from wirekafka.schemas.schema import Dependency, SchemaError, ValueMismatch

SEED = 4
TRIES = 400
KEYWORDS = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "id",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "own",
]
TEXTS = ["", "#", "#/definitions/a", "#/own", "dependency", "string", "object", "array", "a", "("]
TEXTS += [
    "#/properties/a/items/0",
    "#/own/~1/%25",
    "urn:x",
    "http://[",
    "a#b#c",
    "^a",
    "(?=a)",
    *DRAFTS,
]
VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2.5,
    1e300,
    10**30,
    "",
    "a",
    [],
    [1],
    {},
    {"a": 1},
    {"b": []},
]


def a_tree(source: random.Random, depth: int) -> Any:
    kind = source.random()
    if depth == 0 or kind < 0.15:
        return source.choice([*VALUES, *TEXTS])
    if kind < 0.3:
        return [a_tree(source, depth - 1) for _ in range(source.randrange(4))]
    return {
        source.choice([*KEYWORDS, "a", "b"]): a_tree(source, depth - 1)
        for _ in range(source.randrange(5))
    }


def a_schema(source: random.Random, depth: int = 3) -> Any:
    """Mostly what each keyword expects, so that many are accepted."""
    tree = {}
    for keyword in source.sample(KEYWORDS, source.randrange(5)):
        tree[keyword] = (
            a_tree(source, 2) if source.random() < 0.1 else proper(source, keyword, depth)
        )
    return tree


def proper(source: random.Random, keyword: str, depth: int) -> Any:
    inner = a_schema(source, depth - 1) if depth else source.choice([True, False, {}])
    if keyword in ("$defs", "definitions", "properties", "patternProperties", "dependentSchemas"):
        return {"a": inner, "^b": True}
    if keyword in ("allOf", "anyOf", "oneOf", "prefixItems"):
        return [inner, {"type": "string"}]
    if keyword in ("$ref", "$recursiveRef", "$dynamicRef", "$id", "id"):
        return source.choice(TEXTS)
    if keyword in ("required", "enum"):
        return ["a", "b"]
    if keyword == "type":
        return source.choice(["string", "object", "array", "integer", ["null", "object"]])
    if keyword.startswith(("max", "min")):
        return source.randrange(4)
    if keyword in ("$schema", "pattern", "title", "format", "$anchor"):
        return source.choice([*DRAFTS, "^a"])
    return inner


def parsed(tree: Any) -> JsonSchema | None:
    try:
        return parse(json.dumps(tree), [Dependency("dependency", '{"properties": {"a": false}}')])
    except SchemaError:
        return None


@pytest.mark.long
@pytest.mark.parametrize("draft", DRAFTS)
def test_no_schema_raises_anything_else(draft):
    source = random.Random(SEED + DRAFTS.index(draft))
    found = []
    for _ in range(TRIES):
        tree = source.choice([a_schema, a_tree])(source, 3)
        found.append(parsed({"$schema": draft, **tree} if isinstance(tree, dict) else tree))
    accepted = [each for each in found if each is not None]
    assert len(accepted) > TRIES // 10
    for schema in accepted:
        assert parse(schema.canonical, [Dependency("dependency", "{}")]) == schema
        assert schema.normalized().normalized() == schema.normalized()
        assert schema.incompatibilities(schema) == [], schema.canonical
        schema.incompatibilities(source.choice(accepted))
        schema.lenient_incompatibilities(source.choice(accepted))
        for value in VALUES:
            try:
                assert schema.decoded(schema.encoded(value)) == value
            except ValueMismatch:
                continue
