"""The tables of topics as pages show them: read from the catalog, in the page's own thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wirekafka.client.client import CliError
from wirekafka.config.table_place import TablePlace
from wirekafka.console.excerpts import excerpt_of, show

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from wirekafka.translation.table_preview import Preview
    from wirekafka.translation.table_summary import NodeReport, TableSummary

_MOST_CHARACTERS = 400
_KEPT_BYTES = 400


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row of a table in words."""

    partition: int
    offset: int
    timestamp_ms: int | None
    cells: list[str | None]
    """The key, then the columns of the value; None for null."""


class TableReads:
    """Reads the tables of one place, for all visitors. Raises CliError.

    pyiceberg is imported, and the catalog opened, when the first page needs it: it takes a second.
    """

    def __init__(self, place: TablePlace) -> None:
        self.place = place
        self._lock = threading.Lock()
        self._catalog: Catalog | None = None

    def topics(self) -> list[str]:
        """The topics that have tables."""
        with self._opened() as catalog:
            from wirekafka.translation.table_summary import topic_tables

            return topic_tables(catalog, self.place.namespace)

    def summary(self, topic: str) -> TableSummary | None:
        """The size and the marks of a table; None if there is no such table."""
        with self._opened() as catalog:
            from wirekafka.translation.table_summary import summary_of

            return summary_of(catalog, self.place.namespace, topic)

    def reports(self) -> list[NodeReport]:
        """What the workers of the nodes have written."""
        with self._opened() as catalog:
            from wirekafka.translation.table_summary import node_reports

            return node_reports(catalog)

    def preview(self, name: str) -> Preview | None:
        """The newest rows of a table; None if there is no such table."""
        with self._opened() as catalog:
            from pyiceberg.exceptions import NoSuchTableError

            from wirekafka.tables.iceberg.problems import passing_problems
            from wirekafka.translation.table_preview import newest_rows

            with passing_problems(name):
                try:
                    return newest_rows(catalog.load_table((self.place.namespace, name)))
                except NoSuchTableError:
                    return None

    @contextmanager
    def _opened(self) -> Iterator[Catalog]:
        try:
            from wirekafka.tables.iceberg.catalog import open_catalog
            from wirekafka.tables.iceberg.problems import CatalogProblem, WrongTable
        except ModuleNotFoundError as error:
            raise CliError(f"tables need `pip install 'wirekafka[iceberg]'`: {error}") from None
        place = self.place
        try:
            with self._lock:
                if self._catalog is None:
                    self._catalog = open_catalog(
                        place.url, name=place.catalog_name, properties=place.catalog_properties
                    )
            yield self._catalog
        except (CatalogProblem, ValueError, WrongTable) as error:
            raise CliError(str(error)) from error


def shown_rows(preview: Preview) -> list[ShownRow]:
    """The rows of a preview in words, each value shortened."""
    return [
        ShownRow(
            each.partition,
            each.offset,
            each.timestamp_ms,
            [_words(value) for value in (each.key, *each.values)],
        )
        for each in preview.rows
    ]


def _words(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        excerpt = excerpt_of(value, _KEPT_BYTES)
        assert excerpt is not None
        shown = show(excerpt)
        return shown.text + ("…" if shown.is_cut else "")
    text = value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return _words(value)
        case dict():
            return {str(name): _plain(each) for name, each in value.items()}
        case Sequence():
            return [_plain(each) for each in value]
        case _:
            return str(value)
