"""The records of `__transaction_state`, as bytes."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from wirekafka.coordinator.records import TransactionLogKey, TransactionLogValue
from wirekafka.coordinator.transaction import Transaction
from wirekafka.replication.record_codec import KeyValueCodec

_VERSION = Struct(">h")
_VALUE_VERSION = 1
_KEY_PREFIX = _VERSION.pack(0)


class TransactionRecord(NamedTuple):
    """A transactional id took a step; None: it has expired."""

    transactional_id: str
    transaction: Transaction | None


class TransactionRecordCodec(KeyValueCodec):
    """Writes version 1, as a broker at transaction.version 1 and above does; reads 0 too."""

    def pack(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        """Key and value; None makes a tombstone."""
        key = _KEY_PREFIX + TransactionLogKey(transactional_id=record.transactional_id).encode(0)
        if record.transaction is None:
            return key, None
        value = record.transaction.to_value().encode(_VALUE_VERSION)
        return key, _VERSION.pack(_VALUE_VERSION) + value

    def unpack(self, key: bytes | None, value: bytes | None) -> TransactionRecord | None:
        """The record; None for a key of a kind that is not known here."""
        if key is None or key[:2] != _KEY_PREFIX:
            return None
        transactional_id = TransactionLogKey.decode(key, 0, _VERSION.size).transactional_id
        if value is None:
            return TransactionRecord(transactional_id, None)
        (version,) = _VERSION.unpack_from(value)
        told = TransactionLogValue.decode(value, version, _VERSION.size)
        return TransactionRecord(transactional_id, Transaction.from_value(told))
