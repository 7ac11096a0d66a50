"""What the three formats of typed values have in common: their type, and decoded rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

Path = tuple[str, ...]
"""The names of a field and of the structs around it, the outermost first."""

RESERVED_NAME = "redpanda"
"""The column of each table that has a record's partition, offset, timestamp, headers and key."""
ROOT_NAME = "root"
"""The column of values whose schema describes no record."""


class UnsupportedSchema(ValueError):
    """A schema that no table can have, as a recursive one; the text says why."""


@dataclass(frozen=True, slots=True)
class DecodedValues:
    """One row for each payload, and by index the reason for each payload without a value.

    The row of such a payload is null.
    """

    rows: pa.StructArray
    failures: Mapping[int, str]


class TypedValues(Protocol):
    """The values of a schema as rows of typed columns."""

    @property
    def type(self) -> pa.StructType:
        """The columns, all of them nullable, at every depth: a later schema may lack a field."""

    @property
    def renames(self) -> Mapping[Path, Path]:
        """The path of each field under an older name, and the path that it has now."""

    def decode(self, payloads: Sequence[bytes]) -> DecodedValues:
        """The rows of payloads without the registry's prefix, and without Protobuf's indexes."""
