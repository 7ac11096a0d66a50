"""Payloads of JSON schemas as typed columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from wirekafka.schemas.json.schema import JsonSchema
from wirekafka.schemas.schema import ParsedSchema, ValueMismatch
from wirekafka.tables.typed.assembly import Failures, chunks, joined, struct_array
from wirekafka.tables.typed.json_columns import JsonObject
from wirekafka.tables.typed.json_plan import column_of
from wirekafka.tables.typed.values import ROOT_NAME, DecodedValues, Path

_VALUE_BYTES = 256
_BYTES_PER_BYTE = 32
"""The memory of a value in Python: an empty object in an array has 3 bytes in JSON, and 72 here."""


class Json:
    """The values of a schema; fields that the schema does not name are dropped."""

    def __init__(self, schema: ParsedSchema) -> None:
        assert isinstance(schema, JsonSchema)
        self._schema = schema
        self._column = column_of(schema)
        self._scan = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode

    @property
    def type(self) -> pa.StructType:
        """The columns, all of them nullable; one of the name `root` for what is no object."""
        if isinstance(self._column, JsonObject):
            return self._column.type
        return pa.struct([(ROOT_NAME, self._column.type)])

    @property
    def renames(self) -> Mapping[Path, Path]:
        """None: the format knows no older names."""
        return {}

    def decode(self, payloads: Sequence[bytes]) -> DecodedValues:
        """The rows of payloads, which are JSON texts."""
        parts = chunks(payloads, _bytes_of)
        return joined((part.first, *self._chunk(part.payloads)) for part in parts)

    def _chunk(self, payloads: Sequence[bytes]) -> tuple[pa.StructArray, Failures]:
        failures = Failures(payloads)
        values = [self._parsed(index, each, failures) for index, each in enumerate(payloads)]
        owners = np.arange(len(values))
        if not isinstance(self._column, JsonObject):
            array = self._column.array(values, owners, failures)
            return struct_array(self.type, [array], len(values)), failures
        if None in values:
            for index in (i for i, value in enumerate(values) if value is None):
                failures.add(index, "null is no object")
        return self._column.array(values, owners, failures), failures

    def _parsed(self, index: int, payload: bytes, failures: Failures) -> Any:
        try:
            text = payload.decode()
            value, end = self._scan(text)
            if end == len(text):
                return value
        except (ValueError, RecursionError):
            pass
        try:  # White space around the value, another encoding, or no JSON.
            return self._schema.decoded(payload)
        except ValueMismatch as mismatch:
            failures.add(index, str(mismatch))
            return None


def _bytes_of(payload: bytes) -> int:
    return _VALUE_BYTES + _BYTES_PER_BYTE * len(payload)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
