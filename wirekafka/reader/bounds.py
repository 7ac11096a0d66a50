"""Where a reading begins and ends: offsets of each partition, or one time for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from wirekafka.reader.problems import ReaderError


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A time in milliseconds since 1970, as records have it."""

    milliseconds: int


Bound: TypeAlias = Mapping[int, int] | datetime | Timestamp | None
"""Offsets by partition, where a partition that is not named has no limit; or a time."""


def timestamp_ms(bound: datetime | Timestamp) -> int:
    """The time in milliseconds; a `datetime` without a zone is refused, as it is ambiguous."""
    if isinstance(bound, Timestamp):
        return bound.milliseconds
    if bound.tzinfo is None:
        raise ReaderError(f"{bound.isoformat()} has no time zone: use datetime(..., tzinfo=...)")
    # Rounded up: a record of the millisecond before is older.
    return -int(-bound.timestamp() * 1000 // 1)
