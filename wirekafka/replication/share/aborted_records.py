"""Records of aborted transactions, which a read_committed share group never delivers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wirekafka.codec.batch import Buffer, batches
from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.protocol.records.control import decode_marker
from wirekafka.replication.share.acquisition import AcquiredRun
from wirekafka.replication.share.in_flight import RecordState
from wirekafka.replication.share.partition import SharePartition


def archive_aborted(
    partition: SharePartition,
    acquired: Sequence[AcquiredRun],
    data: Buffer,
    aborted: Sequence[AbortedTransaction],
) -> Sequence[AcquiredRun]:
    """Archive acquired records of aborted transactions, and return the other acquired records.

    `data` are the fetched batches, `aborted` the aborted transactions that overlap the batches.
    """
    if not aborted or not acquired:
        return acquired
    ranges = list(_aborted_ranges(data, aborted))
    for first, end in ranges:
        partition.archive(first, end, RecordState.ACQUIRED)
    for first, end in ranges:
        acquired = [part for run in acquired for part in _without(run, first, end)]
    return acquired


def _aborted_ranges(
    data: Buffer, aborted: Iterable[AbortedTransaction]
) -> Iterable[tuple[int, int]]:
    """First and end offset of each batch that belongs to an aborted transaction."""
    begins = sorted((each.first_offset, each.producer_id) for each in aborted)
    producer_ids: set[int] = set()
    for position, header in batches(data):
        if not header.has_producer_id:
            continue
        while begins and begins[0][0] < header.end_offset:
            producer_ids.add(begins.pop(0)[1])
        if header.is_control:
            batch = memoryview(data)[position : position + header.size_bytes]
            marker = decode_marker(batch, header)
            if marker is not None and not marker.is_commit:
                producer_ids.discard(header.producer_id)
                continue
        if header.is_transactional and header.producer_id in producer_ids:
            yield header.base_offset, header.end_offset


def _without(run: AcquiredRun, first: int, end: int) -> Iterable[AcquiredRun]:
    """The parts of a run outside of a range."""
    if run.last < first or end <= run.first:
        return [run]
    parts = []
    if run.first < first:
        parts.append(run._replace(last=first - 1))
    if end <= run.last:
        parts.append(run._replace(first=end))
    return parts
