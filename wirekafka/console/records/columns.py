"""The columns of lists of records, and which of them a visitor has chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

BY_FIELDS = "chosen"
"""The value of `columns` in a submitted form, whose checkboxes are `c_NAME`."""


class ShownColumn(NamedTuple):
    """A column of a list of records."""

    name: str
    title: str
    is_number: bool = False
    is_usual: bool = True
    """Whether it is there if nothing was chosen."""


COLUMNS: Sequence[ShownColumn] = (
    ShownColumn("partition", "Partition", is_number=True),
    ShownColumn("offset", "Offset", is_number=True),
    ShownColumn("time", "Time"),
    ShownColumn("key", "Key"),
    ShownColumn("value", "Value"),
    ShownColumn("state", "Transaction, headers"),
    ShownColumn("headers", "Headers", is_usual=False),
    ShownColumn("size", "Size", is_number=True, is_usual=False),
    ShownColumn("producer", "Producer id", is_number=True, is_usual=False),
)


def chosen(query: Mapping[str, str]) -> Sequence[ShownColumn]:
    """The columns that a query names, as `columns=offset,value`; the usual ones if it names none.

    Names that there are not are left out.
    """
    text = query.get("columns", "")
    if text == BY_FIELDS:
        names = {each.name for each in COLUMNS if query.get(f"c_{each.name}")}
    else:
        names = set(text.split(","))
    found = [each for each in COLUMNS if each.name in names]
    return found or [each for each in COLUMNS if each.is_usual]
