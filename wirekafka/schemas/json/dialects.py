"""The drafts of JSON Schema: which one a schema is written in, and the check that it is valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import referencing.jsonschema
from jsonschema import ValidationError, validators
from jsonschema_specifications import REGISTRY
from referencing import Specification

from wirekafka.schemas.json.document import Tree, identity, without_decimals
from wirekafka.schemas.schema import SchemaError

MAX_REASON_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Dialect:
    """A draft: the library's validator of it, and what the shapes depend on."""

    validator_class: Any
    specification: Specification[Any]
    references_have_siblings: bool = False
    """Whether keywords beside `$ref` count."""
    has_prefix_items: bool = False
    """Whether `prefixItems` is a tuple and `items` the rest, not `items` and `additionalItems`."""

    @property
    def id_keyword(self) -> str:
        return "id" if self.specification is referencing.jsonschema.DRAFT4 else "$id"


_DRAFT_7 = Dialect(validators.Draft7Validator, referencing.jsonschema.DRAFT7)
_DIALECTS = {
    "json-schema.org/draft-04/schema": Dialect(
        validators.Draft4Validator, referencing.jsonschema.DRAFT4
    ),
    "json-schema.org/draft-06/schema": Dialect(
        validators.Draft6Validator, referencing.jsonschema.DRAFT6
    ),
    "json-schema.org/draft-07/schema": _DRAFT_7,
    "json-schema.org/draft/2019-09/schema": Dialect(
        validators.Draft201909Validator,
        referencing.jsonschema.DRAFT201909,
        references_have_siblings=True,
    ),
    "json-schema.org/draft/2020-12/schema": Dialect(
        validators.Draft202012Validator,
        referencing.jsonschema.DRAFT202012,
        references_have_siblings=True,
        has_prefix_items=True,
    ),
}


def dialect_of(tree: Tree) -> Dialect:
    """By its `$schema`; draft 7 for other URIs and without one, as Confluent's registry does."""
    uri = tree.get("$schema") if isinstance(tree, dict) else None
    if not isinstance(uri, str):
        return _DRAFT_7
    # Generators of schemas write either scheme, with a fragment or without.
    name = uri.removesuffix("#").removeprefix("https:").removeprefix("http:").removeprefix("//")
    return _DIALECTS.get(name, _DRAFT_7)


def check(tree: Tree) -> None:
    """Raise SchemaError if the tree is no schema of its draft."""
    if not isinstance(tree, dict | bool):
        raise SchemaError("a JSON schema is an object or a boolean")
    if isinstance(tree, bool):
        return
    plain = without_decimals(tree)
    validator = _meta_validator(dialect_of(tree))
    inner = [plain]
    _inner_schemas.set(inner)
    while inner:
        schema = inner.pop()
        try:
            error = next(validator.iter_errors(schema), None)
        except OverflowError as overflow:
            raise SchemaError(f"a number of the schema is too large: {overflow}") from None
        if error is not None:
            raise SchemaError(reason(error, _path_to(schema, plain)))


def reason(error: Any, path: str = "#") -> str:
    """Where and why a value at a path does not match, in bounded length."""
    inner_path = "".join(f"/{part}" for part in error.absolute_path)
    text = f"{path}{inner_path}: {error.message}"
    return text if len(text) <= MAX_REASON_LENGTH else f"{text[:MAX_REASON_LENGTH]}…"


def unique_items(validator: Any, are_unique: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """The keyword `uniqueItems`, in linear time: the library's may take the square of it."""
    if not are_unique or not validator.is_type(instance, "array"):
        return
    if len({identity(item) for item in instance}) < len(instance):
        yield ValidationError("the items are not unique")


def validator_class_with(dialect: Dialect, keywords: Mapping[str, Any]) -> Any:
    """The library's class with other functions for some keywords, in all schemas that it meets."""
    extended = validators.extend(dialect.validator_class, {"uniqueItems": unique_items, **keywords})
    # The library's own method changes to its stock class where a schema has `$schema`.
    extended.evolve = _evolved
    return extended


def _evolved(validator: Any, **changes: Any) -> Any:
    kept = {
        "schema": validator.schema,
        "registry": validator._registry,
        "format_checker": validator.format_checker,
        "_resolver": validator._resolver,
    }
    return type(validator)(**(kept | changes))


_inner_schemas: ContextVar[list[Tree]] = ContextVar("inner_schemas")


@lru_cache(maxsize=8)
def _meta_validator(dialect: Dialect) -> Any:
    own = dialect.validator_class.VALIDATORS
    keywords = {
        keyword: _deferred(own[keyword])
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef")
        if keyword in own
    }
    meta_schema = dialect.validator_class.META_SCHEMA
    return validator_class_with(dialect, keywords)(meta_schema, registry=REGISTRY)


def _deferred(keyword: Any) -> Any:
    """The keyword, but for a reference to the whole meta-schema: the schema is checked later.

    So the check takes the same stack for schemas of any depth.
    """

    def follow(validator: Any, reference: Any, instance: Any, schema: Any) -> Iterator[Any]:
        is_whole = reference in ("#", "#meta")
        if is_whole and isinstance(instance, dict):
            _inner_schemas.get().append(instance)
        else:
            yield from keyword(validator, reference, instance, schema) or ()

    return follow


def _path_to(wanted: Tree, root: Tree) -> str:
    """The path to an object of the tree, found by its identity."""
    waiting = [("#", root)]
    while waiting:
        path, tree = waiting.pop()
        if tree is wanted:
            return path
        members = tree.items() if isinstance(tree, dict) else enumerate(tree)
        waiting += [(f"{path}/{name}", each) for name, each in members if _has_members(each)]
    return "#"


def _has_members(tree: Tree) -> bool:
    return isinstance(tree, dict | list)
