"""The values of a record batch, grouped by the schema that each value names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirekafka.schemas.framing import VALUE_SCHEMA_ID, framed
from wirekafka.tables.typed.values import TypedValues

Reference: TypeAlias = int | UUID
"""The id or GUID of a schema."""

_PREFIX_BYTES = 5
_NULL, _UNPREFIXED = -1, -2


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Values have no schema, an unknown schema, or a schema that no table can have."""

    reason: str
    may_pass: bool = False
    """Whether an instance of the registry that is late may have the schema soon."""


@dataclass(frozen=True, slots=True)
class Postponed:
    """The schema of values was not looked up, because so many others were at this time."""


Part: TypeAlias = tuple[TypedValues | Undecodable | Postponed, Sequence[int], Sequence[bytes]]
"""Some of several payloads: their schema, their places among all, and what the schema describes."""


@dataclass(frozen=True, slots=True)
class ValueGroup:
    """Values of one schema: their indexes in the record batch, and their payloads."""

    values: TypedValues
    indexes: Sequence[int]
    payloads: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class GroupedValues:
    """All values of a record batch; a null value is in no group and no failure."""

    groups: list[ValueGroup] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)
    """By index, why a value has no schema."""
    waiting: dict[int, str | None] = field(default_factory=dict)
    """By index, values whose schema may be known later, with what is wrong now, if anything."""


class Schemas(Protocol):
    """Finds schemas. Raises TableRetrying where it may succeed later."""

    def divided(self, reference: Reference, payloads: Sequence[bytes]) -> Sequence[Part]:
        """The payloads behind the prefix: one Protobuf schema may have several messages."""


def grouped_by_reference(
    batch: pa.RecordBatch, schemas: Schemas, settled_rows: int | None = None
) -> GroupedValues:
    """The values of a batch by the schema that their prefix or header names.

    The schemas are looked up in the order in which the batch names them first. From the row
    `settled_rows` on, values wait for a schema that is unknown now; None is no such row.
    """
    texts: list[bytes | None] = batch.column("value").to_pylist()
    settled_rows = batch.num_rows if settled_rows is None else settled_rows
    found = GroupedValues()
    references = _by_reference(batch, texts, found.failures).items()
    for reference, (indexes, payloads) in sorted(references, key=lambda each: each[1][0][0]):
        for values, places, own in schemas.divided(reference, payloads):
            chosen = [indexes[place] for place in places]
            match values:
                case Postponed():
                    found.waiting.update(dict.fromkeys(chosen))
                case Undecodable(reason, may_pass):
                    for index in chosen:
                        is_waiting = may_pass and index >= settled_rows
                        (found.waiting if is_waiting else found.failures)[index] = reason
                case _:
                    found.groups.append(ValueGroup(values, chosen, own))
    return found


def _by_reference(
    batch: pa.RecordBatch, texts: Sequence[bytes | None], failures: dict[int, str]
) -> dict[Reference, tuple[list[int], list[bytes]]]:
    found: dict[Reference, tuple[list[int], list[bytes]]] = defaultdict(lambda: ([], []))
    ids = _prefix_ids(batch)
    order = np.argsort(ids, kind="stable")
    known, starts = np.unique(ids[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    for id, start, end in zip(known.tolist(), starts.tolist(), ends, strict=False):
        if id >= 0:
            indexes = order[start:end].tolist()
            found[id] = indexes, [texts[index][_PREFIX_BYTES:] for index in indexes]
    headers = batch.column("headers")
    for index in (ids == _UNPREFIXED).nonzero()[0].tolist():
        text = texts[index]
        assert text is not None
        pairs = [(each["key"], each["value"]) for each in headers[index].as_py() or ()]
        framing = framed(text, VALUE_SCHEMA_ID, pairs)
        if framing is None:
            failures[index] = "the value has no schema id: neither a prefix nor a header"
            continue
        indexes, payloads = found[framing.reference]
        indexes.append(index)
        payloads.append(framing.payload)
    return found


def _prefix_ids(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """The schema id in the prefix of each value; -1 for null, -2 for whatever needs a look."""
    values = batch.column("value")
    ids = np.full(len(values), _UNPREFIXED, np.int64)
    if values.null_count:
        ids[values.is_null().to_numpy(zero_copy_only=False)] = _NULL
    if _has_schema_headers(batch) or not len(values):
        return ids
    _, offset_buffer, data = values.buffers()
    begin = values.offset
    offsets = np.frombuffer(offset_buffer, np.int32)[begin : begin + len(values) + 1]
    starts, sizes = offsets[:-1].astype(np.int64), np.diff(offsets)
    (long_enough,) = ((sizes >= _PREFIX_BYTES) & (ids == _UNPREFIXED)).nonzero()
    if not len(long_enough):
        return ids
    octets = np.frombuffer(data, np.uint8)
    at = starts[long_enough]
    found = np.zeros(len(at), np.int64)
    for place in range(1, _PREFIX_BYTES):
        found = found << 8 | octets[at + place]
    # No registry gives negative ids.
    is_prefix = (octets[at] == 0) & (found < 1 << 31)
    ids[long_enough[is_prefix]] = found[is_prefix]
    return ids


def _has_schema_headers(batch: pa.RecordBatch) -> bool:
    names = batch.column("headers").flatten().field("key").unique()
    return VALUE_SCHEMA_ID in names.to_pylist()
