"""Encodes columns of keys, values, times and headers as record batches, many records at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirekafka.codec.batch import HEADER_BYTES
from wirekafka.codec.record import PLAIN, BatchOptions, batch_of
from wirekafka.tables.scan import Int64s
from wirekafka.tables.varints import EncodedVarints, encoded, varint_bytes_of

_INCOMPRESSIBLE_PER_BYTE, _INCOMPRESSIBLE_BYTES = 1 / 1000, 64
"""What a codec may add to bytes that it cannot compress: snappy's blocks of 32 KiB add most."""


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """The fields of all records, and the position in its batch of each."""

    times: Int64s
    keys: pa.Array
    values: pa.Array
    header_counts: EncodedVarints
    headers: pa.Array | None
    """The encoded headers of each record, without their number; None without any header."""
    key_sizes: Int64s
    value_sizes: Int64s
    header_sizes: Int64s


class GroupBatch(NamedTuple):
    """A batch of some records of a group, by the group's number."""

    group: int
    data: bytes


def encoded_batches(
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    times_ms: pa.Array | pa.ChunkedArray | Int64s,
    headers: pa.Array | pa.ChunkedArray | None = None,
    *,
    most_bytes: int,
    options: BatchOptions = PLAIN,
) -> Iterator[bytes]:
    """Encode records as batches in their order. Fast twin of `wirekafka.codec.record.encode_batch`.

    Keys and values are columns of binary or text; times are in ms, without nulls; headers are
    lists of structs of a name and a value. No batch is larger than `most_bytes`, even where its
    codec cannot compress it, unless its only record is. Raises ValueError for a header without a
    name.
    """
    whole = np.zeros(1, np.int64)
    found = encoded_groups(
        keys, values, times_ms, headers, group_starts=whole, most_bytes=most_bytes, options=options
    )
    for _, batch in found:
        yield batch


def encoded_groups(
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    times_ms: pa.Array | pa.ChunkedArray | Int64s,
    headers: pa.Array | pa.ChunkedArray | None = None,
    *,
    group_starts: Int64s,
    most_bytes: int,
    options: BatchOptions = PLAIN,
) -> Iterator[GroupBatch]:
    """Encode groups of records as `encoded_batches` does, each as batches of its own.

    `group_starts` has the first record of each group, ascending from 0. Many small groups take
    far less time than a call for each of them.
    """
    columns = _columns(_binary(keys), _binary(values), _times(times_ms), headers)
    if not len(columns.times):
        return
    room_bytes = most_bytes - HEADER_BYTES
    if options.compression:
        room_bytes -= int(room_bytes * _INCOMPRESSIBLE_PER_BYTE) + _INCOMPRESSIBLE_BYTES
    groups, starts = _starts(columns, group_starts, room_bytes)
    counts = np.diff(starts, append=len(columns.times))
    firsts = columns.times[starts]
    newest = np.maximum.reduceat(columns.times, starts)
    time_deltas = encoded(columns.times - np.repeat(firsts, counts))
    offset_deltas = encoded(np.arange(len(columns.times)) - np.repeat(starts, counts))
    key_sizes, value_sizes = encoded(columns.key_sizes), encoded(columns.value_sizes)
    sizes = 1 + np.maximum(columns.key_sizes, 0) + np.maximum(columns.value_sizes, 0)
    sizes += columns.header_sizes
    for each in (time_deltas, offset_deltas, key_sizes, value_sizes, columns.header_counts):
        sizes += each.sizes
    attributes = encoded(np.zeros(len(sizes), np.int64))
    fields = [
        _joined([encoded(sizes), attributes, time_deltas, offset_deltas, key_sizes]),
        columns.keys,
        _joined([value_sizes]),
        columns.values,
        _joined([columns.header_counts]),
    ]
    if columns.headers is not None:
        fields.append(columns.headers)
    for group, start, count, first, last in zip(
        groups, starts.tolist(), counts.tolist(), firsts.tolist(), newest.tolist(), strict=True
    ):
        body = _concatenated([field.slice(start, count) for field in fields])
        batch = batch_of(_octets(body), count, first, options, max_timestamp=last)
        yield GroupBatch(group, batch)


def _columns(
    keys: pa.Array, values: pa.Array, times: Int64s, headers: pa.Array | pa.ChunkedArray | None
) -> _Columns:
    if headers is None or headers.null_count == len(headers):
        header_counts, joined = np.zeros(len(times), np.int64), None
        header_sizes = header_counts
    else:
        header_counts, joined = _headers(_whole(headers))
        header_sizes = _sizes(joined)
    return _Columns(
        times=times,
        keys=keys,
        values=values,
        header_counts=encoded(header_counts),
        headers=joined,
        key_sizes=_sizes(keys),
        value_sizes=_sizes(values),
        header_sizes=header_sizes,
    )


def _headers(lists: pa.Array) -> tuple[Int64s, pa.Array]:
    """The number of headers of each record, and their bytes."""
    counts = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)
    names, values = lists.flatten().flatten()
    if names.null_count:
        raise ValueError("a header without a name")
    names, values = _binary(names), _binary(values)
    whole = _concatenated(
        [_joined([encoded(_sizes(names))]), names, _joined([encoded(_sizes(values))]), values]
    )
    bounds = np.zeros(len(counts) + 1, np.int64)
    counts.cumsum(out=bounds[1:])
    offsets = np.frombuffer(whole.buffers()[1], np.int64)[bounds]
    return counts, _array(offsets, whole.buffers()[2])


def _starts(columns: _Columns, group_starts: Int64s, room_bytes: int) -> tuple[list[int], Int64s]:
    """The group and the first record of each batch: as many records as surely have room in it."""
    times, count = columns.times, len(columns.times)
    longest_delta = int(times.max()) - int(times.min())
    sizes = columns.header_sizes + columns.header_counts.sizes
    for field in (columns.key_sizes, columns.value_sizes):
        sizes = sizes + np.maximum(field, 0) + encoded(field).sizes
    sizes += 1 + varint_bytes_of(2 * longest_delta) + varint_bytes_of(2 * count)
    sizes += varint_bytes_of(2 * int(sizes.max()))
    ends = sizes.cumsum()
    groups, starts, before = list[int](), list[int](), 0
    for group, end in enumerate(np.append(group_starts[1:], count).tolist()):
        start = int(group_starts[group])
        while start < end:
            groups.append(group)
            starts.append(start)
            fits = int(np.searchsorted(ends, before + room_bytes, "right"))
            start = min(end, max(start + 1, fits))
            before = int(ends[start - 1])
    return groups, np.array(starts, np.int64)


def _joined(parts: Sequence[EncodedVarints]) -> pa.Array:
    """The bytes of each row's varints, one after the other."""
    octets = np.hstack([part.octets for part in parts])
    used = np.empty(octets.shape, np.bool_)
    sizes, column = np.zeros(len(octets), np.uint8), 0
    for part in parts:
        for index in range(part.octets.shape[1]):
            np.less(index, part.sizes, out=used[:, column])
            column += 1
        sizes += part.sizes
    offsets = np.zeros(len(octets) + 1, np.int64)
    sizes.cumsum(out=offsets[1:])
    return _array(offsets, pa.py_buffer(octets[used]))


def _concatenated(fields: Sequence[pa.Array]) -> pa.Array:
    """Each row's fields in one value; nulls have no bytes."""
    nothing = pa.scalar(b"", pa.large_binary())
    return pc.binary_join_element_wise(
        *fields, nothing, null_handling="replace", null_replacement=""
    )


def _octets(rows: pa.Array) -> memoryview:
    """The bytes of all rows."""
    _, offsets, data = rows.buffers()
    bounds = np.frombuffer(offsets, np.int64)
    return memoryview(data)[bounds[rows.offset] : bounds[rows.offset + len(rows)]]


def _array(offsets: NDArray[np.int64], data: pa.Buffer) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), data]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _sizes(column: pa.Array) -> Int64s:
    """The size of each value in bytes; -1 for null, as records have it."""
    sizes: Int64s = pc.binary_length(column).fill_null(-1).to_numpy()
    return sizes


def _binary(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column with offsets of 64 bits, as the sum of all sizes may exceed 2 GiB."""
    return _whole(column).cast(pa.large_binary())


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    return column


def _times(column: pa.Array | pa.ChunkedArray | Int64s) -> Int64s:
    if isinstance(column, np.ndarray):
        return column.astype(np.int64, copy=False)
    times: Int64s = _whole(column).cast(pa.int64()).to_numpy()
    return times
