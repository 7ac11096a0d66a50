"""The uncompressed records of some batches in one buffer: as they are, inflated or re-encoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wirekafka.codec.batch import COMPRESSION_MASK, HEADER_BYTES, MAGIC, Buffer
from wirekafka.codec.compression import decompress
from wirekafka.codec.message_set import decode_message_set
from wirekafka.codec.record import Record, decode_records, encode_record
from wirekafka.errors import KafkaError
from wirekafka.tables.scan import DamagedBatch, Flags, Int64s

_GROUP_RECORDS, _GROUP_BYTES = 1 << 15, 16 << 20
"""How many records, and bytes of batches, are decoded together, but at least one batch: fewer have
more calls of numpy for each record, and of more the processor's cache holds too little."""
_INFLATED_BYTES = 4 << 20
"""How many bytes are inflated together, at least one batch."""

LARGEST_BATCH_RECORDS = 1 << 23
"""The most records that are read of one batch, as many as a column has room for with the longest
name of a topic: the smallest records would take twenty times the memory of their batch."""


@dataclass(frozen=True, slots=True, eq=False)
class Bodies:
    """The uncompressed records of some batches in one buffer, and these batches."""

    data: bytes | memoryview
    batches: NDArray[np.void]
    starts: Int64s
    stops: Int64s

    @classmethod
    def joined(cls, rows: NDArray[np.void], bodies: Sequence[Buffer]) -> Bodies:
        """The bodies of the rows in a new buffer, one after the other."""
        stops = np.cumsum([len(body) for body in bodies], dtype=np.int64)
        starts = np.concatenate(([0], stops[:-1])).astype(np.int64)
        data = bodies[0] if len(bodies) == 1 else b"".join(bodies)
        return cls(memoryview(data), rows, starts, stops)


def next_bodies(data: Buffer, rows: NDArray[np.void], room: int) -> Bodies:
    """The bodies of the first batches, of one kind and at most `room` records, but at least one.

    Raises DamagedBatch if the first body cannot be inflated, or has too many records.
    """
    if rows["count"][0] > LARGEST_BATCH_RECORDS:
        at, stop = int(rows["position"][0]), int(rows["position"][0] + rows["size_bytes"][0])
        raise DamagedBatch(at, f"{rows['count'][0]} records in one batch", stop)
    is_plain = _is_plain(rows)
    # Up to where the kind changes, and so many that a group is not too large.
    several = len(rows) if is_plain.all() else int(np.argmin(is_plain == is_plain[0])) or len(rows)
    counts = rows["count"][:several].astype(np.int64).cumsum()
    several = max(1, int(np.searchsorted(counts, min(room, _GROUP_RECORDS), "right")))
    rows = rows[:several]
    if not is_plain[0]:
        return _inflated(data, rows)
    starts, stops = rows["position"], rows["position"] + rows["size_bytes"]
    several = max(1, int(np.searchsorted(stops, starts[0] + _GROUP_BYTES, "right")))
    begin, end = int(starts[0]), int(stops[several - 1])
    starts, stops = starts[:several] + (HEADER_BYTES - begin), stops[:several] - begin
    return Bodies(memoryview(data)[begin:end], rows[:several], starts, stops)


def _is_plain(rows: NDArray[np.void]) -> Flags:
    """Which batches have their records in the buffer as they are."""
    flags: Flags = rows["magic"] == MAGIC
    flags &= (rows["attributes"] & COMPRESSION_MASK) == 0
    return flags


def _inflated(data: Buffer, rows: NDArray[np.void]) -> Bodies:
    view = memoryview(data)
    bodies: list[Buffer] = []
    left_bytes = _INFLATED_BYTES
    places = zip(
        rows["position"].tolist(),
        (rows["position"] + rows["size_bytes"]).tolist(),
        rows["attributes"].tolist(),
        rows["magic"].tolist(),
        strict=True,
    )
    for at, stop, attributes, magic in places:
        try:
            if magic == MAGIC:
                body = decompress(attributes & COMPRESSION_MASK, view[at + HEADER_BYTES : stop])
            else:
                body = _encoded(_records(view[at:stop], magic), rows[len(bodies)])
        except KafkaError as error:
            if bodies:
                break
            raise DamagedBatch(at, str(error.message), stop) from error
        bodies.append(body)
        left_bytes -= len(body)
        if left_bytes <= 0:
            break
    return Bodies.joined(rows[: len(bodies)], bodies)


def reencoded(data: Buffer, rows: NDArray[np.void]) -> Bodies:
    """The bodies of batches as Kafka would encode the same records, up to a damaged batch.

    Raises DamagedBatch if the first is damaged.
    """
    view = memoryview(data)
    bodies: list[Buffer] = []
    for row in rows:
        at, stop = int(row["position"]), int(row["position"] + row["size_bytes"])
        try:
            bodies.append(_encoded(_records(view[at:stop], int(row["magic"])), row))
        except KafkaError as error:
            if bodies:
                break
            raise DamagedBatch(at, str(error.message), stop) from error
    return Bodies.joined(rows[: len(bodies)], bodies)


def _records(batch: memoryview, magic: int) -> list[Record]:
    if magic == MAGIC:
        return decode_records(batch)
    return decode_message_set(batch)[1]


def _encoded(records: list[Record], row: np.void) -> bytes:
    """The body of a batch of magic 2 that has these records."""
    base_offset, base_timestamp = int(row["base_offset"]), int(row["base_timestamp"])
    return b"".join(
        encode_record(
            record, record.offset - base_offset, _signed(record.timestamp - base_timestamp)
        )
        for record in records
    )


def _signed(difference: int) -> int:
    """The difference of two 64-bit numbers in 64 bits: the sum with either wraps back."""
    return (difference + (1 << 63)) % (1 << 64) - (1 << 63)
