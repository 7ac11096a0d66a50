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
from wirekafka.log.control import Marker, decode_marker
from wirekafka.log.scan import REMEMBERED_BATCHES
from wirekafka.log.verification import Verifications

NO_COORDINATOR_EPOCH = -1


_CLIENT = Origin.CLIENT
_new: Any = tuple.__new__  # Half the price of a NamedTuple's own constructor.


class CorruptSnapshot(ValueError):
    """A producer snapshot that cannot be read; the log behind it says the same, only slower."""


class BatchSpan(NamedTuple):
    """One remembered batch: inclusive sequences and offsets, its newest timestamp in ms."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class Producer:
    """What a log remembers of one producer id; `batches` are its newest five, oldest first."""

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
        """-1 before the first batch of this epoch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class CompletedTransaction(NamedTuple):
    """A transaction that a marker ended; offsets inclusive, the last one is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int
    """Where read_committed readers stopped once this marker was in the log."""


class ProducerStates:
    """Every producer of one log, a fold over its batches up to `end_offset`.

    `check` and `check_marker` change nothing, so that a batch that is refused, or whose write
    fails, leaves no trace; `update`, `update_marker` and `replay` follow the write.
    """

    __slots__ = (
        "_completed",
        "_open",
        "_producers",
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
        """The first offset whose fate is open: undecided, or decided above the high watermark."""
        self.verifications: Verifications | None = None
        """Set where transactional writes must be verified with their coordinator (KIP-890)."""
        self._producers: dict[int, Producer] = {}
        # First offset -> producer id, and first offset -> last offset; both in order of offsets.
        self._open: dict[int, int] = {}
        self._completed: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        """The state of one producer id, for DescribeProducers."""
        return self._producers.get(producer_id)

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether further transactional writes of this producer need no verification."""
        producer = self._producers.get(producer_id)
        return (
            producer is not None
            and producer.transaction_offset is not None
            and producer.epoch == epoch
        )

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest transaction without a marker begins."""
        return next(iter(self._open), None)

    def check(self, header: BatchHeader, append: Append) -> BatchSpan | None:
        """Check a data batch with a producer id; an earlier batch when this one repeats it.

        Raises RecordsRefused: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, or
        INVALID_TXN_STATE for a plain write amid the producer's own transaction.
        """
        producer = self._producers.get(header.producer_id)
        is_client = append.origin is _CLIENT
        if is_client and producer is not None and header.producer_epoch == producer.epoch:
            batches = producer.batches
            follows = batches and header.base_sequence == _after(batches[-1])
            if follows and producer.transaction_offset is None and not header.is_transactional:
                return None  # The usual case: nothing below has anything to say of it.
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
        """Take in a data batch that is now in the log at `base_offset`."""
        producer_id = header.producer_id
        epoch = header.producer_epoch
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id, epoch)
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
        """Take in a marker that is now in the log; None when it ended an empty transaction."""
        producer_id = header.producer_id
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id)
        if producer.epoch != header.producer_epoch:
            producer.batches.clear()
            producer.epoch = header.producer_epoch
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = marker.timestamp_ms
        self.end_offset = base_offset + 1
        if self.verifications is not None:
            self.verifications.end(producer_id)
        first_offset, producer.transaction_offset = producer.transaction_offset, None
        if first_offset is None:
            return None
        del self._open[first_offset]
        undecided = self.first_undecided_offset
        self._completed[first_offset] = base_offset
        self._find_first_unstable()
        stable = base_offset + 1 if undecided is None else undecided
        return CompletedTransaction(
            producer_id, first_offset, base_offset, not marker.is_commit, stable
        )

    def replay(self, header: BatchHeader, batch: Buffer) -> CompletedTransaction | None:
        """Take in a batch from the log or from a leader, unchecked, at the offsets it has.

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

    def advance_high_watermark(self, high_watermark: int) -> None:
        """Let go of decided transactions that lie wholly below it."""
        if self._completed:
            self._completed = {
                first: last for first, last in self._completed.items() if last >= high_watermark
            }
            self._find_first_unstable()

    def advance_start(self, start_offset: int) -> None:
        """Note that the log now begins later. Producers stay: their sequences still count."""
        self.advance_high_watermark(start_offset)
        self.end_offset = max(self.end_offset, start_offset)

    def clear(self, end_offset: int) -> None:
        """Forget everything, before a snapshot and a replay from `end_offset` on."""
        self._producers.clear()
        self._open.clear()
        self._completed.clear()
        self.first_unstable_offset = None
        self.end_offset = end_offset

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that were silent for so long; how many. Open transactions keep them."""
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
                last_offset, delta = span.last_offset, span.last_offset - span.first_offset
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
        """Start anew from a snapshot that was taken at `end_offset`.

        Raises CorruptSnapshot and leaves everything as it was.
        """
        found = decode_snapshot(data)
        self.clear(end_offset)
        for producer in found:
            self._producers[producer.producer_id] = producer
        self._open = {
            producer.transaction_offset: producer.producer_id
            for producer in sorted(found, key=lambda producer: producer.transaction_offset or 0)
            if producer.transaction_offset is not None
        }
        self._find_first_unstable()

    def _check_verified(
        self, header: BatchHeader, producer: Producer | None, append: Append
    ) -> None:
        if self.verifications is None or (
            producer is not None
            and producer.transaction_offset is not None
            and producer.epoch == header.producer_epoch
        ):
            return
        is_new = producer is None or not producer.batches
        self.verifications.check(header, append.guard, is_new_producer=is_new)

    def _find_first_unstable(self) -> None:
        undecided = next(iter(self._open), None)
        decided = next(iter(self._completed), None)
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

    def _out_of_order(self, header: BatchHeader, producer: Producer) -> RecordsRefused:
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
    """The sequence that follows a batch; none of the last five begins with it."""
    return span.last_sequence + 1 & SEQUENCE_MASK


def _is_in_sequence(header: BatchHeader, producer: Producer) -> bool:
    # Without an epoch nothing is known of the producer, and any sequence will do.
    if producer.epoch == NO_PRODUCER_EPOCH:
        return True
    first = header.base_sequence
    if header.producer_epoch != producer.epoch or not producer.batches:
        return first == 0
    return first == _after(producer.batches[-1])


def decode_snapshot(data: Buffer) -> list[Producer]:
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
    found = []
    for entry in _SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[_SNAPSHOT_HEADER.size :]):
        producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator, first = entry
        producer = Producer(producer_id, epoch)
        producer.last_timestamp = timestamp
        producer.coordinator_epoch = coordinator
        producer.transaction_offset = first if first >= 0 else None
        if last_offset >= 0:
            first_sequence = sequence - delta & SEQUENCE_MASK
            producer.batches.append(
                BatchSpan(first_sequence, sequence, last_offset - delta, last_offset, timestamp)
            )
        found.append(producer)
    return found


_LAST_EPOCH = 32767
_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = Struct(">hIi")
_SNAPSHOT_CRC_FROM = 6
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
