"""The place of the Iceberg tables of topics, for readers of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

IMPLEMENTATIONS = ("type", "py-catalog-impl")
OF_CATALOGS = ("uri", *IMPLEMENTATIONS)
"""Properties of pyiceberg of which each stands for a catalog, so that none is made."""
CATALOG_FILE = "catalog.db"
"""The SQLite file of the catalog in a directory of tables."""
NOT_IN_URIS = "#?%"
"""Characters of a path that readers of tables take for different URIs."""


@dataclass(frozen=True, slots=True)
class TablePlace:
    """The place of tables, their namespace, and their catalog."""

    url: str
    """A directory or the URL of a store, as in `serve --tables`."""
    namespace: str = "redpanda"
    catalog_name: str = "wirekafka"
    catalog_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Properties of pyiceberg; they may have passwords."""
