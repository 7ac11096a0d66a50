"""What a task has encoded for one partition."""

from __future__ import annotations

from dataclasses import dataclass

from wirekafka.client.delivery import Place


@dataclass(frozen=True, slots=True, eq=False)
class RecordGroup:
    """Record batches for one partition, without a producer."""

    place: Place
    records: int
    batches: list[bytes]
