"""Logs made from a seed: codecs, sizes, transactions, compaction, epochs, segments in a store."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from tests.log.cleaning import batches_left, clean
from tests.tiered.tiered_log import MemoryStore
from wirekafka.codec.batch import read_header
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.append import Append, Origin
from wirekafka.log.checkpoints import (
    HIGH_WATERMARKS,
    PARTITION_METADATA,
    START_OFFSETS,
    offsets_text,
    partition_metadata_text,
)
from wirekafka.log.files import RealDisk
from wirekafka.log.log import Log
from wirekafka.protocol.records.control import Marker, encode_marker
from wirekafka.tiered.chunked_layout import ChunkedLayout, ChunkOptions
from wirekafka.tiered.copying import CopyJob, candidates
from wirekafka.tiered.layout import Layout
from wirekafka.tiered.local_layout import LocalLayout
from wirekafka.tiered.remote_segment import SegmentState, SegmentUpdate, TieredPartition
from wirekafka.tiered.segment_states import SegmentStates

NOW_MS = 1_700_000_000_000
TOPIC = "t"
TOPIC_ID = b"topic-id-of-16-b"
_KEYS = [None, b"", *(b"key %d" % number for number in range(8))]
_SIZES = (0, 1, 10, 100, 127, 128, 1_000, 20_000)


class Row(NamedTuple):
    """A record as a client receives it."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Transaction(NamedTuple):
    producer_id: int
    first_offset: int
    marker_offset: int
    """Of a transaction that is open: beyond all offsets."""
    is_aborted: bool


class GeneratedLog:
    """One partition in a log directory, whose contents follow from a seed."""

    def __init__(self, root: Path, seed: int, *, operations: int = 80):
        self.root = root
        self.random = rng = random.Random(seed)
        self.is_tiered = rng.random() < 0.4
        self.is_compacted = not self.is_tiered and rng.random() < 0.4
        self.directory = root / f"{TOPIC}-0"
        self.directory.mkdir(parents=True)
        (self.directory / PARTITION_METADATA).write_bytes(partition_metadata_text(TOPIC_ID))
        self.disk = RealDisk()
        config = TopicConfig(
            segment_bytes=rng.choice([1_000, 5_000, 60_000, 1 << 22]),
            index_interval_bytes=rng.choice([1, 200, 4_096]),
            message_timestamp_type=rng.choice(["CreateTime", "LogAppendTime"]),
            cleanup_policy=("compact",) if self.is_compacted else ("delete",),
            remote_storage_enable=self.is_tiered,
            max_message_bytes=2 << 20,
            retention_ms=-1,
            local_retention_bytes=1 if self.is_tiered else -2,
        )
        self.log = Log.create(self.disk, str(self.directory), config, NOW_MS)
        self.store = MemoryStore()
        is_chunked = rng.random() < 0.5
        self.layout: Layout = (
            ChunkedLayout(self.store, ChunkOptions(chunk_bytes=3_000, compresses=True))
            if is_chunked
            else LocalLayout(self.store)
        )
        self.states = SegmentStates()
        self.transactions: list[Transaction] = []
        self.cleaned_offset: int | None = None
        self.epoch = 0
        self._sequences: dict[int, int] = {}
        self._now_ms = NOW_MS
        self._copies = 0
        for _ in range(operations):
            self._operate()

    @property
    def high_watermark(self) -> int:
        """As it was checkpointed last."""
        return self._high_watermark

    def checkpoint(self) -> None:
        """Write the checkpoint files, with a high watermark somewhere behind what was cleaned."""
        least = max(self.cleaned_offset or 0, self.log.start_offset, self._copied_end)
        ends = [read_header(each).end_offset for each in batches_left(self.log)]
        choices = [end for end in ends if end >= least] or [least]
        is_last = self.random.random() < 0.5
        self._high_watermark = choices[-1] if is_last else self.random.choice(choices)
        key = (TOPIC, 0)
        (self.root / HIGH_WATERMARKS).write_bytes(offsets_text({key: self._high_watermark}))
        (self.root / START_OFFSETS).write_bytes(offsets_text({key: self.log_start}))

    @property
    def log_start(self) -> int:
        """Where the log begins, in the store or here."""
        return self._log_start if self.is_tiered else self.log.start_offset

    def stable_end(self) -> int:
        """The first offset of a transaction that is open below the high watermark, or that."""
        end = self.high_watermark
        opened = [
            each.first_offset
            for each in self.transactions
            if each.first_offset < end <= each.marker_offset
        ]
        return min(opened, default=end)

    def rows(self) -> list[Row]:
        """All records below the high watermark, aborted ones included, as they are now."""
        return [row for row, _ in self._rows() if row.offset < self.high_watermark]

    def committed_rows(self) -> list[Row]:
        """What a read_committed client reads."""
        end = self.stable_end()
        return [
            row
            for row, producer_id in self._rows()
            if row.offset < end and not self._is_aborted(row.offset, producer_id)
        ]

    def decided_rows(self) -> list[Row]:
        """The committed rows, with those that wait behind open transactions."""
        end = self.high_watermark
        return [
            row
            for row, producer_id in self._rows()
            if row.offset < end
            and not self._is_aborted(row.offset, producer_id)
            and not self._is_open(row.offset, producer_id)
        ]

    def close(self) -> None:
        self.log.close()

    _copied_end = 0
    _high_watermark = 0
    _log_start = 0

    def _operate(self) -> None:
        rng = self.random
        self._now_ms += rng.choice([0, 1, 1_000])
        match rng.random():
            case chance if chance < 0.5:
                self._append()
            case chance if chance < 0.7:
                self._append(producer_id=rng.randrange(1, 4), is_transactional=True)
            case chance if chance < 0.85:
                self._end(rng.randrange(1, 4), commit=rng.random() < 0.5)
            case chance if chance < 0.9:
                self.epoch += 1
            case chance if chance < 0.93:
                self.log.roll(self._now_ms)
            case chance if chance < 0.97 and self.is_compacted:
                self.log.producers.forget_stable(self.log.end_offset)
                self.cleaned_offset = clean(self.disk, self.log, self.cleaned_offset, NOW_MS)
            case chance if chance < 0.97 and self.is_tiered:
                self._tier()
            case _:
                self._append(producer_id=9)

    def _append(self, producer_id: int = -1, *, is_transactional: bool = False) -> None:
        rng = self.random
        count = rng.choice([1, 1, 2, 5, 50])
        records = [self._record() for _ in range(count)]
        options: dict[str, Any] = {}
        if producer_id >= 0:
            options = {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "base_sequence": self._sequences.get(producer_id, 0),
                "is_transactional": is_transactional,
            }
        batch = encode_batch(
            records, options=BatchOptions(compression=rng.choice(list(Codec)), **options)
        )
        if len(batch) > self.log.config.segment_bytes:
            return
        self._sequences[producer_id] = self._sequences.get(producer_id, 0) + count
        appended = self.log.append_as_leader(batch, self._circumstances())
        if is_transactional and self._open(producer_id) is None:
            first = appended.base_offset
            self.transactions.append(Transaction(producer_id, first, 1 << 62, False))

    def _record(self) -> Record:
        rng = self.random
        is_large = rng.random() < 0.002
        size = 1_000_000 if is_large else rng.choice(_SIZES[: rng.randrange(1, len(_SIZES) + 1)])
        keys = _KEYS[1:] if self.is_compacted else _KEYS
        headers = tuple(
            (f"name {number}", rng.choice([None, b"", b"value"]))
            for number in range(rng.choice([0, 0, 0, 1, 3]))
        )
        value = None if rng.random() < 0.1 else rng.randbytes(min(size, 50)) * -(-size // 50)
        return Record(
            timestamp=self._now_ms - rng.randrange(3),
            key=rng.choice(keys),
            value=value if value is None else value[:size],
            headers=headers,
        )

    def _end(self, producer_id: int, *, commit: bool) -> None:
        found = self._open(producer_id)
        if found is None:
            return
        marker = encode_marker(producer_id, 0, Marker(commit, 0, self._now_ms))
        appended = self.log.append_as_leader(marker, self._circumstances(Origin.COORDINATOR))
        self.transactions.remove(found)
        ended = found._replace(marker_offset=appended.base_offset, is_aborted=not commit)
        self.transactions.append(ended)

    def _tier(self) -> None:
        """Copy the closed segments, and delete most of them here."""
        log = self.log
        assert log.remote is not None
        log.producers.forget_stable(log.end_offset)
        stable = log.first_unstable_offset
        end = log.end_offset if stable is None else stable
        found = candidates(log, log.config, log.remote.readable_end_offset, end, self._now_ms)
        for candidate in found:
            self._copies += 1
            job = CopyJob.of(
                log,
                candidate,
                TieredPartition(TOPIC, TOPIC_ID, 0),
                segment_id=b"%016d" % self._copies,
                broker_id=1,
                now_ms=self._now_ms,
            )
            custom = job.run(self.layout, self.disk, Event())
            self.states.add(job.segment)
            self.states.update(
                SegmentUpdate(
                    partition=job.segment.partition,
                    id=job.segment.id,
                    broker_id=1,
                    event_ms=self._now_ms,
                    state=SegmentState.COPY_FINISHED,
                    custom_metadata=custom,
                )
            )
        entries = log.epochs.entries
        log.remote.copied_end_offset = self.states.end_offset(entries, log.end_offset)
        log.remote.readable_end_offset = self.states.readable_end(entries, 0, log.end_offset)
        self._copied_end = log.remote.readable_end_offset
        self._kept = [*self._older_rows(), *self._local_rows()]
        if self.random.random() < 0.7:
            log.delete_old_segments(self._now_ms, log.end_offset)

    _kept: list[tuple[Row, int]] = []
    """The rows at the last copy, of which some are in the store alone since."""

    def _rows(self) -> Iterator[tuple[Row, int]]:
        yield from self._older_rows()
        yield from self._local_rows()

    def _older_rows(self) -> list[tuple[Row, int]]:
        return [each for each in self._kept if each[0].offset < self.log.start_offset]

    def _local_rows(self) -> list[tuple[Row, int]]:
        found = []
        for batch in batches_left(self.log):
            header = read_header(batch)
            if not header.is_control:
                producer_id = header.producer_id if header.is_transactional else -1
                found += [
                    (
                        Row(
                            each.offset,
                            each.timestamp,
                            header.timestamp_type,
                            each.key,
                            each.value,
                            each.headers,
                        ),
                        producer_id,
                    )
                    for each in decode_records(batch, header)
                ]
        return found

    def _is_aborted(self, offset: int, producer_id: int) -> bool:
        return any(
            each.is_aborted
            and each.producer_id == producer_id
            and each.first_offset <= offset <= each.marker_offset
            for each in self.transactions
        )

    def _is_open(self, offset: int, producer_id: int) -> bool:
        return any(
            each.producer_id == producer_id
            and each.first_offset <= offset < self.high_watermark <= each.marker_offset
            for each in self.transactions
        )

    def _open(self, producer_id: int) -> Transaction | None:
        for each in self.transactions:
            if each.producer_id == producer_id and each.marker_offset == 1 << 62:
                return each
        return None

    def _circumstances(self, origin: Origin = Origin.CLIENT) -> Append:
        return Append(leader_epoch=self.epoch, now_ms=self._now_ms, origin=origin)
