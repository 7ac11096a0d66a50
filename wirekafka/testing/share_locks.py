"""The records of share groups in flight: shown, and their acquisition locks expired.

These functions run in the broker's thread, or in its process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wirekafka.broker import Broker
    from wirekafka.coordinator.groups.share.leader import LedShare


@dataclass(frozen=True, slots=True)
class InFlightRecord:
    """A record between the start offset of a share partition and the last acquired record.

    `state` as Kafka names it: "AVAILABLE", "ACQUIRED", "ACKNOWLEDGED", "ARCHIVING", "ARCHIVED".
    `member_id` and `locked_until_ms` of the broker's clock are None unless it is acquired.
    """

    topic: str
    partition: int
    offset: int
    state: str
    deliveries: int
    member_id: str | None = None
    locked_until_ms: int | None = None


def in_flight(broker: Broker, group: str) -> list[InFlightRecord]:
    """Return the records of a share group in flight, by topic, partition and offset."""
    found = [each for share in broker.shares.of_group(group) for each in _records(share)]
    return sorted(found, key=lambda each: (each.topic, each.partition, each.offset))


def expire(broker: Broker, group: str, topic: str | None, partition: int | None) -> int:
    """Expire the locks in the partitions that match, None being any.

    Returns how many records were locked.
    """
    return sum(
        broker.shares.expire_locks(share)
        for share in broker.shares.of_group(group)
        if topic in (None, share.partition.topic) and partition in (None, share.partition.index)
    )


def _records(share: LedShare) -> list[InFlightRecord]:
    machine = share.machine
    return [
        InFlightRecord(
            share.partition.topic,
            share.partition.index,
            offset,
            run.state.name,
            run.deliveries,
            run.member,
            run.locked_until_ms,
        )
        for batch in machine.in_flight
        for run in batch.runs
        for offset in range(max(run.first, machine.start_offset), run.end)
    ]
