"""Rows of a log and of its tables side by side: what is missing, twice, changed or unexpected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Offsets: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


class RowDifferenceKind(StrEnum):
    """How a row differs from the log."""

    MISSING = "missing"
    TWICE = "twice"
    CHANGED = "changed"
    UNEXPECTED = "unexpected"
    BEYOND_MARKS = "beyond the marks"
    UNPLACED = "unplaced"


@dataclass(frozen=True, slots=True)
class RowDifference:
    """One difference between a log and its tables, at one position."""

    kind: RowDifferenceKind
    table: str
    partition: int | None
    offset: int | None
    detail: str = ""

    def __str__(self) -> str:
        place = f"{self.table}: partition {self.partition}, offset {self.offset}: {self.kind}"
        return f"{place}: {self.detail}" if self.detail else place


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Rows in the order of their offsets."""

    rows: pa.Table
    offsets: Offsets

    @classmethod
    def of(cls, rows: pa.Table) -> Placed:
        """The rows, sorted if need be."""
        offsets = rows.column("offset").to_numpy().astype(np.int64, copy=False)
        if len(offsets) > 1 and not (offsets[1:] >= offsets[:-1]).all():
            order = np.argsort(offsets, kind="stable")
            rows, offsets = rows.take(pa.array(order)), offsets[order]
        return cls(rows, offsets)

    def where(self, chosen: Flags) -> Placed:
        """Some of the rows."""
        if chosen.all():
            return self
        return Placed(self.rows.filter(pa.array(chosen)), self.offsets[chosen])


def repeated(offsets: Offsets) -> Flags:
    """Which of ordered offsets equal the offset before them."""
    found = np.zeros(len(offsets), np.bool_)
    found[1:] = offsets[1:] == offsets[:-1]
    return found


def among(offsets: Offsets, others: Offsets) -> Flags:
    """Which offsets are among other ones, in order."""
    if not len(others):
        return np.zeros(len(offsets), np.bool_)
    places = np.minimum(np.searchsorted(others, offsets), len(others) - 1)
    found: Flags = others[places] == offsets
    return found


def unequal(ours: pa.Table, theirs: pa.Table, fields: Sequence[str]) -> dict[str, Flags]:
    """Which rows of two tables of the same length differ, by field; equal fields are left out."""
    found = {}
    for name in fields:
        left, right = whole(ours.column(name)), whole(theirs.column(name))
        if name == "headers":
            flags = _unequal_headers(left, right)
        elif left.equals(right):
            continue
        else:
            flags = unequal_values(left, right)
        if flags.any():
            found[name] = flags
    return found


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return pa.concat_arrays(combined.chunks) if combined.chunks else pa.array([], column.type)
    return combined


def unequal_values(left: pa.Array, right: pa.Array) -> Flags:
    """Null equals null only."""
    differ = pc.fill_null(pc.not_equal(left, right), False)
    one_is_null = pc.not_equal(pc.is_null(left), pc.is_null(right))
    return _flags(pc.or_(differ, one_is_null))


def _unequal_headers(left: pa.Array, right: pa.Array) -> Flags:
    """Null is the same as an empty list; names and values count in their order."""
    left_counts, right_counts = _counts(left), _counts(right)
    found: Flags = left_counts != right_counts
    same = pa.array(~found)
    counts = left_counts[~found]
    left_pairs, right_pairs = (pc.list_flatten(each.filter(same)) for each in (left, right))
    pairs = np.zeros(len(left_pairs), np.bool_)
    for name in ("key", "value"):
        mine, others = (pc.struct_field(each, name) for each in (left_pairs, right_pairs))
        if not mine.equals(others):
            pairs |= unequal_values(mine, others)
    if pairs.any():
        rows = np.repeat(np.flatnonzero(~found), counts)
        found[rows[pairs]] = True
    return found


def _counts(lists: pa.Array) -> NDArray[np.int32]:
    counts: NDArray[np.int32] = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return counts


def _flags(array: pa.Array) -> Flags:
    flags: Flags = array.to_numpy(zero_copy_only=False)
    return flags
