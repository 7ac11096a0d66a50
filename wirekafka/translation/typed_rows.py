"""The decoded values of a chunk, as rows that have the columns of the table at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from wirekafka.tables.typed.conform import conformed
from wirekafka.tables.typed.values import Path


@dataclass(frozen=True, slots=True)
class DecodedPart:
    """Some values of a record batch: their indexes in it, and their rows."""

    indexes: Sequence[int]
    rows: pa.StructArray


def aligned(
    parts: Sequence[DecodedPart], count: int, type: pa.StructType, renames: Mapping[Path, Path]
) -> pa.StructArray:
    """The rows of a record batch of `count` records; null where no part has a row.

    Raises ValueError if a value does not fit its column.
    """
    if not parts:
        return pa.nulls(count, type)
    rows = [conformed(part.rows, type, renames) for part in parts]
    if len(parts) == 1 and len(parts[0].indexes) == count:
        return rows[0]
    places = np.full(count, -1, np.int64)
    begin = 0
    for part in parts:
        places[np.asarray(part.indexes, np.int64)] = np.arange(begin, begin + len(part.indexes))
        begin += len(part.indexes)
    joined = pa.concat_arrays(rows)
    return joined.take(pa.array(places, mask=places < 0))
