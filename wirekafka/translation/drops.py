"""The end of a table whose topic was deleted (`wirekafka.table.delete`).

The options of a deleted topic are gone. So the table has a property that says that it goes with its
topic: a worker that starts later lists such tables, and its broker decides whose topics are gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from wirekafka.metrics.table_status import DeletableTable
from wirekafka.tables.iceberg.layout import DELETION_PROPERTY, TOPIC_ID_PROPERTY, dead_letter_table
from wirekafka.tables.iceberg.problems import WrongTable, passing_problems
from wirekafka.tables.iceberg.topic_table import TopicTable
from wirekafka.translation.table_summary import topic_tables

logger = logging.getLogger(__name__)


def drop_tables(catalog: Catalog, namespace: str, topic: str, topic_id: str) -> None:
    """Drop the table of a topic and its dead letters, with their files, as far as they are there.

    Raises WrongTable for the table of another topic, and CatalogProblem.
    """
    # The table itself has the mark: it is the last to go, so that a crash leaves the mark.
    for name in (dead_letter_table(topic), topic):
        _drop_table(catalog, (namespace, name), topic_id)


def _drop_table(catalog: Catalog, identifier: tuple[str, str], topic_id: str) -> None:
    name = ".".join(identifier)
    with passing_problems(name):
        try:
            table = catalog.load_table(identifier)
            owner = table.properties.get(TOPIC_ID_PROPERTY)
            if owner != topic_id:
                raise WrongTable(f"{name} is of topic id {owner}, not of {topic_id}")
            catalog.purge_table(identifier)
        except NoSuchTableError:
            return  # Another node may have dropped it meanwhile.


def mark_deletion(table: TopicTable, mark: str | None) -> None:
    """Note in a table that it goes with its topic, or with None that it stays.

    An earlier mark is kept. Raises CatalogProblem.
    """
    present = table.table.properties.get(DELETION_PROPERTY)
    if (present is None) == (mark is None):
        return
    with passing_problems(table.name), table.table.transaction() as transaction:
        if mark is None:
            transaction.remove_properties(DELETION_PROPERTY)
        else:
            transaction.set_properties({DELETION_PROPERTY: mark})


class DeletableTables:
    """Looks once at all tables of a namespace, which ones go with their topics."""

    def __init__(self, catalog: Callable[[], Catalog], namespace: str):
        self._catalog = catalog
        self._namespace = namespace
        self._names: list[str] | None = None
        """The tables that were not looked at yet; None before they are listed."""

    @property
    def is_done(self) -> bool:
        """Whether all tables were looked at."""
        return self._names == []

    def next(self) -> DeletableTable | None:
        """Look at one more table; returns it if it goes with its topic. Raises CatalogProblem."""
        if self._names is None:
            self._names = topic_tables(self._catalog(), self._namespace)
            return None
        if not self._names:
            return None
        try:
            found = self._deletable(self._names[-1])
        except WrongTable as error:  # It has lost its files, and keeps no other from being found.
            logger.warning("Whether it goes with its topic is unknown: %s", error)
            found = None
        self._names.pop()
        return found

    def _deletable(self, name: str) -> DeletableTable | None:
        identifier = (self._namespace, name)
        with passing_problems(".".join(identifier)):
            try:
                properties = self._catalog().load_table(identifier).properties
            except NoSuchTableError:
                return None
        mark, topic_id = properties.get(DELETION_PROPERTY), properties.get(TOPIC_ID_PROPERTY)
        return None if mark is None or not topic_id else DeletableTable(name, topic_id, mark)
