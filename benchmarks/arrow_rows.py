"""Measures record batches becoming Arrow record batches: `python -m benchmarks.arrow_rows`.

Figures are CPU time of one core, the best of several rounds of some milliseconds each: on a machine
with other work, longer ones measure that work too. The candidates that were tried are measured
beside the ones that are used.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from wirekafka.codec.batch import batches
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.tables import boundaries, fields
from wirekafka.tables.bodies import next_bodies
from wirekafka.tables.columns import Decoded, Octets
from wirekafka.tables.rows import SCHEMA, Rows
from wirekafka.tables.scan import Int64s, scan
from wirekafka.tables.varints import BufferViews

_RECORDS = 20_000
_ROUNDS = 20
_TIME_MS = 1_700_000_000_000


class Shape(NamedTuple):
    """The records of a measured log."""

    in_batch: int
    value_bytes: int = 200
    codec: Codec = Codec.NONE
    has_keys: bool = True
    has_headers: bool = False

    def __str__(self) -> str:
        parts = [f"{self.value_bytes:,} B", f"{self.in_batch:,} a batch", self.codec.name.lower()]
        parts += [] if self.has_keys else ["no keys"]
        parts += ["two headers"] if self.has_headers else []
        return ", ".join(parts)


def log_of(shape: Shape) -> bytes:
    """A log of 20,000 records; its values are random hexadecimal digits, which compress to half."""
    random = Random(1)
    headers = (("trace", b"0123456789abcdef"), ("source", None)) if shape.has_headers else ()
    found: list[bytes] = []
    offset = 0
    while offset < _RECORDS:
        records = []
        for index in range(offset, offset + shape.in_batch):
            value = random.randbytes(shape.value_bytes // 2).hex().encode()
            key = b"key-%010d" % index if shape.has_keys else None
            records.append(Record(0, _TIME_MS + index // 10, key, value, headers))
        options = BatchOptions(base_offset=offset, compression=shape.codec)
        found.append(encode_batch(records, options=options))
        offset += shape.in_batch
    return b"".join(found)


def rows_of(log: bytes, columns: list[str] | None = None, *, headers: bool = False) -> int:
    """Read a log as Arrow; returns the number of rows."""
    found, rows = scan(log), Rows("flights", 0, columns=columns, headers=headers)
    at = count = 0
    while at < len(found):
        at = rows.add(found, first=at)
        if rows.is_full:
            count += rows.take().num_rows
    return count + rows.take().num_rows


def rows_of_objects(log: bytes) -> int:
    """The same by the codec's decoder, with an object for each record."""
    records = [
        record
        for at, header in batches(log)
        for record in decode_records(memoryview(log)[at : at + header.size_bytes], header)
    ]
    columns = [
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array(["flights"] * len(records)),
        pa.array([0] * len(records), pa.int32()),
        pa.array([record.offset for record in records]),
        pa.array([record.timestamp * 1000 for record in records], SCHEMA.field("timestamp").type),
        pa.array([0] * len(records), pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA).num_rows


class Work(NamedTuple):
    """What is measured, and how many records each call is for."""

    call: Callable[[], object]
    records: int


def costs_ns(works: Sequence[Work], rounds: int) -> list[float]:
    """CPU time of each work in ns a record, the best of all rounds.

    Each round does every work, so that other programs do not slow down all turns of one.
    """
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for index, (call, records) in enumerate(works):
            began_ns = time.process_time_ns()
            call()
            best[index] = min(best[index], (time.process_time_ns() - began_ns) / records)
    return best


SHAPES = (
    *(Shape(in_batch) for in_batch in (1, 20, 80, 1000, 5000)),
    *(Shape(in_batch, has_keys=False) for in_batch in (20, 5000)),
    *(Shape(in_batch, has_headers=True) for in_batch in (20, 5000)),
    *(Shape(in_batch, 1000) for in_batch in (20, 1000)),
    *(Shape(20, codec=codec) for codec in list(Codec)[1:]),
    *(Shape(5000, codec=codec) for codec in list(Codec)[1:]),
    *(Shape(1000, 1000, codec) for codec in (Codec.LZ4, Codec.ZSTD)),
)


def measure_shapes(rounds: int) -> Iterator[str]:
    """Rows of a table: records a second for each shape, and with fewer columns."""
    yield "| Records | All columns, million/s | Offset and key | Offset |"
    yield "|---|---|---|---|"
    costs = iter(costs_ns([work for shape in SHAPES for work in _works(shape)], rounds))
    for shape in SHAPES:
        yield f"| {shape} | {' | '.join(f'{1000 / next(costs):.2f}' for _ in range(3))} |"


def _works(shape: Shape) -> list[Work]:
    log = log_of(shape)
    count = rows_of(log)
    return [
        Work(lambda: rows_of(log, headers=shape.has_headers), count),
        Work(lambda: rows_of(log, ["offset", "key"]), count),
        Work(lambda: rows_of(log, ["offset"]), count),
    ]


def measure_candidates(rounds: int) -> Iterator[str]:
    """Rows of a table: ns a record for each way of a step, for short and for long batches."""
    yield "| Step | Way | 20 a batch, ns a record | 80 a batch | 5,000 a batch |"
    yield "|---|---|---|---|---|"
    by_size = [_ways(log_of(Shape(in_batch))) for in_batch in (20, 80, 5000)]
    costs = costs_ns([work for ways in by_size for work in ways.values()], rounds)
    several = len(by_size[0])
    for index, way in enumerate(by_size[0]):
        yield f"| {way} | {' | '.join(f'{ns:,.0f}' for ns in costs[index::several])} |"


def _ways(log: bytes) -> dict[str, Work]:
    """The ways of each step, by step and name."""
    bodies = next_bodies(log, scan(log).table, 1 << 30)
    counts = bodies.batches["count"].astype(np.int64)
    place = (bodies.data, bodies.starts, bodies.stops, counts)
    values = fields.decode_fields(*place).values
    total, several = rows_of(log), int(counts.sum())
    ways = {
        "whole | an object for each record": Work(lambda: rows_of_objects(log), total),
        "whole | **used**": Work(lambda: rows_of(log), total),
        "batches and checksums | **used**: a loop in Python": Work(lambda: scan(log), total),
    }
    for name, positions in POSITIONS.items():
        ways[f"starts of records | {name}"] = Work(partial(positions, *place), several)
    decode = partial(fields.decode_fields, *place)
    ways["starts and fields | **used**: a field of all records at once"] = Work(decode, several)
    for name, copy in COPIES.items():
        ways[f"copies of values | {name}"] = Work(partial(copy, bodies.data, values), several)
    return ways


def _walked(data: memoryview, starts: Int64s, stops: Int64s, counts: Int64s) -> Int64s:
    parts = [
        boundaries._walk(bytes(data[start:stop])) + start
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
    ]
    return np.concatenate(parts)


def _lock_step(data: memoryview, starts: Int64s, stops: Int64s, counts: Int64s) -> Int64s:
    fewest, boundaries._FEWEST_LANES = boundaries._FEWEST_LANES, 1
    try:
        lanes = boundaries._Lanes(starts, stops)
        return boundaries._lock_step(data, BufferViews.of(data), lanes)[0]
    finally:
        boundaries._FEWEST_LANES = fewest


def _guessed(data: memoryview, starts: Int64s, stops: Int64s, counts: Int64s) -> Int64s:
    return boundaries.record_positions(data, BufferViews.of(data), starts, stops, counts)


POSITIONS = {
    "one after the other, in Python": _walked,
    "lock step, a lane for each batch": _lock_step,
    "**used**: lock step, more lanes from guesses": _guessed,
}


def _gaps(data: memoryview, places: fields.Places) -> pa.Array:
    """Values and the gaps between them, in turn."""
    offsets = np.empty(2 * len(places.sizes), np.int32)
    offsets[0::2] = places.positions
    offsets[1::2] = places.positions + places.sizes
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _by_take(data: memoryview, places: fields.Places) -> pa.Array:
    array = _gaps(data, places)
    return array.take(pa.array(np.arange(0, len(array), 2, dtype=np.int32)))


def _by_filter(data: memoryview, places: fields.Places) -> pa.Array:
    array = _gaps(data, places)
    return array.filter(pa.array(np.arange(len(array)) % 2 == 0))


def _by_mask(data: memoryview, places: fields.Places) -> np.ndarray:
    edges = np.zeros(len(data) + 1, np.int8)
    edges[places.positions] = 1
    edges[places.positions + places.sizes] -= 1
    return np.frombuffer(data, np.uint8)[np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)]


def _by_join(data: memoryview, places: fields.Places) -> bytes:
    ends = (places.positions + places.sizes).tolist()
    pairs = zip(places.positions.tolist(), ends, strict=True)
    return b"".join([data[start:end] for start, end in pairs])


def _by_views(data: memoryview, places: fields.Places) -> pa.Array:
    column = Octets(lambda _: places)
    column.add(Decoded(data, None, None, None, None))
    return column.take(len(places.sizes))


COPIES = {
    "join of slices": _by_join,
    "numpy mask of bytes": _by_mask,
    "values and gaps, filter": _by_filter,
    "values and gaps, take": _by_take,
    "**used**: cast of binary views": _by_views,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    rounds = parser.parse_args().rounds
    versions = f"numpy {np.__version__}, pyarrow {pa.__version__}"
    print(f"{platform.machine()}, Python {platform.python_version()}, {versions}\n")
    for line in measure_candidates(rounds):
        print(line)
    print()
    for line in measure_shapes(rounds):
        print(line)


if __name__ == "__main__":
    main()
