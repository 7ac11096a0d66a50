"""The columns of a JSON schema, found by its types; what has no type of its own has no column."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import referencing.exceptions

from wirekafka.schemas.json.dialects import dialect_of
from wirekafka.schemas.json.document import Tree
from wirekafka.schemas.json.references import registry_of
from wirekafka.schemas.json.schema import JsonSchema
from wirekafka.tables.typed.assembly import ColumnBudget, ValueColumn
from wirekafka.tables.typed.json_columns import (
    JsonArray,
    JsonBoolean,
    JsonDate,
    JsonDateTime,
    JsonInteger,
    JsonMap,
    JsonNumber,
    JsonObject,
    JsonText,
)
from wirekafka.tables.typed.values import UnsupportedSchema

_MAX_VISITS = 20_000
"""Of schemas: each `allOf` and each reference may double them without a column."""

_OBJECT_KEYWORDS = {"properties", "patternProperties", "additionalProperties"}
_ARRAY_KEYWORDS = {"items", "prefixItems", "additionalItems"}
_OWN_KEYWORDS = {"type", "enum", "const", "format", *_OBJECT_KEYWORDS, *_ARRAY_KEYWORDS}
"""Beside which an operator with types of its own would be a second type."""
_OPERATORS = ("allOf", "anyOf", "oneOf")
_DYNAMIC_REFERENCES = ("$dynamicRef", "$recursiveRef")
_NULL = "null"
_MAX_SHOWN_CHARS = 80


def column_of(schema: JsonSchema) -> ValueColumn:
    """The column of the whole schema. Raises UnsupportedSchema, with the place in the schema."""
    planner = _Planner(schema)
    column = planner.column([planner.root()], "", 0)
    _check_names(column.type)
    return column


@dataclass(frozen=True, slots=True)
class _Place:
    """A schema within the schema."""

    tree: Tree
    resolver: Any
    where: str
    around: tuple[int, ...] = ()
    """The identities of the schemas that this one is within, by references too."""

    def at(self, keyword: str, *names: str) -> _Place:
        tree = self.tree[keyword]
        for name in names:
            tree = tree[int(name)] if isinstance(tree, list) else tree[name]
        where = "/".join((self.where, keyword, *map(_escaped, names)))
        return _Place(tree, self.resolver, where, (*self.around, id(self.tree)))


@dataclass(slots=True)
class _Node:
    """What a schema says of its values, references and operators resolved."""

    kind: str
    """The name of the type."""
    where: str
    format: str | None = None
    members: dict[str, list[_Place]] = field(default_factory=dict)
    """The properties of an object; several schemas of one have to agree."""
    values: _Place | None = None
    """Of the properties that have no name."""
    items: list[_Place] = field(default_factory=list)


class _Planner:
    def __init__(self, schema: JsonSchema) -> None:
        self._tree = schema.tree
        self._dialect = dialect_of(schema.tree)
        registry = registry_of(schema.tree, schema.dependencies)
        resource = self._dialect.specification.create_resource(schema.tree)
        self._resolver = registry.resolver_with_root(resource)
        self._budget = ColumnBudget()
        self._visits = 0

    def root(self) -> _Place:
        return _Place(self._tree, self._resolver, "#")

    def column(self, places: Sequence[_Place], path: str, depth: int) -> ValueColumn:
        """The column of values that match all places, or any place: their types are equal."""
        columns = []
        for place in places:
            self._budget.take(place.where, depth)
            nodes = [each for each in self._nodes(place) if each.kind != _NULL]
            if not nodes:
                raise UnsupportedSchema(f"{place.where} allows only null")
            columns += [self._of_node(each, path, depth) for each in nodes]
        types = {each.type: None for each in columns}
        if len(types) > 1:
            shown = ", ".join(textwrap.shorten(str(each), _MAX_SHOWN_CHARS) for each in types)
            raise UnsupportedSchema(f"{places[0].where} has values of several types: {shown}")
        return columns[0]

    def _of_node(self, node: _Node, path: str, depth: int) -> ValueColumn:
        match node.kind:
            case "object" if not node.members and node.values is None:
                raise UnsupportedSchema(f"{node.where} has no properties")
            case "array" if not node.items:
                raise UnsupportedSchema(f"{node.where} has no type of its items")
            case "object" if node.values is not None:
                return JsonMap(path, self.column([node.values], path, depth + 1))
            case "object":
                fields = {
                    name: self.column(places, f"{path}.{name}" if path else name, depth + 1)
                    for name, places in node.members.items()
                }
                return JsonObject(path, fields)
            case "array":
                return JsonArray(path, self.column(node.items, path, depth + 1))
            case "string":
                return _text_column(node.format, path)
            case "integer":
                return JsonInteger(path)
            case "number":
                return JsonNumber(path)
            case "boolean":
                return JsonBoolean(path)
        raise UnsupportedSchema(f"{node.where} has the unknown type {node.kind}")

    def _nodes(self, place: _Place) -> list[_Node]:
        """A node, or one of each alternative."""
        self._visits += 1
        if self._visits > _MAX_VISITS:
            raise UnsupportedSchema(f"{place.where} is too complex")
        if id(place.tree) in place.around:
            raise UnsupportedSchema(f"{place.where} is recursive")
        tree = place.tree
        if not isinstance(tree, dict):
            what = "any value" if tree is True else "no value"
            raise UnsupportedSchema(f"{place.where} allows {what}")
        place = self._based(place)
        own = not _OWN_KEYWORDS.isdisjoint(tree)
        for keyword in _DYNAMIC_REFERENCES:
            if keyword in tree and self._dialect.references_have_siblings:
                raise UnsupportedSchema(f"{place.where} has {keyword}")
        if "$ref" in tree:
            beside = own or any(each in tree for each in _OPERATORS)
            if beside and self._dialect.references_have_siblings:
                return [self._merged(place, [self._referred(place)])]
            return self._nodes(self._referred(place))
        alternatives = [keyword for keyword in ("anyOf", "oneOf") if _is_typed_by(tree, keyword)]
        if not alternatives:
            return [self._merged(place, [])]
        others = own or _is_typed_by(tree, "allOf") or len(alternatives) > 1
        if others:
            raise UnsupportedSchema(f"{place.where} has {alternatives[0]} beside another type")
        (keyword,) = alternatives
        parts = (place.at(keyword, str(i)) for i in range(len(tree[keyword])))
        return [node for part in parts for node in self._nodes(part)]

    def _based(self, place: _Place) -> _Place:
        if not isinstance(place.tree.get(self._dialect.id_keyword), str):
            return place
        resource = self._dialect.specification.create_resource(place.tree)
        resolver = place.resolver.in_subresource(resource)
        return _Place(place.tree, resolver, place.where, place.around)

    def _referred(self, place: _Place) -> _Place:
        uri = place.tree["$ref"]
        try:
            found = place.resolver.lookup(uri)
        except (referencing.exceptions.Unresolvable, ValueError, TypeError, AttributeError):
            raise UnsupportedSchema(f"{place.where} refers to {uri}, which is not there") from None
        return _Place(found.contents, found.resolver, uri, (*place.around, id(place.tree)))

    def _merged(self, place: _Place, referred: list[_Place]) -> _Node:
        """The node of a schema's own keywords and of all schemas that its values match too."""
        tree = place.tree
        parts = list(referred)
        for index, part in enumerate(_parts(tree, "allOf")):
            if _is_typed(part):
                parts.append(place.at("allOf", str(index)))
        nodes = [self._only(part) for part in parts]
        if not _OWN_KEYWORDS.isdisjoint(tree):
            nodes.append(self._own(place, nodes))
        if not nodes:
            raise UnsupportedSchema(f"{place.where} has no type")
        merged = nodes[0]
        for node in nodes[1:]:
            merged = _both(merged, node, place.where)
        self._check_conditions(place, merged)
        return merged

    def _only(self, place: _Place) -> _Node:
        nodes = [node for node in self._nodes(place) if node.kind != _NULL]
        if len(nodes) != 1:
            raise UnsupportedSchema(f"{place.where} has several types")
        return nodes[0]

    def _own(self, place: _Place, others: Sequence[_Node]) -> _Node:
        """The node of a schema's own keywords."""
        tree = place.tree
        kind = _kind(place) or (others[0].kind if others else None)
        if kind is None:
            raise UnsupportedSchema(f"{place.where} has no type")
        node = _Node(kind, place.where)
        if kind == "string" and isinstance(tree.get("format"), str):
            node.format = tree["format"]
        if kind == "object":
            self._add_members(node, place)
        if kind == "array":
            node.items = list(self._items(place))
        return node

    def _add_members(self, node: _Node, place: _Place) -> None:
        if place.tree.get("patternProperties"):
            raise UnsupportedSchema(f"{place.where} has patternProperties")
        names = _members(place.tree, "properties")
        node.members = {name: [place.at("properties", name)] for name in names}
        keywords = ["additionalProperties"]
        if self._dialect.references_have_siblings:
            keywords.append("unevaluatedProperties")
        for keyword in keywords:
            if not _members(place.tree, keyword):
                continue
            if names or node.values is not None:
                raise UnsupportedSchema(f"{place.where} has {keyword} beside properties")
            node.values = place.at(keyword)

    def _items(self, place: _Place) -> Iterator[_Place]:
        tree = place.tree
        tuple_keyword = "prefixItems" if self._dialect.has_prefix_items else "items"
        if isinstance(tree.get(tuple_keyword), list):
            for index in range(len(tree[tuple_keyword])):
                yield place.at(tuple_keyword, str(index))
            rest = "items" if self._dialect.has_prefix_items else "additionalItems"
            if _members(tree, rest):
                yield place.at(rest)
        elif _members(tree, "items"):
            yield place.at("items")

    def _check_conditions(self, place: _Place, node: _Node) -> None:
        """Refuse conditions that add properties, which would have no column."""
        tree = place.tree
        conditional = [(keyword, _members(tree, keyword)) for keyword in ("then", "else")]
        for keyword in ("dependencies", "dependentSchemas"):
            dependent = _members(tree, keyword).values()
            conditional += [(keyword, each) for each in dependent if isinstance(each, dict)]
        others = (_OWN_KEYWORDS | {"$ref", *_OPERATORS}) - {"properties", "type"}
        for keyword, part in conditional:
            added = set(_members(part, "properties")) - set(node.members)
            if added or not others.isdisjoint(part):
                raise UnsupportedSchema(f"{place.where} has {keyword} with types of its own")


def _check_names(type: pa.DataType) -> None:
    """Refuse names that Iceberg cannot have, or cannot keep apart: a.b, and b within a."""
    seen: set[str] = set()
    for name in _names(type, ""):
        if name in seen:
            raise UnsupportedSchema(f"Two properties have the name {name[1:]}")
        if name.endswith("."):
            raise UnsupportedSchema(f"A property has an empty name: {name[1:]}")
        seen.add(name)


def _names(type: pa.DataType, path: str) -> Iterator[str]:
    if pa.types.is_struct(type):
        for each in type:
            yield f"{path}.{each.name}"
            yield from _names(each.type, f"{path}.{each.name}")
    elif pa.types.is_list(type):
        yield from _names(type.value_type, f"{path}.element")
    elif pa.types.is_map(type):
        yield from _names(type.item_type, f"{path}.value")


def _both(one: _Node, other: _Node, where: str) -> _Node:
    """The node of values that match two nodes."""
    kinds = {one.kind, other.kind}
    if len(kinds) > 1 and kinds != {"integer", "number"}:
        raise UnsupportedSchema(f"{where} has several types: {', '.join(sorted(kinds))}")
    kind = min(kinds)  # An integer is a number too.
    members = dict(one.members)
    for name, places in other.members.items():
        members[name] = [*members.get(name, []), *places]
    values = one.values or other.values
    if values is not None and (members or (one.values and other.values)):
        raise UnsupportedSchema(f"{where} has additionalProperties beside properties")
    if kind == "string" and one.format and other.format and one.format != other.format:
        raise UnsupportedSchema(f"{where} has several formats")
    return _Node(
        kind, where, one.format or other.format, members, values, [*one.items, *other.items]
    )


def _kind(place: _Place) -> str | None:
    """The name of the only type but null, by `type` or by what the values are."""
    tree = place.tree
    if "type" in tree:
        kinds = [tree["type"]] if isinstance(tree["type"], str) else list(tree["type"])
    elif "enum" in tree or "const" in tree:
        values = _parts(tree, "enum") or [tree.get("const")]
        kinds = [_kind_of_value(each) for each in values]
    elif not _OBJECT_KEYWORDS.isdisjoint(tree):
        return "object"
    elif not _ARRAY_KEYWORDS.isdisjoint(tree):
        return "array"
    else:
        return None
    found = set(kinds) - {_NULL}
    if found == {"integer", "number"}:
        return "number"
    if len(found) > 1:
        raise UnsupportedSchema(
            f"{place.where} has values of several types: {', '.join(sorted(found))}"
        )
    return found.pop() if found else _NULL


def _kind_of_value(value: Tree) -> str:
    match value:
        case None:
            return _NULL
        case bool():
            return "boolean"
        case int():
            return "integer"
        case Decimal():
            return "number"
        case str():
            return "string"
    return "object" if isinstance(value, dict) else "array"


def _is_typed(tree: Tree) -> bool:
    """Whether a schema says more of its values' types than which of them are allowed."""
    if not isinstance(tree, dict):
        return False
    is_own = not (_OWN_KEYWORDS | {"$ref"}).isdisjoint(tree)
    return is_own or any(_is_typed_by(tree, operator) for operator in _OPERATORS)


def _is_typed_by(tree: dict[str, Tree], operator: str) -> bool:
    return any(_is_typed(part) for part in _parts(tree, operator))


def _parts(tree: dict[str, Tree], keyword: str) -> list[Tree]:
    """The list of a keyword; a keyword that the draft does not know may have any value."""
    found = tree.get(keyword)
    return found if isinstance(found, list) else []


def _members(tree: dict[str, Tree], keyword: str) -> dict[str, Tree]:
    """The object of a keyword."""
    found = tree.get(keyword)
    return found if isinstance(found, dict) else {}


def _text_column(format: str | None, path: str) -> ValueColumn:
    match format:
        case "date-time":
            return JsonDateTime(path)
        case "date":
            return JsonDate(path)
    # A time is text, too: Spark reads no row of a table that has a column of Iceberg's `time`.
    return JsonText(path)


def _escaped(name: str) -> str:
    """The name in a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
