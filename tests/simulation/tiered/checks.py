"""What is checked of a tier: objects, metadata and offsets agree once everything is at rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.simulation.replication.committed import stored
from wirekafka.broker import Broker
from wirekafka.codec.batch import CONTROL_BIT
from wirekafka.codec.record import decode_records
from wirekafka.replication.partition.partition import Partition
from wirekafka.tiered.audit import audited, folded
from wirekafka.tiered.metadata_record import (
    REMOTE_LOG_METADATA_TOPIC,
    MalformedMetadata,
    MetadataRecord,
    decode,
    encode,
)
from wirekafka.tiered.store import StoredObject

if TYPE_CHECKING:
    from tests.simulation.tiered.simulation import TieredSimulation


class TieredChecks:
    """Looks at the nodes and at the store from outside."""

    def __init__(self, simulation: TieredSimulation):
        self._simulation = simulation

    def wrong(self) -> str | None:
        """What is not as it should be once everything is at rest; None if all is."""
        missing = self._simulation.health.missing()
        if missing is not None:
            return f"UNHEALED {missing}"
        records = []
        for partition in self._metadata():
            found = _records(partition)
            if isinstance(found, str):
                return found
            records += found
        store = self._simulation.store
        listed = [StoredObject(key, len(data)) for key, data in store.objects.items()]
        tier = folded(records)
        tiering = next(each for each in self._brokers()).tiering
        audit = audited(tier, listed, tiering.layout)  # type: ignore[union-attr]
        if audit.orphans:
            return f"ORPHAN {audit.orphans[0].key}, of {len(audit.orphans)}"
        if audit.holes:
            segment, key = audit.holes[0]
            return f"HOLE {key} of the segment from {segment.start_offset} on"
        if audit.unfinished:
            segment = audit.unfinished[0]
            return f"UNFINISHED {segment.partition} {segment.id.hex()} {segment.state.name}"
        topics = self._simulation.health.newest_image().topics_by_id
        for identity in tier:
            if identity.topic_id not in topics:
                return f"ORPHAN {identity} is deleted, and its segments are not"
            if not self._partition(identity.topic, identity.number).log.config.is_tiered:
                return f"ORPHAN {identity} is not tiered any more, and its segments are there"
        return self._pending()

    def offsets(self) -> Iterator[str]:
        """Offsets that do not agree with each other."""
        for broker in self._brokers():
            for (topic, index), partition in broker.partitions.items():
                log = partition.log
                if log.remote is None or not partition.is_leader:
                    continue
                where = f"{topic}-{index}"
                tiered = partition.latest_tiered()
                end = -1 if tiered is None else tiered.offset + 1
                if not log.first_offset <= log.start_offset <= log.end_offset:
                    yield f"OFFSETS {where}: {log.first_offset}, {log.start_offset}"
                if log.start_offset > log.first_offset and end < log.start_offset:
                    yield f"OFFSETS {where}: tiered up to {end}, local from {log.start_offset} on"
                if end > log.end_offset:
                    yield f"OFFSETS {where}: tiered up to {end}, written up to {log.end_offset}"

    def _pending(self) -> str | None:
        """A closed segment that has not been copied, though its leader has had time to."""
        for broker in self._brokers():
            for (topic, index), partition in broker.partitions.items():
                log = partition.log
                if log.remote is None or not partition.is_leader:
                    continue
                if log.config.remote_log_copy_disable or len(log.segments) == 1:
                    continue
                if log.segments[-1].base_offset <= partition.last_stable_offset:
                    return f"PENDING {topic}-{index} has {len(log.segments)} local segments"
        return None

    def _metadata(self) -> Iterator[Partition]:
        for broker in self._brokers():
            for (topic, _), partition in broker.partitions.items():
                if topic == REMOTE_LOG_METADATA_TOPIC and partition.is_leader:
                    yield partition

    def _partition(self, topic: str, index: int) -> Partition:
        image = self._simulation.health.newest_image()
        leader = image.topics[topic].partitions[index].leader
        return self._simulation.members[leader].broker.partitions[topic, index]

    def _brokers(self) -> Iterator[Broker]:
        for member in self._simulation.members.values():
            if member.spec.is_broker:
                yield member.broker


def _records(partition: Partition) -> list[MetadataRecord] | str:
    """The records of a metadata partition, or which of them Apache Kafka could not read."""
    log = partition.log
    found = []
    for header, data in stored(log, log.start_offset, log.end_offset):
        if header.attributes & CONTROL_BIT:
            continue
        for record in decode_records(data, header):
            try:
                change = decode(record.value)
                if encode(change) != record.value:
                    return f"METADATA the record at {record.offset} is encoded otherwise"
            except (MalformedMetadata, ValueError) as error:
                return f"METADATA the record at {record.offset}: {error}"
            found.append(change)
    return found
