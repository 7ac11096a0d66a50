"""Long tables: a filter, an order, and one page of a hundred rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")

ROWS = 100


@dataclass(frozen=True, slots=True)
class PagedTable(Generic[Row]):
    """The rows of one page of a table, and the parameters of links to the other pages."""

    rows: Sequence[Row]
    total: int
    """How many rows pass the filter."""
    page: int
    pages: int
    sort: str
    filter: str


def table(
    rows: Sequence[Row],
    query: Mapping[str, str],
    *,
    name: Callable[[Row], str],
    sorts: Mapping[str, Callable[[Row], Any]],
    default: str = "",
) -> PagedTable[Row]:
    """Filter by `q` in a row's name, order by `sort` ("-lag" is descending), and cut out `page`.

    Without `sort`, `default` is the order, or the first of `sorts`. None is last in every order.
    """
    wanted = query.get("q", "").strip()
    if wanted:
        rows = [row for row in rows if wanted.lower() in name(row).lower()]
    sort = query.get("sort", "")
    if sort.removeprefix("-") not in sorts:
        sort = default or next(iter(sorts))
    key = sorts[sort.removeprefix("-")]
    is_descending = sort.startswith("-")
    known = [row for row in rows if key(row) is not None]
    known.sort(key=key, reverse=is_descending)
    ordered = [*known, *(row for row in rows if key(row) is None)]
    pages = max(-(-len(ordered) // ROWS), 1)
    text = query.get("page", "1")
    page = min(max(int(text), 1), pages) if text.isascii() and text.isdigit() else 1
    shown = ordered[(page - 1) * ROWS : page * ROWS]
    return PagedTable(shown, len(ordered), page, pages, sort, wanted)
