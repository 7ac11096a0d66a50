"""The reading of a JSON schema, with all that it refers to, as shapes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import referencing.exceptions

from wirekafka.schemas.json.dialects import Dialect, dialect_of
from wirekafka.schemas.json.document import Tree, identity
from wirekafka.schemas.json.patterns import check_patterns
from wirekafka.schemas.json.references import NamedTree, registry_of
from wirekafka.schemas.json.shapes import (
    Anything,
    ArrayShape,
    BooleanShape,
    Combined,
    Conditional,
    Constant,
    Enumeration,
    Negated,
    Nothing,
    NullShape,
    Number,
    NumberShape,
    ObjectShape,
    Operator,
    Referral,
    Shape,
    StringShape,
)
from wirekafka.schemas.schema import SchemaError

MAX_NESTED = 30
"""Schemas within schemas that are read at once, each with about eight frames of the stack."""

_STRING_LIMITS = ("maxLength", "minLength")
_NUMBER_LIMITS = ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum")
_ARRAY_LIMITS = ("maxItems", "minItems")
_OBJECT_LIMITS = ("maxProperties", "minProperties")

_KEYWORDS = {
    "string": {*_STRING_LIMITS, "pattern"},
    "number": {*_NUMBER_LIMITS, "multipleOf"},
    "array": {
        *_ARRAY_LIMITS,
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedItems",
        "uniqueItems",
        "contains",
    },
    "object": {
        *_OBJECT_LIMITS,
        "properties",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "required",
        "propertyNames",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
    },
}
"""By the type that a schema without `type` has if it has one of the keywords."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_APPLICATORS = {*_REFERENCES, "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies"}


def shape_of(tree: Tree, dependencies: Sequence[NamedTree] = ()) -> Shape:
    """The shape of a schema. Raises SchemaError, also for a reference to what is not there."""
    dialect = dialect_of(tree)
    registry = registry_of(tree, dependencies)
    resolver = registry.resolver_with_root(dialect.specification.create_resource(tree))
    return _Reader(dialect).read_all(tree, resolver)


@dataclass(slots=True)
class _Reader:
    dialect: Dialect
    shapes: dict[int, Shape] = field(default_factory=dict)
    """By the identity of the tree: each schema is read once, however many refer to it."""
    depth: int = 0
    deferred: deque[tuple[Referral, dict[str, Tree], Any]] = field(default_factory=deque)
    """Schemas so deep within others that they are read when the stack is empty again."""
    open_referrals: deque[tuple[Referral, str, Any]] = field(default_factory=deque)
    patterns: dict[str, None] = field(default_factory=dict)

    def read_all(self, tree: Tree, resolver: Any) -> Shape:
        root = self._read(tree, resolver)
        referrals = []
        while self.deferred or self.open_referrals:
            while self.deferred:
                referral, inner, where = self.deferred.popleft()
                referral.target = self._joined(inner, where)
                referrals.append((referral, ""))
            if self.open_referrals:
                referral, uri, where = self.open_referrals.popleft()
                referral.target = self._target(uri, where)
                referrals.append((referral, uri))
        for referral, uri in referrals:
            _shorten(referral, uri)
        check_patterns(self.patterns)
        return root

    def _target(self, uri: str, resolver: Any) -> Shape:
        try:
            found = resolver.lookup(uri)
        except (referencing.exceptions.Unresolvable, ValueError, TypeError, AttributeError):
            raise SchemaError(f'the reference "{uri}" cannot be resolved') from None
        return self._read(found.contents, found.resolver)

    def _read(self, tree: Tree, resolver: Any) -> Shape:
        if tree is True:
            return Anything()
        if tree is False:
            return Nothing()
        if not isinstance(tree, dict):
            raise SchemaError("a schema within the schema is no object and no boolean")
        known = self.shapes.get(id(tree))
        if known is None:
            inner = resolver
            if isinstance(tree.get(self.dialect.id_keyword), str):
                inner = resolver.in_subresource(self.dialect.specification.create_resource(tree))
            if self.depth < MAX_NESTED:
                self.depth += 1
                known = self._joined(tree, inner)
                self.depth -= 1
            else:
                known = Referral()
                self.deferred.append((known, tree, inner))
            known.has_default = known.has_default or "default" in tree
            self.shapes[id(tree)] = known
        return known

    def _joined(self, tree: dict[str, Tree], resolver: Any) -> Shape:
        references = list(self._references(tree, resolver))
        if references and not self.dialect.references_have_siblings:
            return references[0]
        parts = [*self._parts(tree, resolver), *references]
        if not parts:
            return Anything()
        return parts[0] if len(parts) == 1 else Combined(operator=Operator.ALL, parts=parts)

    def _references(self, tree: dict[str, Tree], resolver: Any) -> Iterator[Shape]:
        allowed = _REFERENCES if self.dialect.references_have_siblings else _REFERENCES[:1]
        for keyword in allowed:
            if keyword not in tree:
                continue
            uri = tree[keyword]
            if not isinstance(uri, str):
                raise SchemaError(f'"{keyword}" is no URI')
            referral = Referral()
            self.open_referrals.append((referral, uri, resolver))
            yield referral

    def _parts(self, tree: dict[str, Tree], resolver: Any) -> Iterator[Shape]:
        yield from self._typed_parts(tree, resolver)
        if "enum" in tree:
            values = frozenset(identity(each) for each in _list(tree, "enum"))
            yield Enumeration(values=values)
        if "const" in tree:
            yield Constant(value=identity(tree["const"]))
        if "not" in tree:
            yield Negated(part=self._read(tree["not"], resolver))
        if "if" in tree:
            yield Conditional(
                condition=self._read(tree["if"], resolver),
                consequence=self._optional(tree, "then", resolver),
                alternative=self._optional(tree, "else", resolver),
            )
        for operator in Operator:
            if operator in tree:
                parts = [self._read(each, resolver) for each in _list(tree, operator)]
                yield Combined(operator=operator, parts=parts)

    def _typed_parts(self, tree: dict[str, Tree], resolver: Any) -> Iterator[Shape]:
        types = tree.get("type")
        if isinstance(types, list):
            parts = [self._of_type(each, tree, resolver) for each in types]
            yield Combined(operator=Operator.ANY, parts=parts)
        elif types is not None:
            yield self._of_type(types, tree, resolver)
        else:
            for name, keywords in _KEYWORDS.items():
                if not keywords.isdisjoint(tree):
                    yield self._of_type(name, tree, resolver)

    def _of_type(self, name: Tree, tree: dict[str, Tree], resolver: Any) -> Shape:
        match name:
            case "string":
                return self._string(tree)
            case "number" | "integer":
                return _number_shape(tree, is_integer=name == "integer")
            case "array":
                return self._array(tree, resolver)
            case "object":
                return self._object(tree, resolver)
            case "boolean":
                return BooleanShape()
            case "null":
                return NullShape()
        raise SchemaError(f"unknown type {name!r}")

    def _string(self, tree: dict[str, Tree]) -> Shape:
        pattern = tree.get("pattern")
        if not isinstance(pattern, str):
            pattern = None
        else:
            self.patterns[pattern] = None
        return StringShape(limits=_limits(tree, _STRING_LIMITS), pattern=pattern)

    def _array(self, tree: dict[str, Tree], resolver: Any) -> Shape:
        if self.dialect.has_prefix_items:
            tuple_keyword, rest = "prefixItems", tree.get("items")
        elif isinstance(tree.get("items"), list):
            tuple_keyword, rest = "items", tree.get("additionalItems")
        else:
            tuple_keyword, rest = "", tree.get("items")
        if rest is None and _APPLICATORS.isdisjoint(tree):
            rest = tree.get("unevaluatedItems")
        leading = [self._read(each, resolver) for each in _list(tree, tuple_keyword)]
        return ArrayShape(
            limits=_limits(tree, _ARRAY_LIMITS),
            is_tuple=tuple_keyword in tree,
            leading=leading,
            rest=None if rest is None or rest is True else self._read(rest, resolver),
            are_unique=tree.get("uniqueItems") is True,
            contained=self._optional(tree, "contains", resolver),
        )

    def _object(self, tree: dict[str, Tree], resolver: Any) -> Shape:
        additional = tree.get("additionalProperties")
        if additional is None and _APPLICATORS.isdisjoint(tree):
            additional = tree.get("unevaluatedProperties")
        is_schema = isinstance(additional, dict)
        shape = ObjectShape(
            limits=_limits(tree, _OBJECT_LIMITS),
            properties=self._members(tree, "properties", resolver),
            patterns=self._members(tree, "patternProperties", resolver),
            permits_additional=additional is not False,
            additional=self._read(additional, resolver) if is_schema else None,
            required=_names(tree.get("required", [])),
            names=self._optional(tree, "propertyNames", resolver),
        )
        self.patterns.update(dict.fromkeys(shape.patterns))
        for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
            for name, value in _object(tree, keyword).items():
                if isinstance(value, list):
                    shape.required_by[name] = frozenset(_names(value))
                else:
                    shape.dependent[name] = self._read(value, resolver)
        return shape

    def _members(self, tree: dict[str, Tree], keyword: str, resolver: Any) -> dict[str, Shape]:
        members = _object(tree, keyword)
        return {name: self._read(each, resolver) for name, each in members.items()}

    def _optional(self, tree: dict[str, Tree], keyword: str, resolver: Any) -> Shape | None:
        return self._read(tree[keyword], resolver) if keyword in tree else None


def _shorten(referral: Referral, uri: str) -> None:
    """Make a chain of references refer to where it ends. Raises SchemaError if it does not end."""
    chain: dict[Referral, None] = {}
    shape: Shape | None = referral
    while isinstance(shape, Referral):
        if shape in chain:
            raise SchemaError(f'the reference "{uri}" refers to itself')
        chain[shape] = None
        shape = shape.target
    for each in chain:
        each.target = shape


def _number_shape(tree: dict[str, Tree], *, is_integer: bool) -> NumberShape:
    limits = _limits(tree, _NUMBER_LIMITS)
    for keyword, exclusive in (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")):
        # Draft 4 has a flag beside the limit.
        if tree.get(exclusive) is True and keyword in limits:
            limits[exclusive] = limits.pop(keyword)
    multiple = _limits(tree, ("multipleOf",)).get("multipleOf")
    return NumberShape(is_integer=is_integer, limits=limits, multiple_of=multiple)


def _limits(tree: dict[str, Tree], keywords: Sequence[str]) -> dict[str, Number]:
    found = {keyword: tree[keyword] for keyword in keywords if keyword in tree}
    return {
        keyword: limit
        for keyword, limit in found.items()
        if isinstance(limit, int | Decimal) and not isinstance(limit, bool)
    }


def _names(value: Tree) -> tuple[str, ...]:
    # In draft 3, which has no dialect here, `required` was a boolean of the property.
    if not isinstance(value, list):
        return ()
    return tuple(each for each in value if isinstance(each, str))


def _object(tree: dict[str, Tree], keyword: str) -> dict[str, Tree]:
    found = tree.get(keyword, {})
    if not isinstance(found, dict):
        raise SchemaError(f'"{keyword}" is no object')
    return found


def _list(tree: dict[str, Tree], keyword: str) -> list[Tree]:
    found = tree.get(keyword, [])
    if not isinstance(found, list):
        raise SchemaError(f'"{keyword}" is no array')
    return found
