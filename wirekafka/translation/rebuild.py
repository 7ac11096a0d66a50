"""A new beginning of a table: the old one is set aside under another name, not deleted.

Renaming the table is one step in the catalog. A worker that has it open finds it gone at its next
commit, which adds nothing, or within half a minute; it creates the table anew, whose marks say that
no record is there yet, and so backfills it from the start of the log. Commits compare the table's
UUID: a commit that was prepared for the old table is never made to the new table. Dead letters
belong to one table, whose UUID is their property: the worker sets an earlier table's dead letters
aside, too.
"""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

from wirekafka.tables.iceberg.layout import dead_letter_table
from wirekafka.tables.iceberg.problems import WrongTable, passing_problems
from wirekafka.tables.iceberg.topic_table import TopicTable

TABLE_UUID = "wirekafka.table-uuid"
"""The property of dead letters that has the UUID of their table."""


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


def settle_dead_letters(table: TopicTable) -> None:
    """Set the dead letters of an earlier table aside; nobody's dead letters become this table's.

    Raises TableGone if another table has taken the place of this one, and CatalogProblem.
    """
    namespace, topic = table.identifier
    name = dead_letter_table(topic)
    uuid = str(table.table.metadata.table_uuid)
    with passing_problems(f"{namespace}.{name}"):
        try:
            letters = table.catalog.load_table((namespace, name))
        except NoSuchTableError:
            return
        owner = letters.properties.get(TABLE_UUID)
        if owner is None:
            with letters.transaction() as transaction:
                transaction.set_properties({TABLE_UUID: uuid})
        elif owner != uuid:
            table.refresh()  # The dead letters may belong to a newer table.
            older = older_name(table.catalog, namespace, name)
            set_aside(table.catalog, namespace, name, older)
