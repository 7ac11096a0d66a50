"""A new beginning of a table: the old one is set aside under another name, not deleted."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

from wirekafka.tables.iceberg.problems import WrongTable, passing_problems


def older_name(catalog: Catalog, namespace: str, name: str) -> str:
    """The first free name for a table that is set aside. Raises CatalogProblem."""
    with passing_problems(f"catalog {catalog.name}"):
        taken = {identifier[-1] for identifier in catalog.list_tables(namespace)}
    number = 1
    while f"{name}~old-{number}" in taken:
        number += 1
    return f"{name}~old-{number}"


def set_aside(catalog: Catalog, namespace: str, name: str, older: str) -> None:
    """Rename a table, in one step. Raises WrongTable and CatalogProblem."""
    with passing_problems(f"{namespace}.{name}"):
        try:
            catalog.rename_table((namespace, name), (namespace, older))
        except (NoSuchTableError, TableAlreadyExistsError) as error:
            raise WrongTable(
                f"{namespace}.{name}: somebody else has renamed it: {error}"
            ) from error
        except NotImplementedError as error:
            raise WrongTable(
                f"the catalog {catalog.name} cannot rename tables: drop {namespace}.{name}, which"
                " is then written again from the log"
            ) from error
