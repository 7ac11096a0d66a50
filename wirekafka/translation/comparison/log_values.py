"""The values of a log's records, decoded again, beside the typed columns of its table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wirekafka.tables.typed.conform import conformed
from wirekafka.tables.typed.values import Path
from wirekafka.translation.comparison.row_comparison import Flags, unequal_values, whole
from wirekafka.translation.schemas import LatestSchema, TopicSchemas
from wirekafka.translation.typed_rows import DecodedPart, aligned


class LogValues:
    """Decodes records into the columns that a table has now."""

    def __init__(
        self,
        schemas: TopicSchemas | LatestSchema,
        columns: pa.StructType,
        renames: Mapping[Path, Path],
    ):
        self._schemas, self._columns, self._renames = schemas, columns, renames

    def differences(
        self, stored: pa.StructArray, records: pa.Table
    ) -> tuple[dict[str, Flags], Flags]:
        """Which rows differ, by column, and for which rows the registry has no schema now.

        `records` has the columns `value` and `headers`. Raises TableRetrying.
        """
        batch = pa.RecordBatch.from_arrays(
            [whole(records.column(name)) for name in ("value", "headers")], ["value", "headers"]
        )
        grouped = self._schemas.grouped(batch, None)
        undecoded = np.zeros(batch.num_rows, np.bool_)
        undecoded[list(grouped.failures)] = True
        parts = []
        for group in grouped.groups:
            decoded = group.values.decode(group.payloads)
            indexes = np.asarray(group.indexes, np.int64)
            undecoded[indexes[list(decoded.failures)]] = True
            try:
                rows = conformed(decoded.rows, self._columns, self._renames)
            except (
                ValueError
            ):  # Such a schema has no column in the table: records were dead letters.
                undecoded[indexes] = True
                continue
            parts.append(DecodedPart(group.indexes, rows))
        expected = aligned(parts, batch.num_rows, self._columns, self._renames)
        found = {}
        for field, left, right in zip(
            self._columns, expected.flatten(), stored.flatten(), strict=True
        ):
            flags = _unequal(left, right) & ~undecoded
            if flags.any():
                found[field.name] = flags
        return found, undecoded


def _unequal(left: pa.Array, right: pa.Array) -> Flags:
    left, right = _storage(left), _storage(right)
    if right.type != left.type:
        right = right.cast(left.type)
    if left.equals(right):
        return np.zeros(len(left), np.bool_)
    if pa.types.is_nested(left.type):
        pairs = zip(_python(left), _python(right), strict=True)
        return np.fromiter((not _is_same(*pair) for pair in pairs), np.bool_, len(left))
    flags = unequal_values(left, right)
    if pa.types.is_floating(left.type):
        both = pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False)
        flags &= ~both.to_numpy(zero_copy_only=False)
    return flags


def _storage(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _python(array: pa.Array) -> list[Any]:
    """Python's objects of nested values; times are numbers, as Python has not all times."""
    return list(array.cast(_numeric(array.type)).to_pylist())


def _numeric(type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type):
        return pa.int64()
    if pa.types.is_date32(type):
        return pa.int32()
    if pa.types.is_struct(type):
        return pa.struct([each.with_type(_numeric(each.type)) for each in type])
    if pa.types.is_list(type):
        return pa.list_(type.value_field.with_type(_numeric(type.value_type)))
    if pa.types.is_map(type):
        return pa.map_(type.key_type, type.item_field.with_type(_numeric(type.item_type)))
    return type


def _is_same(left: Any, right: Any) -> bool:
    """Whether values are equal: not a number equals itself, and null an empty list.

    pyiceberg reads a null list of structs as an empty list.
    """
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, dict) and isinstance(right, dict):
        return all(_is_same(left[name], right[name]) for name in left)
    if isinstance(left, Sequence) and isinstance(right, Sequence) and not isinstance(left, str):
        return len(left) == len(right) and all(map(_is_same, left, right))
    return bool(left == right) or (not left and not right and [] in (left, right))
