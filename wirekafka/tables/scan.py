"""Finds the whole batches in a buffer of a log and checks them: one structured row for each."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wirekafka.codec.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_COVERS_FROM,
    HEADER_BYTES,
    LENGTH_AT,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    SMALLEST_LENGTH,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    read_header,
)
from wirekafka.codec.crc import crc32c
from wirekafka.codec.message_set import decode_message_set, is_intact_message
from wirekafka.errors import KafkaError

Int64s: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

FOUND = np.dtype(
    [
        ("position", np.int64),
        ("size_bytes", np.int64),
        ("base_offset", np.int64),
        ("end_offset", np.int64),
        ("leader_epoch", np.int32),
        ("magic", np.int8),
        ("attributes", np.int16),
        ("base_timestamp", np.int64),
        ("max_timestamp", np.int64),
        ("producer_id", np.int64),
        ("producer_epoch", np.int16),
        ("base_sequence", np.int32),
        ("count", np.int32),
    ]
)
"""A batch that was found: its position and size in the buffer, and the fields of its header.

For an entry of a message set (magic 0 and 1), the fields have what a batch of the same records
would have.
"""

_SMALLEST_BATCH_LENGTH = HEADER_BYTES - LOG_OVERHEAD_BYTES
_FRAME = Struct(">i4xbI")
"""The fields of a header from its length to its checksum: length, magic, checksum."""
_FRAMED_BYTES = LENGTH_AT + _FRAME.size
_DISK = np.dtype(
    {
        "names": [
            "base_offset",
            "length",
            "leader_epoch",
            "magic",
            "attributes",
            "last_offset_delta",
            "base_timestamp",
            "max_timestamp",
            "producer_id",
            "producer_epoch",
            "base_sequence",
            "count",
        ],
        "formats": [
            *(">i8", ">i4", ">i4", "i1", ">i2", ">i4"),
            *(">i8", ">i8", ">i8", ">i2", ">i4", ">i4"),
        ],
        "offsets": [0, 8, 12, 16, 21, 23, 27, 35, 43, 51, 53, 57],
        "itemsize": HEADER_BYTES,
    }
)
_COPIED = tuple(name for name in FOUND.names or () if name in (_DISK.names or ()))


class DamagedBatch(ValueError):
    """The bytes at a position of a buffer are no valid batch.

    `resume_at` is the position after the damaged batch; None where its length cannot be trusted.
    """

    def __init__(self, position: int, reason: str, resume_at: int | None = None):
        super().__init__(position, reason, resume_at)
        self.position = position
        self.reason = reason
        self.resume_at = resume_at

    def __str__(self) -> str:
        return f"{self.reason} at position {self.position}"


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Whole, checked batches of one buffer, in the buffer's order.

    `table` has a row of `FOUND` for each. `end` is the position up to which the buffer was
    scanned, after the last batch that is whole. `wanted_bytes` is how many bytes from `end` on the
    next batch needs, if the buffer ends inside of it, and otherwise 0.
    """

    data: Buffer
    table: NDArray[np.void]
    end: int
    wanted_bytes: int = 0

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The column `name` of `FOUND`."""
        return self.table[name]

    @property
    def control(self) -> Flags:
        """Which batches hold a marker of a transaction, or another control record."""
        flags: Flags = (self.table["attributes"] & CONTROL_BIT) != 0
        return flags

    @property
    def transactional(self) -> Flags:
        """Which batches belong to a transaction, markers included."""
        flags: Flags = (self.table["attributes"] & TRANSACTIONAL_BIT) != 0
        return flags

    def where(self, keep: Flags | Int64s) -> Batches:
        """The batches that `keep` selects, as flags or indices."""
        return Batches(self.data, self.table[keep], self.end, self.wanted_bytes)

    def bytes_of(self, index: int) -> memoryview:
        """The bytes of one batch, header included, uncopied."""
        row = self.table[index]
        at = int(row["position"])
        return memoryview(self.data)[at : at + int(row["size_bytes"])]

    def index_at(self, position: int) -> int:
        """The index of the first batch at or after a position of the buffer."""
        return int(np.searchsorted(self.table["position"], position))

    def header(self, index: int) -> BatchHeader:
        """The header of one batch of magic 2."""
        return read_header(self.data, int(self.table["position"][index]))


def scan(data: Buffer, at: int = 0) -> Batches:
    """Find the whole batches from a batch boundary on, and verify their checksums.

    Ends ahead of a batch that is incomplete, or damaged. Raises DamagedBatch if the very first
    batch is damaged: whoever goes on at `end` meets each damage.
    """
    unpack, check = _FRAME.unpack_from, crc32c
    view = memoryview(data)
    start, stop, end = at, at, len(view)
    positions: list[int] = []
    legacy: list[tuple[int, tuple[int, ...]]] = []
    damage: DamagedBatch | None = None
    wanted_bytes = 0
    while at < end:
        if end - at < _FRAMED_BYTES:
            wanted_bytes = HEADER_BYTES
            break
        length, magic, crc = unpack(view, at + LENGTH_AT)
        stop = at + LOG_OVERHEAD_BYTES + length
        if magic != MAGIC or length < _SMALLEST_BATCH_LENGTH:
            damage = _framing_damage(at, length, magic)
            if damage:
                break
        if stop > end:
            wanted_bytes = stop - at
            break
        if magic != MAGIC:
            row = _legacy_row(view, at, stop)
            if isinstance(row, DamagedBatch):
                damage = row
                break
            legacy.append((len(positions), row))
        elif check(view[at + CRC_COVERS_FROM : stop]) != crc:
            damage = DamagedBatch(at, "checksum mismatch", stop)
            break
        positions.append(at)
        at = stop
    if damage and at == start:
        raise damage
    return Batches(data, _rows(view, positions, legacy), at, wanted_bytes)


def _framing_damage(at: int, length: int, magic: int) -> DamagedBatch | None:
    least = _SMALLEST_BATCH_LENGTH if magic == MAGIC else SMALLEST_LENGTH
    if 0 <= magic <= MAGIC and length >= least:
        return None
    return DamagedBatch(at, f"no batch (magic {magic}, length {length})")


def _legacy_row(view: memoryview, at: int, stop: int) -> tuple[int, ...] | DamagedBatch:
    """The fields of `FOUND` of one entry of a message set, or why there are none."""
    entry = view[at:stop]
    if not is_intact_message(entry):
        return DamagedBatch(at, "checksum mismatch", stop)
    try:
        outer, records = decode_message_set(entry)
    except KafkaError as error:
        return DamagedBatch(at, str(error.message), stop)
    attributes = outer.attributes & (COMPRESSION_MASK | LOG_APPEND_TIME_BIT)
    return (
        *(at, stop - at, records[0].offset, outer.offset + 1, NO_LEADER_EPOCH, outer.magic),
        *(attributes, outer.timestamp, outer.timestamp),
        *(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, len(records)),
    )


def _rows(
    view: memoryview, positions: list[int], legacy: list[tuple[int, tuple[int, ...]]]
) -> NDArray[np.void]:
    table = np.zeros(len(positions), FOUND)
    if not positions:
        return table
    if len(legacy) < len(positions):
        _fill(table, view, np.array(positions, np.int64), [index for index, _ in legacy])
    for index, row in legacy:
        table[index] = row
    return table


def _fill(table: NDArray[np.void], view: memoryview, positions: Int64s, legacy: list[int]) -> None:
    """Fill in the rows of batches of magic 2; the `legacy` rows are left as they are."""
    which: Any = slice(None)
    if legacy:
        which = np.delete(np.arange(len(positions)), legacy)
        positions = positions[which]
    # One header at each byte of the buffer, of which only those at the positions are read.
    headers = np.ndarray((len(view) - HEADER_BYTES + 1,), _DISK, view, 0, (1,))[positions]
    for name in _COPIED:
        table[name][which] = headers[name]
    table["position"][which] = positions
    table["size_bytes"][which] = headers["length"].astype(np.int64) + LOG_OVERHEAD_BYTES
    table["end_offset"][which] = headers["base_offset"].astype(np.int64) + 1
    table["end_offset"][which] += headers["last_offset_delta"]
