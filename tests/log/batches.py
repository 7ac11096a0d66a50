"""Batches and logs for the tests of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.simulation.disk import SimulatedDisk
from wirekafka.codec.batch import BatchHeader
from wirekafka.codec.batch import batches as walk
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.append import Append, Appended, Origin
from wirekafka.log.files import Disk
from wirekafka.log.log import Log
from wirekafka.log.recovery import Opening
from wirekafka.protocol.records.control import Marker, encode_marker

NOW_MS = 1_700_000_000_000
DIRECTORY = "/data/topic-0"


def batch(*values: bytes, timestamp: int = NOW_MS, **options: Any) -> bytes:
    """One batch with a record for each value, one millisecond apart."""
    records = [
        Record(timestamp=timestamp + number, key=b"k", value=value)
        for number, value in enumerate(values or (b"value",))
    ]
    return encode_batch(records, options=BatchOptions(**options))


def from_producer(producer_id: int, sequence: int, *, transactional: bool = False) -> bytes:
    """A batch of one record, sent by an idempotent or transactional producer of epoch 0."""
    return batch(
        f"{producer_id}/{sequence}".encode(),
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def new_log(disk: Disk | None = None, **config: Any) -> Log:
    """An empty log on a simulated disk."""
    disk = disk or SimulatedDisk()
    disk.make_directory(DIRECTORY)
    return Log.create(disk, DIRECTORY, TopicConfig(**config), NOW_MS)


def reopened(
    disk: Disk, *, clean: bool = False, config: TopicConfig | None = None, **opening: Any
) -> Log:
    """The log that is in the directory."""
    opening = {"is_clean": clean, "now_ms": NOW_MS, **opening}
    return Log.open(disk, DIRECTORY, config or TopicConfig(), Opening(**opening))


def append(log: Log, records: bytes, *, epoch: int = 0, now_ms: int = NOW_MS) -> Appended:
    """Append a client's batch."""
    return log.append_as_leader(records, Append(leader_epoch=epoch, now_ms=now_ms))


def end_transaction(log: Log, producer_id: int, *, commit: bool) -> Appended:
    """Append a marker, as the transaction coordinator does."""
    marker = encode_marker(producer_id, 0, Marker(commit, 0, NOW_MS))
    circumstances = Append(leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    return log.append_as_leader(marker, circumstances)


def read_bytes(log: Log, offset: int | None = None, max_bytes: int = 1 << 20) -> bytes:
    """What one read returns."""
    start = log.start_offset if offset is None else offset
    return b"".join(log.read(start, max_bytes, end_offset=log.end_offset).buffers())


def read_all(log: Log) -> list[bytes]:
    """Every batch from the start to the end, by repeated reads."""
    found: list[bytes] = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = read_bytes(log, offset)
        before = offset
        for at, header in walk(data):
            if header.end_offset > offset:
                found.append(data[at : at + header.size_bytes])
                offset = header.end_offset
        assert offset > before, "a read below the end returned nothing"
    return found


def headers(data: bytes) -> list[BatchHeader]:
    """The headers of the complete batches."""
    return [header for _, header in walk(data)]


def values(stored: Sequence[bytes]) -> list[bytes]:
    """The bytes after the 16 rewritten ones: equal for a batch and its stored form."""
    return [one[16:] for one in stored]


def with_config(config: TopicConfig, **changes: Any) -> TopicConfig:
    """The same configuration with a few other options."""
    return config.changed(**changes)
