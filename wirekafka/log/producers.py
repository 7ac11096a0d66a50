"""Idempotent and transactional producers of one log: sequences, open transactions, snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

from wirekafka.codec.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SEQUENCE_MASK,
    BatchHeader,
    Buffer,
)
from wirekafka.codec.crc import crc32c
from wirekafka.errors import Error
from wirekafka.log.append import Append, Origin, RecordsRefused
from wirekafka.log.scan import REMEMBERED_BATCHES
from wirekafka.log.verification import Verifications
from wirekafka.protocol.records.control import Marker, decode_marker

NO_COORDINATOR_EPOCH = -1


_CLIENT = Origin.CLIENT
_new: Any = tuple.__new__  # Half the price of a NamedTuple's own constructor.


class CorruptSnapshot(ValueError):
    """A producer snapshot that cannot be decoded; its state can be rebuilt from the log."""


class BatchSpan(NamedTuple):
    """A remembered batch of a producer: inclusive sequences and offsets, newest time in ms."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerHistory:
    """The state of one producer id in a log; `batches` are its newest five, oldest first."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "producer_id",
        "transaction_offset",
    )

    def __init__(self, producer_id: int, epoch: int = NO_PRODUCER_EPOCH):
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp = NO_TIMESTAMP
        self.transaction_offset: int | None = None
        self.batches: list[BatchSpan] = []

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; -1 before the first batch of this epoch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class CompletedTransaction(NamedTuple):
    """A transaction that a marker ended; offsets inclusive, the last one is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int
    """The last stable offset once this marker was appended."""


class ProducerStates:
    """The states of all producers of one log, derived from its batches up to `end_offset`.

    `check` and `check_marker` change nothing, so that a batch that is refused, or whose write
    fails, leaves no trace; `update`, `update_marker` and `replay` follow the write.
    """

    __slots__ = (
        "_open",
        "_producers",
        "completed",
        "end_offset",
        "first_unstable_offset",
        "name",
        "verifications",
    )

    def __init__(self, name: str = "", end_offset: int = 0):
        self.name = name
        """`<topic>-<partition>`, for messages."""
        self.end_offset = end_offset
        self.first_unstable_offset: int | None = None
        """The first offset of a transaction without a marker below the high watermark."""
        self.verifications: Verifications | None = None
        """Set if transactional writes must be verified with their coordinator (KIP-890)."""
        self._producers: dict[int, ProducerHistory] = {}
        # First offset -> producer id, in order of offsets.
        self._open: dict[int, int] = {}
        self.completed: dict[int, int] = {}
        """Completed transactions that end at or above the high watermark: first offset -> last."""

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[ProducerHistory]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> ProducerHistory | None:
        """The state of one producer id, for DescribeProducers."""
        return self._producers.get(producer_id)

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer has an open transaction, so that writes need no verification."""
        producer = self._producers.get(producer_id)
        return (
            producer is not None
            and producer.transaction_offset is not None
            and producer.epoch == epoch
        )

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest transaction without a marker, or None."""
        return next(iter(self._open), None)

    @property
    def oldest_open_ms(self) -> int | None:
        """The smallest timestamp of the last batch of a producer with an open transaction."""
        last = (self._producers[producer_id].last_timestamp for producer_id in self._open.values())
        return min(last, default=None)

    def check(self, header: BatchHeader, append: Append) -> BatchSpan | None:
        """Check a data batch with a producer id; returns the earlier batch if it is a duplicate.

        Raises RecordsRefused: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, or
        INVALID_TXN_STATE for a non-transactional write during the producer's transaction.
        """
        producer = self._producers.get(header.producer_id)
        is_client = append.origin is _CLIENT
        if is_client and producer is not None and header.producer_epoch == producer.epoch:
            batches = producer.batches
            follows = batches and header.base_sequence == _after(batches[-1])
            if follows and producer.transaction_offset is None and not header.is_transactional:
                return None  # The usual case: none of the checks below applies.
            earlier = None if follows else _repeated(header, batches)
            if earlier is not None:
                return earlier
        if self.verifications is not None and header.is_transactional:
            self._check_verified(header, producer, append)
        if producer is None:
            if is_client and header.producer_epoch < NO_PRODUCER_EPOCH:
                raise self._stale_epoch(header, NO_PRODUCER_EPOCH)
            return None
        if header.producer_epoch < producer.epoch:
            raise self._stale_epoch(header, producer.epoch)
        if is_client and not _is_in_sequence(header, producer):
            raise self._out_of_order(header, producer)
        if producer.transaction_offset is not None and not header.is_transactional:
            raise RecordsRefused(
                Error.INVALID_TXN_STATE,
                f"Expected transactional write from producer {header.producer_id} in {self.name}",
            )
        return None

    def check_marker(self, header: BatchHeader, marker: Marker, transaction_version: int) -> None:
        """Check a marker before it is written.

        Raises RecordsRefused: INVALID_PRODUCER_EPOCH, or TRANSACTION_COORDINATOR_FENCED for a
        coordinator that has been replaced.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return
        epoch = header.producer_epoch
        if epoch < producer.epoch:
            raise self._stale_epoch(header, producer.epoch)
        if transaction_version >= 2 and epoch == producer.epoch:
            # Transactions V2 bump the epoch with every marker, so an equal one is either a late
            # repeat, which does no harm, or aimed at a transaction that began after it (KIP-890).
            is_repeat = producer.transaction_offset is None or epoch == _LAST_EPOCH
            if not is_repeat:
                raise self._stale_epoch(header, producer.epoch)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise RecordsRefused(
                Error.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producer {header.producer_id} in {self.name}:"
                f" {marker.coordinator_epoch} (zombie), {producer.coordinator_epoch} (current)",
            )

    def update(self, header: BatchHeader, base_offset: int) -> None:
        """Apply a data batch that was appended at `base_offset`."""
        producer_id = header.producer_id
        epoch = header.producer_epoch
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = ProducerHistory(producer_id, epoch)
        batches = producer.batches
        if epoch != producer.epoch:
            batches.clear()
            producer.epoch = epoch
        elif len(batches) == REMEMBERED_BATCHES:
            del batches[0]
        last_offset = base_offset + header.last_offset_delta
        timestamp = header.max_timestamp
        first, last = header.base_sequence, header.last_sequence
        batches.append(_new(BatchSpan, (first, last, base_offset, last_offset, timestamp)))
        producer.last_timestamp = timestamp
        self.end_offset = last_offset + 1
        if producer.transaction_offset is None and header.is_transactional:
            producer.transaction_offset = base_offset
            self._open[base_offset] = producer_id
            if self.verifications is not None:
                self.verifications.end(producer_id)
            if self.first_unstable_offset is None:
                self.first_unstable_offset = base_offset

    def update_marker(
        self, header: BatchHeader, base_offset: int, marker: Marker
    ) -> CompletedTransaction | None:
        """Apply an appended marker; returns the transaction it ended, None if that was empty."""
        producer_id = header.producer_id
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = ProducerHistory(producer_id)
        if producer.epoch != header.producer_epoch:
            producer.batches.clear()
            producer.epoch = header.producer_epoch
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = marker.timestamp_ms
        self.end_offset = base_offset + 1
        if self.verifications is not None:
            self.verifications.ended_by_marker(producer_id, header.producer_epoch)
        first_offset, producer.transaction_offset = producer.transaction_offset, None
        if first_offset is None:
            return None
        del self._open[first_offset]
        undecided = self.first_undecided_offset
        self.completed[first_offset] = base_offset
        self._find_first_unstable()
        stable = base_offset + 1 if undecided is None else undecided
        return CompletedTransaction(
            producer_id, first_offset, base_offset, not marker.is_commit, stable
        )

    def replay(self, header: BatchHeader, batch: Buffer) -> CompletedTransaction | None:
        """Apply a batch that was read from the log or fetched from a leader, without checks.

        Raises KafkaError(INVALID_RECORD) for a control batch that holds no marker.
        """
        completed = None
        if header.producer_id >= 0:
            if not header.is_control:
                self.update(header, header.base_offset)
            elif (marker := decode_marker(batch, header)) is not None:
                completed = self.update_marker(header, header.base_offset, marker)
        self.end_offset = header.end_offset
        return completed

    def forget_stable(self, high_watermark: int) -> None:
        """Forget completed transactions that lie wholly below the high watermark."""
        if self.completed:
            self.completed = {
                first: last for first, last in self.completed.items() if last >= high_watermark
            }
            self._find_first_unstable()

    def advance_start(self, start_offset: int) -> None:
        """Apply a higher log start offset. Producers stay: their sequences still count."""
        self.forget_stable(start_offset)
        self.end_offset = max(self.end_offset, start_offset)

    def clear(self, end_offset: int) -> None:
        """Forget everything, before a snapshot and a replay from `end_offset` on."""
        self._producers.clear()
        self._open.clear()
        self.completed.clear()
        self.first_unstable_offset = None
        self.end_offset = end_offset

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers idle for `expiration_ms` without open transaction; returns how many."""
        expired = [
            producer.producer_id
            for producer in self
            if producer.transaction_offset is None
            and now_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def encode_snapshot(self) -> bytes:
        """The bytes of `<end_offset>.snapshot`, producers in order of their ids.

        As in Kafka only the newest batch of each producer is kept.
        """
        out = bytearray(_SNAPSHOT_HEADER.size)
        for producer_id in sorted(self._producers):
            producer = self._producers[producer_id]
            last_offset, delta = -1, 0
            if producer.batches:
                span = producer.batches[-1]
                last_offset = span.last_offset
                delta = span.last_offset - span.first_offset
            first_offset = producer.transaction_offset
            out += _SNAPSHOT_ENTRY.pack(
                producer_id,
                producer.epoch,
                producer.last_sequence,
                last_offset,
                delta,
                producer.last_timestamp,
                producer.coordinator_epoch,
                -1 if first_offset is None else first_offset,
            )
        crc = 0
        _SNAPSHOT_HEADER.pack_into(out, 0, _SNAPSHOT_VERSION, crc, len(self._producers))
        crc = crc32c(memoryview(out)[_SNAPSHOT_CRC_FROM:])
        _SNAPSHOT_HEADER.pack_into(out, 0, _SNAPSHOT_VERSION, crc, len(self._producers))
        return bytes(out)

    def load_snapshot(self, data: Buffer, end_offset: int) -> None:
        """Replace the state by a snapshot that was taken at `end_offset`.

        Raises CorruptSnapshot and leaves everything as it was.
        """
        producers = decode_snapshot(data)
        self.clear(end_offset)
        for producer in producers:
            self._producers[producer.producer_id] = producer
        self._open = {
            producer.transaction_offset: producer.producer_id
            for producer in sorted(producers, key=lambda each: each.transaction_offset or 0)
            if producer.transaction_offset is not None
        }
        self._find_first_unstable()

    def _check_verified(
        self, header: BatchHeader, producer: ProducerHistory | None, append: Append
    ) -> None:
        # Coordinators check the guard themselves, without a suspension before their append.
        if (
            self.verifications is None
            or append.origin is not _CLIENT
            or (
                producer is not None
                and producer.transaction_offset is not None
                and producer.epoch == header.producer_epoch
            )
        ):
            return
        is_new = producer is None or not producer.batches
        self.verifications.check(header, append.guard, is_new_producer=is_new)

    def _find_first_unstable(self) -> None:
        undecided = next(iter(self._open), None)
        # Ordered by their markers, which may differ from the order of first offsets.
        decided = min(self.completed, default=None)
        if undecided is None or decided is None:
            self.first_unstable_offset = decided if undecided is None else undecided
        else:
            self.first_unstable_offset = min(undecided, decided)

    def _stale_epoch(self, header: BatchHeader, last_epoch: int) -> RecordsRefused:
        return RecordsRefused(
            Error.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {header.producer_id} in {self.name} is {header.producer_epoch},"
            f" while the last seen epoch is {last_epoch}",
        )

    def _out_of_order(self, header: BatchHeader, producer: ProducerHistory) -> RecordsRefused:
        return RecordsRefused(
            Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {header.producer_id} in {self.name}:"
            f" {header.base_sequence} (incoming, epoch {header.producer_epoch}),"
            f" {producer.last_sequence} (current end, epoch {producer.epoch})",
        )


def _repeated(header: BatchHeader, batches: list[BatchSpan]) -> BatchSpan | None:
    first, last = header.base_sequence, header.last_sequence
    for span in batches:
        if span.first_sequence == first and span.last_sequence == last:
            return span
    return None


def _after(span: BatchSpan) -> int:
    """The sequence expected after a batch; no known batch begins with that sequence."""
    return span.last_sequence + 1 & SEQUENCE_MASK


def _is_in_sequence(header: BatchHeader, producer: ProducerHistory) -> bool:
    # Without an epoch nothing is known of the producer: any sequence is accepted.
    if producer.epoch == NO_PRODUCER_EPOCH:
        return True
    first = header.base_sequence
    if header.producer_epoch != producer.epoch or not producer.batches:
        return first == 0
    return first == _after(producer.batches[-1])


def decode_snapshot(data: Buffer) -> list[ProducerHistory]:
    """The producers of a `.snapshot` file. Raises CorruptSnapshot."""
    if len(data) < _SNAPSHOT_HEADER.size:
        raise CorruptSnapshot(f"{len(data)} bytes are no producer snapshot")
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"unknown producer snapshot version {version}")
    if crc32c(memoryview(data)[_SNAPSHOT_CRC_FROM:]) != crc:
        raise CorruptSnapshot("checksum mismatch in a producer snapshot")
    if _SNAPSHOT_HEADER.size + count * _SNAPSHOT_ENTRY.size != len(data):
        raise CorruptSnapshot(f"{count} producers in {len(data)} bytes")
    producers = []
    for entry in _SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[_SNAPSHOT_HEADER.size :]):
        producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator, first = entry
        producer = ProducerHistory(producer_id, epoch)
        producer.last_timestamp = timestamp
        producer.coordinator_epoch = coordinator
        producer.transaction_offset = first if first >= 0 else None
        if last_offset >= 0:
            first_sequence = sequence - delta & SEQUENCE_MASK
            producer.batches.append(
                BatchSpan(first_sequence, sequence, last_offset - delta, last_offset, timestamp)
            )
        producers.append(producer)
    return producers


_LAST_EPOCH = 32767
_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = Struct(">hIi")
_SNAPSHOT_CRC_FROM = 6
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
