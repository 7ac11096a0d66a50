"""Acknowledgement of acquired records by members of a share group (KIP-932, KIP-1222)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple

from wirekafka.errors import Error, KafkaError
from wirekafka.replication.share.in_flight import Batch, RecordState, Run, StateChange
from wirekafka.replication.share.partition import SharePartition


class AcknowledgeType(IntEnum):
    """The type of an acknowledgement: accept, release, reject or renew, or a gap."""

    GAP = 0
    """There is no record at the offset, for example after compaction."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_NEW_STATES = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
}


class Acknowledgement(NamedTuple):
    """Acknowledged offsets; `last` is inclusive, as in the protocol.

    `types` has one type for all offsets, or one for each.
    """

    first: int
    last: int
    types: Sequence[int]

    def typed_ranges(self) -> Iterator[tuple[int, int, AcknowledgeType]]:
        """First offset, end offset and type of each range of equal types."""
        if len(self.types) == 1:
            yield self.first, self.last + 1, AcknowledgeType(self.types[0])
            return
        first = self.first
        for kind, equal in groupby(self.types):
            end = first + len(list(equal))
            yield first, end, AcknowledgeType(kind)
            first = end


def acknowledge(
    partition: SharePartition, member: str, acknowledgements: Sequence[Acknowledgement], now_ms: int
) -> StateChange:
    """Begin to apply acknowledgements, all or none; locks are renewed at once.

    KafkaError: INVALID_RECORD_STATE if records are not acquired by the member, INVALID_REQUEST
    for offsets that were not delivered.
    """
    change = StateChange()
    try:
        for acknowledgement in acknowledgements:
            if acknowledgement.last >= partition.start_offset:
                _Acknowledging(partition, member, change, now_ms).apply(acknowledgement)
    except KafkaError:
        partition.roll_back(change, now_ms)
        raise
    return change


class _Acknowledging(NamedTuple):
    """One acknowledgement request in progress."""

    partition: SharePartition
    member: str
    change: StateChange
    now_ms: int

    def apply(self, acknowledgement: Acknowledgement) -> None:
        """Change the states of the acknowledged records."""
        first = acknowledgement.first
        end = acknowledgement.last + 1
        start_offset = self.partition.start_offset
        for batch in self._batches(first, end):
            if batch.end <= start_offset:
                continue
            if not batch.is_split:
                self._check_owner(batch.whole)
                if (
                    batch.is_within(first, end)
                    and batch.first >= start_offset
                    and len(acknowledgement.types) == 1
                ):
                    self._acknowledge(batch.whole, AcknowledgeType(acknowledgement.types[0]))
                    continue
                batch.is_split = True
            self._acknowledge_records(batch, acknowledgement)

    def _batches(self, first: int, end: int) -> list[Batch]:
        in_flight, start_offset = self.partition.in_flight, self.partition.start_offset
        floor = in_flight.floor(first)
        if floor is None and first < start_offset < end:
            floor = in_flight.floor(start_offset)
        if floor is None:
            raise _not_acquired(
                "Batch record not found. The request batch offsets are not found in the cache."
            )
        found = in_flight.starting_in(floor.first, end)
        for position, offset in (("first", first), ("last", end - 1)):
            if found[-1].end <= offset:
                raise KafkaError(
                    Error.INVALID_REQUEST,
                    f"Batch record not found. The {position} offset in request is past acquired "
                    "records.",
                )
        return found

    def _check_owner(self, run: Run) -> None:
        if run.member is None:
            raise _not_acquired(
                "The batch cannot be acknowledged. The batch is not in the acquired state."
            )
        if run.member != self.member:
            raise _not_acquired("Member is not the owner of batch record")

    def _acknowledge_records(self, batch: Batch, acknowledgement: Acknowledgement) -> None:
        lowest = max(batch.first, self.partition.start_offset)
        for first, end, kind in acknowledgement.typed_ranges():
            first = max(first, lowest)
            end = min(end, batch.end)
            if first >= end:
                continue
            for run in batch.between(first, end):
                if run.state is not RecordState.ACQUIRED:
                    raise _not_acquired(
                        "The offset cannot be acknowledged. The offset is not acquired."
                    )
                if run.member != self.member:
                    raise _not_acquired("Member is not the owner of offset")
                self._acknowledge(run, kind)

    def _acknowledge(self, run: Run, kind: AcknowledgeType) -> None:
        if kind is AcknowledgeType.REJECT:
            self.partition.reject(self.change, run)
            return
        if kind is not AcknowledgeType.RENEW:
            self.partition.begin(self.change, run, _NEW_STATES[kind])
            return
        if not self.partition.limits.may_renew:
            raise _not_acquired("Renewing acquisition locks is not enabled for the group.")
        self.partition.extend_lock(run, self.now_ms)


def _not_acquired(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_RECORD_STATE, message)
