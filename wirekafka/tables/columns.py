"""The columns of rows: each gathers its part of decoded records, and becomes an Arrow array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirekafka.codec.batch import LOG_APPEND_TIME_BIT
from wirekafka.codec.message_set import NO_TIMESTAMP_TYPE
from wirekafka.tables.fields import Fields, Places
from wirekafka.tables.headers import Headers
from wirekafka.tables.scan import Flags, Int64s

_INLINED_BYTES = 12
"""The largest value that a view of Arrow's has inside of itself."""
_VIEW_WORDS = 4
_LARGEST_MILLISECONDS = ((1 << 63) - 1) // 1000

Views = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The records of some batches: where their fields lie in `data`, and the batches' rows.

    `offsets` has the absolute offset of each record; `headers` is None if nobody wants headers.
    """

    data: bytes | memoryview
    batches: NDArray[np.void]
    fields: Fields
    offsets: Int64s
    headers: Headers | None

    def __len__(self) -> int:
        return len(self.fields)


class ArrowColumn(Protocol):
    """One column of the rows that are being collected."""

    def add(self, records: Decoded) -> None:
        """Append the column's part of some records."""
        ...

    def take(self, count: int) -> pa.Array:
        """All `count` values that were added since the last time."""
        ...


class Text:
    """The same text in each row."""

    def __init__(self, text: str):
        self._text = text.encode()

    def add(self, records: Decoded) -> None:
        """Keep nothing: the number of rows says it all."""

    def take(self, count: int) -> pa.Array:
        size_bytes = len(self._text)
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(size_bytes)
        # Not pa.repeat: its scalars import pandas, as pa.array does.
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._text * count)]
        return pa.Array.from_buffers(pa.string(), count, buffers)


class Numbers:
    """A number in each row, null where `validity` of all numbers says so."""

    def __init__(
        self,
        kind: pa.DataType,
        number_of: Callable[[Decoded], NDArray[Any]],
        finish: Callable[[NDArray[Any]], tuple[NDArray[Any], Flags | None]] | None = None,
    ):
        self._kind = kind
        self._number_of = number_of
        self._finish = finish
        self._parts: list[NDArray[Any]] = []

    def add(self, records: Decoded) -> None:
        self._parts.append(self._number_of(records))

    def take(self, count: int) -> pa.Array:
        parts, self._parts = self._parts, []
        if not parts:
            return pa.nulls(0, self._kind)
        numbers, valid = np.concatenate(parts), None
        if self._finish:
            numbers, valid = self._finish(numbers)
        buffers = [None if valid is None else bitmap(valid), pa.py_buffer(numbers)]
        return pa.Array.from_buffers(self._kind, count, buffers)


class Octets:
    """Bytes in each row, or null: keys or values.

    Arrow copies them at the end, once, out of views into the buffers (its `binary_view`), which
    takes less time than every second value of an array of values and the gaps between them.
    """

    def __init__(self, places_of: Callable[[Decoded], Places]):
        self._places_of = places_of
        self._views: list[Views] = []
        self._valid: list[Flags] = []
        self._has_nulls = False
        self._buffers: list[pa.Buffer] = []

    def add(self, records: Decoded) -> None:
        places = self._places_of(records)
        sizes = places.sizes
        valid = sizes >= 0
        if not valid.all():
            self._has_nulls = True
            sizes = np.maximum(sizes, 0)
        self._valid.append(valid)
        self._views.append(_views(records.data, places.positions, sizes, len(self._buffers)))
        self._buffers.append(pa.py_buffer(records.data))

    def take(self, count: int) -> pa.Array:
        if not self._views:
            return pa.nulls(0, pa.binary())
        views = np.concatenate(self._views)
        validity = bitmap(np.concatenate(self._valid)) if self._has_nulls else None
        buffers = [validity, pa.py_buffer(views), *self._buffers]
        array = pa.Array.from_buffers(pa.binary_view(), len(views), buffers)
        self._views, self._valid, self._buffers = [], [], []
        self._has_nulls = False
        return array.cast(pa.binary())


def _views(data: bytes | memoryview, positions: Int64s, sizes: Int64s, buffer: int) -> Views:
    """Arrow's views of bytes in the buffer of that number."""
    views = np.empty((len(sizes), _VIEW_WORDS), np.int32)
    views[:, 0] = sizes
    # The first four bytes of the value would be here; Arrow copies without looking at them.
    views[:, 1] = 0
    views[:, 2] = buffer
    views[:, 3] = positions
    (small,) = (sizes <= _INLINED_BYTES).nonzero()
    if len(small):
        _inline(views, small, data, positions)
    return views


def _inline(views: Views, small: Int64s, data: bytes | memoryview, positions: Int64s) -> None:
    """Write small values into their views; what follows them in the buffer comes along unread."""
    inlined = views.view(np.uint8)[:, 4:]
    whole_to = len(data) - _INLINED_BYTES
    at = positions[small]
    for index in small[at > whole_to].tolist():
        rest = bytes(data[positions[index] :])[:_INLINED_BYTES]
        inlined[index, : len(rest)] = np.frombuffer(rest, np.uint8)
    is_whole = at <= whole_to
    if not is_whole.all():
        small, at = small[is_whole], at[is_whole]
    if len(small):
        item = np.dtype((np.void, _INLINED_BYTES))
        every = np.ndarray((whole_to + 1,), item, data, 0, (1,))
        inlined[small] = every[at].view(np.uint8).reshape(-1, _INLINED_BYTES)


class HeaderLists:
    """A list of names and values in each row; null for a record without headers."""

    def __init__(self) -> None:
        self._counts: list[Int64s] = []
        self._names = Octets(lambda records: _headers(records).names)
        self._values = Octets(lambda records: _headers(records).values)

    def add(self, records: Decoded) -> None:
        self._counts.append(_headers(records).counts)
        self._names.add(records)
        self._values.add(records)

    def take(self, count: int) -> pa.Array:
        counts = np.concatenate([np.empty(0, np.int64), *self._counts])
        self._counts = []
        offsets = np.zeros(count + 1, np.int32)
        counts.cumsum(out=offsets[1:])
        total = int(offsets[-1])
        pairs = pa.StructArray.from_arrays(
            [_strings(self._names.take(total)), self._values.take(total)], names=["key", "value"]
        )
        buffers = [bitmap(counts > 0), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(pa.list_(pairs.type), count, buffers, children=[pairs])


def _headers(records: Decoded) -> Headers:
    assert records.headers is not None, "headers are decoded where a column wants them"
    return records.headers


def _strings(names: pa.Array) -> pa.Array:
    """The names as text; bytes that are no UTF-8 are replaced, as in Kafka's clients."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())


def timestamps_of(records: Decoded) -> Int64s:
    """The timestamps of records in ms: the broker's time of the batch, or the producer's."""
    batches, fields = records.batches, records.fields
    has_append_time = (batches["attributes"] & LOG_APPEND_TIME_BIT) != 0
    times = np.where(has_append_time, batches["max_timestamp"], batches["base_timestamp"])
    timestamps: Int64s = times[fields.batches]
    if has_append_time.any():
        timestamps += np.where(has_append_time[fields.batches], 0, fields.timestamp_deltas)
    else:
        timestamps += fields.timestamp_deltas
    return timestamps


def microseconds(milliseconds: Int64s) -> tuple[Int64s, Flags | None]:
    """Times in microseconds, and which of them 64 bits can hold, unless they hold all."""
    if not len(milliseconds) or (
        milliseconds.min() >= -_LARGEST_MILLISECONDS and milliseconds.max() <= _LARGEST_MILLISECONDS
    ):
        return milliseconds * 1000, None
    fits = (milliseconds >= -_LARGEST_MILLISECONDS) & (milliseconds <= _LARGEST_MILLISECONDS)
    return np.where(fits, milliseconds, 0) * 1000, fits


def timestamp_types_of(records: Decoded) -> NDArray[np.int32]:
    """0 for a producer's time, 1 for the broker's, -1 for none, as in messages of magic 0."""
    batches = records.batches
    types: NDArray[np.int32] = ((batches["attributes"] & LOG_APPEND_TIME_BIT) != 0).astype(np.int32)
    types[batches["magic"] == 0] = NO_TIMESTAMP_TYPE
    return types[records.fields.batches]


def bitmap(flags: Flags) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
