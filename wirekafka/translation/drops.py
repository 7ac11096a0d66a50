"""The end of a table whose topic was deleted (`wirekafka.table.delete`)."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from wirekafka.tables.iceberg.layout import TOPIC_ID_PROPERTY
from wirekafka.tables.iceberg.problems import WrongTable, passing_problems


def drop_table(catalog: Catalog, identifier: tuple[str, str], topic_id: str) -> None:
    """Drop a table and delete its files, if there is one.

    Raises WrongTable for the table of another topic, and CatalogProblem.
    """
    name = ".".join(identifier)
    with passing_problems(name):
        try:
            table = catalog.load_table(identifier)
        except NoSuchTableError:
            return
        owner = table.properties.get(TOPIC_ID_PROPERTY)
        if owner != topic_id:
            raise WrongTable(f"{name} is of topic id {owner}, not of {topic_id}")
        catalog.purge_table(identifier)
