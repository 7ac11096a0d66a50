"""JSON schemas: their texts, their values, and what makes two of them incompatible."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from wirekafka.schemas.json.compatibility import incompatibilities
from wirekafka.schemas.json.dialects import check, dialect_of
from wirekafka.schemas.json.differences import LENIENT, JsonChange
from wirekafka.schemas.json.document import (
    Tree,
    compact_text,
    sorted_text,
    tree_of,
    without_decimals,
)
from wirekafka.schemas.json.references import NamedTree, registry_of
from wirekafka.schemas.json.shape_reader import shape_of
from wirekafka.schemas.json.shapes import Shape
from wirekafka.schemas.json.validation import check_value, validator_class
from wirekafka.schemas.schema import Dependency, Format, ParsedSchema, ValueMismatch


def parse(text: str, dependencies: Sequence[Dependency] = ()) -> JsonSchema:
    """The schema of a text. Its references are found among the dependencies, by name as URI.

    Nothing is read from a file or a network. Raises SchemaError.
    """
    trees = []
    for dependency in dependencies:
        trees.append(NamedTree(dependency.name, tree_of(dependency.text)))
        check(trees[-1].tree)
    tree = tree_of(text)
    check(tree)
    return JsonSchema(tree, tuple(trees))


class JsonSchema:
    """A parsed schema of the format JSON."""

    format = Format.JSON

    def __init__(self, tree: Tree, dependencies: tuple[NamedTree, ...] = ()):
        """Of a tree that is valid in its draft. Raises SchemaError for what it refers to."""
        self._tree = tree
        self._dependencies = dependencies
        self._shape: Shape = shape_of(tree, dependencies)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonSchema) and self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)

    @property
    def tree(self) -> Tree:
        """The schema's text as a tree."""
        return self._tree

    @property
    def dependencies(self) -> tuple[NamedTree, ...]:
        """The schemas that it may refer to."""
        return self._dependencies

    @cached_property
    def canonical(self) -> str:
        """The text without white space: members in their order, numbers as written."""
        return compact_text(self._tree)

    def normalized(self) -> JsonSchema:
        """The schema with the members of all its objects sorted."""
        return JsonSchema(tree_of(sorted_text(self._tree)), self._dependencies)

    def incompatibilities(self, older: ParsedSchema) -> Sequence[str]:
        """Why data written with `older` may not match this schema, by the policy STRICT."""
        return self._messages(older, frozenset())

    def lenient_incompatibilities(self, older: ParsedSchema) -> Sequence[str]:
        """The same by the policy LENIENT, which takes writers to be closed and readers open."""
        return self._messages(older, LENIENT)

    def _messages(self, older: ParsedSchema, allowed: frozenset[JsonChange]) -> Sequence[str]:
        assert isinstance(older, JsonSchema)
        found = incompatibilities(older._shape, self._shape, allowed)
        return [difference.message() for difference in found]

    def name(self) -> str | None:
        """The schema's title."""
        title = self._tree.get("title") if isinstance(self._tree, dict) else None
        return title if isinstance(title, str) else None

    def decoded(self, payload: bytes) -> Any:
        """The value of a JSON text. It is not checked: consumers do not check it by default."""
        try:
            return json.loads(payload, parse_constant=_refuse_constant)
        except RecursionError:
            raise ValueMismatch("the JSON text is nested too deeply") from None
        except ValueError as error:
            raise ValueMismatch(f"invalid JSON: {error}") from None

    def encoded(self, value: Any) -> bytes:
        """The compact JSON text of a value that matches the schema."""
        try:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            payload = text.encode()
        except RecursionError:
            raise ValueMismatch("the value is nested too deeply") from None
        except (TypeError, ValueError) as error:
            raise ValueMismatch(f"the value has no JSON text: {error}") from None
        check_value(value, len(payload), self._validator)
        return payload

    @cached_property
    def _validator(self) -> Any:
        tree = without_decimals(self._tree)
        dependencies = [each.without_decimals() for each in self._dependencies]
        registry = registry_of(tree, dependencies)
        return validator_class(dialect_of(tree))(tree, registry=registry)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
