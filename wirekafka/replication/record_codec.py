"""Between a machine's records and the bytes of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.replication.machine import Producer
from wirekafka.replication.replicated_log import Buffer


class RecordCodec(Protocol):
    """How one kind of machine writes and reads its log."""

    def encode(self, records: Sequence[Any], now_ms: int, producer: Producer | None) -> bytes:
        """One batch of all of them, at offset 0; the log gives it its place."""

    def decode(self, batch: Buffer) -> Iterable[Any]:
        """The records of a data batch; those this machine has no use for are left out."""


class KeyValueCodec(ABC):
    """Records as the keys and values of a compacted topic."""

    compression: Codec = Codec.NONE
    base_sequence = -1

    @abstractmethod
    def pack(self, record: Any) -> tuple[bytes | None, bytes | None]:
        """Key and value; a value of None is a tombstone."""

    @abstractmethod
    def unpack(self, key: bytes | None, value: bytes | None) -> Any:
        """The record, or None to skip it."""

    def encode(self, records: Sequence[Any], now_ms: int, producer: Producer | None) -> bytes:
        """One batch, transactional when written for a producer."""
        packed = []
        for index, record in enumerate(records):
            key, value = self.pack(record)
            packed.append(Record(index, now_ms, key, value, ()))
        return encode_batch(packed, options=self._options(producer))

    def decode(self, batch: Buffer) -> Iterable[Any]:
        """Unpack what `unpack` knows."""
        for record in decode_records(batch):
            unpacked = self.unpack(record.key, record.value)
            if unpacked is not None:
                yield unpacked

    def _options(self, producer: Producer | None) -> BatchOptions:
        if producer is None:
            return BatchOptions(compression=self.compression, base_sequence=self.base_sequence)
        return BatchOptions(
            compression=self.compression,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            is_transactional=True,
        )
