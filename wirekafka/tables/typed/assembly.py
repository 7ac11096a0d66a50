"""The assembly of columns from values in Python: nulls, lists, and payloads without a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirekafka.tables.typed.values import DecodedValues, UnsupportedSchema

Owners = NDArray[np.int64]
"""For each value of a column the index of the payload that has the value."""

MAX_DEPTH = 40
"""Of structs, lists and maps within each other: libraries descend into them recursively."""
MAX_COLUMNS = 10_000
"""Of one table, those within structs too: one type that is used twice counts twice."""
MAX_REASON_CHARS = 300

_SPARE_CELLS = 100_000
_CELLS_PER_BYTE = 8
"""Of a payload. A rare element of two bytes may stand for a hundred columns, not all elements."""
CHUNK_BYTES = 64 << 20
"""The memory for decoded payloads before they are columns."""
_CHUNK_PAYLOADS = 8192

EARLIEST_SECOND = -62_135_596_800
LATEST_SECOND = 253_402_300_799
"""The years 1 to 9999, which engines agree about."""


class Failures:
    """The payloads of a chunk that have no row, each with its first reason."""

    def __init__(self, payloads: Sequence[bytes]) -> None:
        self.reasons: dict[int, str] = {}
        self._payloads = payloads

    def add(self, payload: int, reason: str) -> None:
        """Refuse a payload; later reasons are not kept."""
        if payload not in self.reasons:
            shown = reason if len(reason) <= MAX_REASON_CHARS else f"{reason[:MAX_REASON_CHARS]}…"
            self.reasons[payload] = shown

    def add_where(self, wrong: NDArray[np.bool_], owners: Owners, reason: str) -> None:
        """Refuse the payloads of all wrong values."""
        for payload in owners[wrong].tolist():
            self.add(payload, reason)

    def sizes(self) -> NDArray[np.int64]:
        """The size of each payload in bytes."""
        return np.fromiter(map(len, self._payloads), np.int64, len(self._payloads))

    def __len__(self) -> int:
        return len(self._payloads)


class ValueColumn(Protocol):
    """One column, or one column of the items of a list, made of values in Python."""

    @property
    def type(self) -> pa.DataType:
        """The type of its Arrow array."""

    @property
    def width(self) -> int:
        """How many values each of its values takes at least, those within structs counted."""

    def array(self, values: Sequence[Any], owners: Owners, failures: Failures) -> pa.Array:
        """The Arrow array of values; None is null. Values without a place are failures."""


class ColumnBudget:
    """The columns that a schema may still have."""

    def __init__(self) -> None:
        self._left = MAX_COLUMNS

    def take(self, place: str, depth: int) -> None:
        """Count a column. Raises UnsupportedSchema."""
        self._left -= 1
        if self._left < 0:
            raise UnsupportedSchema(f"The schema has more than {MAX_COLUMNS} columns: {place}")
        if depth > MAX_DEPTH:
            raise UnsupportedSchema(f"{place} is nested more than {MAX_DEPTH} levels deep")


@dataclass(frozen=True, slots=True)
class PayloadChunk:
    """Payloads that are decoded at once."""

    first: int
    """The index of the first one among all payloads."""
    payloads: Sequence[bytes]
    size_bytes: int
    """The memory that they need when they are decoded."""


def chunks(payloads: Sequence[bytes], bytes_of: Callable[[bytes], int]) -> Iterator[PayloadChunk]:
    """Payloads in parts; `bytes_of` is the memory of one when it is decoded.

    A payload that needs more memory than a chunk may have is alone in its chunk.
    """
    first, total = 0, 0
    for index, payload in enumerate(payloads):
        size_bytes = bytes_of(payload)
        if index > first and (total + size_bytes > CHUNK_BYTES or index - first == _CHUNK_PAYLOADS):
            yield PayloadChunk(first, payloads[first:index], total)
            first, total = index, 0
        total += size_bytes
    yield PayloadChunk(first, payloads[first:], total)


def joined(parts: Iterable[tuple[int, pa.StructArray, Failures]]) -> DecodedValues:
    """The rows of all chunks, null for the payloads that failed."""
    arrays, reasons = [], {}
    for first, rows, failures in parts:
        arrays.append(_without(rows, failures.reasons))
        reasons.update({first + index: reason for index, reason in failures.reasons.items()})
    rows = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    return DecodedValues(rows, reasons)


def struct_array(kind: pa.StructType, arrays: Sequence[pa.Array], length: int) -> pa.StructArray:
    """A struct of columns, of which there may be none."""
    if not arrays:
        return pa.StructArray.from_buffers(kind, length, [None])
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def scattered(array: pa.Array, indexes: NDArray[np.int64], length: int) -> pa.Array:
    """The values of an array at their indexes, and null everywhere else."""
    places = np.full(length, -1, np.int64)
    places[indexes] = np.arange(len(indexes))
    return array.take(pa.array(places, mask=places < 0))


def present(values: Sequence[Any]) -> NDArray[np.int64]:
    """The indexes of the values that are not None."""
    return np.fromiter((i for i, value in enumerate(values) if value is not None), np.int64)


def bounded(
    values: Sequence[Any], owners: Owners, failures: Failures, *, path: str, width: int
) -> Sequence[Any]:
    """Lists or maps, each of whose elements has values in `width` columns.

    A payload whose lists would take far more memory than the payload itself fails, and its lists
    are replaced by empty ones.
    """
    cells = lengths_of(values) * width
    if int(cells.sum()) <= _SPARE_CELLS:
        return values
    of_payloads = np.bincount(owners, weights=cells, minlength=len(failures))
    wrong = (of_payloads > _SPARE_CELLS + _CELLS_PER_BYTE * failures.sizes())[owners]
    if not wrong.any():
        return values
    failures.add_where(wrong, owners, f"{path} has too many elements for its size")
    pairs = zip(values, wrong.tolist(), strict=True)
    return [() if is_wrong else value for value, is_wrong in pairs]


def lengths_of(lists: Sequence[Any]) -> NDArray[np.int64]:
    """The number of elements of each list or map."""
    return np.fromiter(map(len, lists), np.int64, len(lists))


def offsets_of(lengths: NDArray[np.int64]) -> pa.Array:
    """Where each list begins in the array of all elements, and where the last one ends."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    lengths.cumsum(out=offsets[1:])
    return pa.array(offsets.astype(np.int32))


def _without(rows: pa.StructArray, failed: Iterable[int]) -> pa.StructArray:
    wrong = np.fromiter(failed, np.int64)
    if not len(wrong):
        return rows
    kept = np.ones(len(rows), np.bool_)
    kept[wrong] = False
    return rows.take(pa.array(np.arange(len(rows)), mask=~kept))
