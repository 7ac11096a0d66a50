"""Avro's payloads as rows of typed columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from wirekafka.schemas.avro.schema import AvroSchema
from wirekafka.schemas.schema import ParsedSchema, ValueMismatch
from wirekafka.tables.typed.avro_payload import decode_payload
from wirekafka.tables.typed.avro_types import renames_of, root_record
from wirekafka.tables.typed.values import DecodedValues, Path


class Avro:
    """The values of an Avro schema as rows of typed columns."""

    def __init__(self, schema: ParsedSchema):
        assert isinstance(schema, AvroSchema)
        self._root = schema.root
        self._record = root_record(schema.root)
        self._decode = decode_payload(self._record)
        assert self._record.arrow is not None
        self.type: pa.StructType = self._record.arrow
        self._stored = _stored(self.type)

    @cached_property
    def renames(self) -> Mapping[Path, Path]:
        return renames_of(self._root)

    def decode(self, payloads: Sequence[bytes]) -> DecodedValues:
        rows: list[dict[str, Any] | None] = []
        failures = {}
        for index, payload in enumerate(payloads):
            try:
                rows.append(self._decode(payload))
            except ValueMismatch as error:
                failures[index] = str(error)
                rows.append(None)
        return DecodedValues(pa.array(rows, self._stored).cast(self.type), failures)


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
