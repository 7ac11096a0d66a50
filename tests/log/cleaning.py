"""Cleans a log synchronously, and reads it as a read_committed consumer does."""

from __future__ import annotations

from collections.abc import Iterator

from tests.log.batches import NOW_MS, read_bytes
from wirekafka.codec.batch import BatchHeader, batches, read_header
from wirekafka.codec.record import Record, decode_records
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.log.compaction.cleanable import CleaningProgress, cleanable, job_for
from wirekafka.log.compaction.cleaner import Cleaned, Cleaner, CleaningJob
from wirekafka.log.compaction.swap import Swap
from wirekafka.log.files import Disk
from wirekafka.log.log import Log

BROKER = BrokerConfig.of(environment={})


def job(log: Log, cleaned_offset: int | None = None, now_ms: int = NOW_MS) -> CleaningJob | None:
    """The next cleaning job, whatever its dirty ratio."""
    stable = log.first_unstable_offset
    stable = log.end_offset if stable is None else stable
    found = cleanable(log, CleaningProgress(cleaned_offset, stable, now_ms))
    return None if found is None else job_for(log, found, BROKER, now_ms)


def clean(
    disk: Disk, log: Log, cleaned_offset: int | None = None, now_ms: int = NOW_MS
) -> int | None:
    """Clean all that can be cleaned; returns the first offset that was not."""
    todo = job(log, cleaned_offset, now_ms)
    if todo is None:
        return cleaned_offset
    # Encoded and decoded as for another process.
    cleaner = Cleaner(disk, CleaningJob.decode(todo.encode()))
    for cleaned in cleaner.groups():
        swap_in(disk, log, todo, cleaned)
    disk.fsync_directory(log.directory)
    return cleaner.cleaned_end_offset


def swap_in(disk: Disk, log: Log, todo: CleaningJob, cleaned: Cleaned) -> bool:
    """Replace segments by one new segment, unless they have changed."""
    swap = Swap(disk, log, todo, cleaned)
    if not swap.is_possible():
        swap.discard()
        return False
    swap.announce()
    disk.fsync_directory(log.directory)
    assert swap.is_possible()
    swap.carry_out(NOW_MS)
    return True


def records(log: Log, *, committed: bool = True) -> Iterator[tuple[BatchHeader, Record]]:
    """Every record except those of aborted transactions, as a read_committed client reads."""
    aborted = sorted(
        log.aborted_transactions(log.start_offset, log.end_offset),
        key=lambda each: each.first_offset,
    )
    ongoing: set[int] = set()
    for batch in batches_left(log):
        header = read_header(batch)
        while aborted and aborted[0].first_offset < header.end_offset:
            ongoing.add(aborted.pop(0).producer_id)
        if header.is_control:
            if header.count and decode_records(batch)[0].key == bytes(4):
                ongoing.discard(header.producer_id)
            continue
        if committed and header.is_transactional and header.producer_id in ongoing:
            continue
        for record in decode_records(batch, header):
            yield header, record


def batches_left(log: Log) -> list[bytes]:
    """All batches; after a cleaning there may be none up to the log end."""
    found: list[bytes] = []
    offset = log.start_offset
    while data := read_bytes(log, offset):
        for at, header in batches(data):
            found.append(data[at : at + header.size_bytes])
            offset = header.end_offset
    return found


def fold(log: Log) -> dict[bytes, tuple[int, bytes]]:
    """The latest value of each key with its offset, without keys that have a tombstone."""
    latest: dict[bytes, tuple[int, bytes]] = {}
    for _, record in records(log):
        assert record.key is not None
        latest.pop(record.key, None)
        if record.value is not None:
            latest[record.key] = record.offset, record.value
    return latest
