"""Encoding of the records of `__transaction_state`."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from wirekafka.coordinator.transactions.transaction import Transaction
from wirekafka.protocol.records.groups_and_transactions import (
    TransactionLogKey,
    TransactionLogValue,
)
from wirekafka.runtime.record_codec import KeyValueCodec

_VERSION = Struct(">h")
_VALUE_VERSION = 1
_KEY_PREFIX = _VERSION.pack(0)


class TransactionRecord(NamedTuple):
    """The new state of a transactional id; None, a tombstone, if it has expired."""

    transactional_id: str
    transaction: Transaction | None


class TransactionRecordCodec(KeyValueCodec):
    """Encodes version 1, as Kafka at transaction.version 1 and above; decodes version 0 too."""

    def pack(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        """Encode key and value; a value of None is a tombstone."""
        key = _KEY_PREFIX + TransactionLogKey(transactional_id=record.transactional_id).encode(0)
        if record.transaction is None:
            return key, None
        value = record.transaction.to_value().encode(_VALUE_VERSION)
        return key, _VERSION.pack(_VALUE_VERSION) + value

    def unpack(self, key: bytes, value: bytes | None) -> TransactionRecord:
        """Decode a record. Raises ValueError for an unknown type of key."""
        if key[:2] != _KEY_PREFIX:
            raise ValueError("not the key of a transactional id")
        transactional_id = TransactionLogKey.decode(key, 0, _VERSION.size).transactional_id
        if value is None:
            return TransactionRecord(transactional_id, None)
        (version,) = _VERSION.unpack_from(value)
        decoded = TransactionLogValue.decode(value, version, _VERSION.size)
        return TransactionRecord(transactional_id, Transaction.from_value(decoded))
