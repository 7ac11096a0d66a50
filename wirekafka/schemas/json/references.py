"""The texts that `$ref` may name: of a schema and of the schemas that it refers to, nothing else.

A reference has a URI as its name. It is resolved against the `$id` of the schema that refers to it,
so a dependency is found by its name, by the name relative to such an `$id`, and by its own `$id`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from jsonschema_specifications import REGISTRY
from referencing import Registry, Resource

from wirekafka.schemas.json.dialects import Dialect, dialect_of
from wirekafka.schemas.json.document import Tree, without_decimals
from wirekafka.schemas.schema import SchemaError

MAX_NAMES = 100_000
"""Of dependencies, each relative to the folder of each other."""


@dataclass(frozen=True, slots=True)
class NamedTree:
    """The tree of a dependency under the name that refers to it."""

    name: str
    tree: Tree

    def without_decimals(self) -> NamedTree:
        return NamedTree(self.name, without_decimals(self.tree))


def id_of(tree: Tree, dialect: Dialect) -> str:
    """The URI of a schema by its own `$id`; empty if it has none."""
    found = tree.get(dialect.id_keyword) if isinstance(tree, dict) else None
    return found if isinstance(found, str) else ""


def registry_of(tree: Tree, dependencies: Sequence[NamedTree]) -> Registry[Any]:
    """All that the tree may refer to, itself and the meta-schemas too; it never reads a URI.

    Raises SchemaError.
    """
    resources: dict[str, Resource[Any]] = {}
    for dependency in dependencies:
        dialect = dialect_of(dependency.tree)
        resources[dependency.name] = dialect.specification.create_resource(dependency.tree)
    try:
        joined = dict(_relative_names(tree, dependencies, resources))
    except ValueError as error:
        raise SchemaError(f"invalid URI: {error}") from None
    own = dialect_of(tree).specification.create_resource(tree)
    registry: Registry[Any] = REGISTRY.with_resources([*joined.items(), *resources.items()])
    whole: Registry[Any] = registry.with_resource(id_of(tree, dialect_of(tree)), own)
    # Crawled once here, or each look-up of an anchor would crawl it again.
    return whole.crawl()


def _relative_names(
    tree: Tree, dependencies: Sequence[NamedTree], resources: dict[str, Resource[Any]]
) -> Iterator[tuple[str, Resource[Any]]]:
    bases = {id_of(tree, dialect_of(tree))}
    for dependency in dependencies:
        own = id_of(dependency.tree, dialect_of(dependency.tree))
        bases.add(urljoin(dependency.name, own))
    folders = {urljoin(base, ".") for base in bases if urlsplit(base).path or "//" in base}
    if len(folders) * len(resources) > MAX_NAMES:
        raise SchemaError("the schema has too many references")
    for folder in folders:
        for name, resource in resources.items():
            yield urljoin(folder, name), resource
