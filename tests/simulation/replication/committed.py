"""The committed batches of one topic, with which every replica is compared continuously."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from wirekafka.clock import Clock
from wirekafka.codec.batch import BatchHeader, batches
from wirekafka.codec.record import Record, decode_records
from wirekafka.errors import KafkaError
from wirekafka.log.log import Log
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.replica import PartitionIdentity

_READ_BYTES = 1 << 16


class Stored(NamedTuple):
    """A committed batch as the first leader that committed it stored it."""

    header: BatchHeader
    data: bytes


class Committed:
    """The batches below the highest high watermark of any leader so far, by base offset."""

    def __init__(self, topic_id: bytes, found: Callable[[str], None], *, is_compacted: bool):
        self.topic_id = topic_id
        self.batches: dict[int, Stored] = {}
        self.end_offset = 0
        self.start_offset = 0
        """The highest log start offset of any replica: what is below may be gone."""
        self.open_offsets: dict[int, int] = {}
        """The first offset of each open transaction, by producer id."""
        self._found = found
        self._is_compacted = is_compacted
        self._records: dict[int, Record] = {}

    def check(self, replica: str, log: Log, offset: int, high_watermark: int) -> None:
        """Compare a replica's batches in an offset range with those committed before."""
        for header, data in stored(log, offset, high_watermark):
            known = self.batches.get(header.base_offset)
            if known is not None and known.data == data:
                continue
            if self._is_compacted:
                self._check_records(replica, header, data)
            elif known is None:
                self._found(f"UNKNOWN_BATCH {replica} has {_shown(header)} as committed")
            else:
                self._found(
                    f"DIVERGENCE {replica} has {_shown(header)} as committed,"
                    f" not {_shown(known.header)}"
                )

    def extend(self, replica: str, log: Log, high_watermark: int) -> None:
        """Add the batches that a leader commits above the highest committed offset."""
        for header, data in stored(log, self.end_offset, high_watermark):
            if header.base_offset < self.end_offset:
                self._found(f"DIVERGENCE {replica} commits {_shown(header)} across a known end")
                continue
            self.batches[header.base_offset] = Stored(header, data)
            if header.is_control:
                self.open_offsets.pop(header.producer_id, None)
            elif header.is_transactional:
                self.open_offsets.setdefault(header.producer_id, header.base_offset)
            if self._is_compacted:
                for record in decode_records(data, header):
                    self._records[record.offset] = record
        self.end_offset = high_watermark

    def _check_records(self, replica: str, header: BatchHeader, data: bytes) -> None:
        for record in decode_records(data, header):
            offset = record.offset
            known = self._records.get(offset)
            if known is None or (known.key, known.value) != (record.key, record.value):
                self._found(f"DIVERGENCE {replica} has another record at {offset}")


class ObservedPartition(Partition):
    """A partition that reports each change of its high watermark."""

    __slots__ = ("changed", "checked_offset", "first_producers")

    def __init__(self, identity: PartitionIdentity, log: Log, node_id: int, clock: Clock):
        super().__init__(identity, log, node_id, clock)
        self.changed: Callable[[ObservedPartition], None] = lambda partition: None
        self.checked_offset = log.start_offset
        """Up to here its log was compared with what is committed."""
        self.first_producers = log.producers if log.end_offset == 0 else None
        """The producer states, if they were never loaded."""

    def set_high_watermark(self, offset: int) -> None:
        super().set_high_watermark(offset)
        self.changed(self)


def stored(log: Log, offset: int, end_offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
    """The batches that begin in an offset range, or include its start."""
    offset = max(offset, log.start_offset)
    while offset < end_offset:
        try:
            found = log.read(offset, _READ_BYTES, end_offset=end_offset)
        except KafkaError as error:
            raise AssertionError(f"{log.name} cannot be read at {offset}: {error}") from error
        data = b"".join(found.buffers())
        before = offset
        for at, header in batches(data):
            if header.end_offset > offset and header.base_offset < end_offset:
                yield header, data[at : at + header.size_bytes]
                offset = header.end_offset
        if offset == before:
            return  # Compaction left nothing up to the end.


def _shown(header: BatchHeader) -> str:
    return (
        f"offsets {header.base_offset} to {header.end_offset} of leader epoch"
        f" {header.leader_epoch}, producer {header.producer_id}/{header.producer_epoch}"
        f" sequence {header.base_sequence}"
    )
