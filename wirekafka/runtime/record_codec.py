"""Conversion between a machine's records and the bytes of a record batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from functools import lru_cache
from typing import Any, Protocol

from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, batch_of, decode_records, encode_pair
from wirekafka.runtime.machine import Producer
from wirekafka.runtime.replicated_log import Buffer


class UnreadableRecord(Exception):
    """A record of a machine's log cannot be decoded; the message has its offset and the reason.

    The log must not be read past it: later records may depend on it.
    """


class RecordCodec(Protocol):
    """Encodes and decodes the records of one kind of machine."""

    def encode(self, records: Sequence[object], now_ms: int, producer: Producer | None) -> bytes:
        """Encode one batch of all records, at offset 0; the log assigns its offsets."""

    def decode(self, batch: Buffer) -> Iterable[Any]:
        """Decode a data batch. Raises `UnreadableRecord`, possibly while it is iterated."""


class KeyValueCodec(ABC):
    """A codec for records that are the keys and values of a compacted topic."""

    compression: Codec = Codec.NONE
    base_sequence = -1

    @abstractmethod
    def pack(self, record: Any) -> tuple[bytes, bytes | None]:
        """Encode the key and the value of a record; a value of None is a tombstone."""

    @abstractmethod
    def unpack(self, key: bytes, value: bytes | None) -> object:
        """Decode a record. May raise any exception for an unknown record."""

    def encode(self, records: Sequence[object], now_ms: int, producer: Producer | None) -> bytes:
        """Encode one batch, which is transactional if there is a `producer`."""
        body = bytearray()
        for index, record in enumerate(records):
            key, value = self.pack(record)
            body += encode_pair(key, value, index)
        return batch_of(body, len(records), now_ms, self._options(producer))

    def encode_gradually(
        self, records: Sequence[object], now_ms: int
    ) -> Generator[None, None, bytes]:
        """Encode as `encode` does, without a producer, but pause after each record."""
        body = bytearray()
        for index, record in enumerate(records):
            key, value = self.pack(record)
            body += encode_pair(key, value, index)
            yield
        return batch_of(body, len(records), now_ms, self._options(None))

    def decode(self, batch: Buffer) -> Iterable[Any]:
        """Decode records one by one. Raises `UnreadableRecord` at the first unknown record."""
        for offset, _, key, value, _ in decode_records(batch):
            if key is None:
                raise UnreadableRecord(f"The record at offset {offset} has no key")
            try:
                yield self.unpack(key, value)
            except Exception as error:
                raise UnreadableRecord(
                    f"The record at offset {offset}, with key version "
                    f"{_key_version(key)}, is not known: {error}"
                ) from error

    def _options(self, producer: Producer | None) -> BatchOptions:
        if producer is None:
            return _options(self.compression, self.base_sequence)
        return BatchOptions(
            compression=self.compression,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            is_transactional=True,
        )


@lru_cache
def _options(compression: Codec, base_sequence: int) -> BatchOptions:
    return BatchOptions(compression=compression, base_sequence=base_sequence)


def _key_version(key: bytes) -> str:
    return str(int.from_bytes(key[:2], signed=True)) if len(key) > 1 else "missing"
