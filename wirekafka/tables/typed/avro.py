"""Avro's payloads as rows of typed columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from wirekafka.schemas.avro.schema import AvroSchema
from wirekafka.schemas.schema import ParsedSchema, ValueMismatch
from wirekafka.tables.scan import Flags
from wirekafka.tables.typed.avro_lanes import FEWEST_LANES, decode_lanes
from wirekafka.tables.typed.avro_payload import decode_payload
from wirekafka.tables.typed.avro_types import renames_of, root_record
from wirekafka.tables.typed.values import DecodedValues, Path

_CHUNK_LANES = 16_384
_CHUNK_BYTES = 8 << 20
"""Chunks are small, as each of their fields passes through the processor's caches."""


class Avro:
    """The values of an Avro schema as rows of typed columns."""

    def __init__(self, schema: ParsedSchema):
        assert isinstance(schema, AvroSchema)
        self._root = schema.root
        record = root_record(schema.root)
        assert record.arrow is not None
        self.type: pa.StructType = record.arrow
        self._stored = _stored(self.type)
        self._decode_payload = decode_payload(record)
        self._decode_lanes = decode_lanes(record)

    @cached_property
    def renames(self) -> Mapping[Path, Path]:
        return renames_of(self._root)

    def decode(self, payloads: Sequence[bytes]) -> DecodedValues:
        failures: dict[int, str] = {}
        parts = [self._chunk(payloads, each, failures) for each in _chunks(payloads)]
        rows = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        return DecodedValues(rows, failures)

    def _chunk(
        self, payloads: Sequence[bytes], chunk: range, failures: dict[int, str]
    ) -> pa.StructArray:
        if len(chunk) < FEWEST_LANES:
            return self._one_by_one(payloads, chunk, failures)
        rows, refused = self._decode_lanes(payloads[chunk.start : chunk.stop])
        if not refused.any():
            return rows
        single = [chunk[each] for each in refused.nonzero()[0].tolist()]
        return _replaced(rows, refused, self._one_by_one(payloads, single, failures))

    def _one_by_one(
        self, payloads: Sequence[bytes], indexes: Sequence[int], failures: dict[int, str]
    ) -> pa.StructArray:
        rows: list[dict[str, Any] | None] = []
        for index in indexes:
            try:
                rows.append(self._decode_payload(payloads[index]))
            except ValueMismatch as error:
                failures[index] = str(error)
                rows.append(None)
        return pa.array(rows, self._stored).cast(self.type)


def _chunks(payloads: Sequence[bytes]) -> Iterator[range]:
    """The payloads in chunks of so many payloads and bytes at most, and one payload at least."""
    ends = np.fromiter(map(len, payloads), np.int64, len(payloads)).cumsum()
    start = 0
    while start < len(payloads) or start == 0:
        bytes_before = ends[start - 1] if start else 0
        last = int(np.searchsorted(ends, bytes_before + _CHUNK_BYTES, "right"))
        stop = min(max(last, start + 1), start + _CHUNK_LANES, len(payloads))
        yield range(start, stop)
        if stop == len(payloads):
            return
        start = stop


def _replaced(rows: pa.StructArray, where: Flags, new: pa.StructArray) -> pa.StructArray:
    """The rows with new ones at some places."""
    places = np.arange(len(rows))
    places[where] = len(rows) + np.arange(len(new))
    indexes = pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(places)])
    return pa.concat_arrays([rows, new]).take(indexes)


def _stored(type: pa.DataType) -> pa.DataType:
    """The type with the bytes of UUIDs: Arrow makes no other array of Python's objects."""
    if isinstance(type, pa.BaseExtensionType):
        return type.storage_type
    if pa.types.is_struct(type):
        return pa.struct([each.with_type(_stored(each.type)) for each in type])
    if pa.types.is_list(type):
        return pa.list_(type.value_field.with_type(_stored(type.value_type)))
    if pa.types.is_map(type):
        return pa.map_(type.key_field, type.item_field.with_type(_stored(type.item_type)))
    return type
