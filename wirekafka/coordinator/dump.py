"""What the records of Kafka's internal topics mean, for dump-log."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from wirekafka.codec.message import MalformedMessage, Message
from wirekafka.codec.record import Record
from wirekafka.coordinator.records import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
)
from wirekafka.log.dump import Entry, RecordDecoder, plain, text_or_base64
from wirekafka.metadata.framing import UnknownMetadata, decode_frame

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
METADATA_TOPIC = "__cluster_metadata"

_VERSION = Struct(">h")
_OFFSET_KINDS: dict[int, tuple[type[Message], type[Message]]] = {
    0: (LegacyOffsetCommitKey, OffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
}
_TRANSACTION_KINDS: dict[int, tuple[type[Message], type[Message]]] = {
    0: (TransactionLogKey, TransactionLogValue),
}
_CONSUMER = "consumer"


def decoder_for(path: str) -> RecordDecoder | None:
    """The decoder for the topic whose directory holds this file; None for an ordinary topic."""
    directory, _, name = path.rpartition("/")
    topic = directory.rpartition("/")[2].rpartition("-")[0]
    if topic == METADATA_TOPIC or name.endswith(".checkpoint"):
        return decode_metadata
    return {OFFSETS_TOPIC: decode_offsets, TRANSACTIONS_TOPIC: decode_transactions}.get(topic)


def decode_offsets(record: Record) -> Entry | None:
    """Key and value of a record of `__consumer_offsets`; members' protocol bytes are opened."""
    return _keyed(record, _OFFSET_KINDS, _with_open_members)


def decode_transactions(record: Record) -> Entry | None:
    """Key and value of a record of `__transaction_state`."""
    return _keyed(record, _TRANSACTION_KINDS, plain)


def decode_metadata(record: Record) -> Entry | None:
    """Type and fields of a record of the metadata log or of one of its snapshots."""
    if record.value is None:
        return None
    try:
        message = decode_frame(record.value)
    except UnknownMetadata as error:
        return {"value": text_or_base64(record.value), "error": str(error)}
    return {"type": type(message).__name__, "value": plain(message)}


def _keyed(
    record: Record,
    kinds: dict[int, tuple[type[Message], type[Message]]],
    describe: Callable[[Message], Any],
) -> Entry | None:
    if record.key is None or len(record.key) < _VERSION.size:
        return None
    (kind,) = _VERSION.unpack_from(record.key)
    if kind not in kinds:
        return None
    key_schema, value_schema = kinds[kind]
    try:
        entry: Entry = {
            "type": key_schema.__name__.removesuffix("Key"),
            "key": plain(key_schema.decode(record.key, 0, _VERSION.size)),
            "value": None,
        }
        if record.value is not None:
            (version,) = _VERSION.unpack_from(record.value)
            if version not in value_schema.versions:
                return entry | {"error": f"unknown version {version} of the value"}
            value = value_schema.decode(record.value, version, _VERSION.size)
            entry |= {"version": version, "value": describe(value)}
    except MalformedMessage as error:
        return {
            "key": text_or_base64(record.key),
            "value": text_or_base64(record.value),
            "error": str(error),
        }
    return entry


def _with_open_members(value: Message) -> Any:
    fields = plain(value)
    if isinstance(value, GroupMetadataValue) and value.protocol_type == _CONSUMER:
        for member, told in zip(value.members, fields["members"], strict=True):
            told["subscription"] = _opened(ConsumerProtocolSubscription, member.subscription)
            told["assignment"] = _opened(ConsumerProtocolAssignment, member.assignment)
    return fields


def _opened(schema: type[Message], data: bytes) -> Any:
    if len(data) < _VERSION.size:
        return text_or_base64(data)
    (version,) = _VERSION.unpack_from(data)
    try:
        # Members may speak a later version; what they add stands behind what is known.
        return plain(schema.decode(data, min(version, schema.versions[1]), _VERSION.size))
    except MalformedMessage:
        return text_or_base64(data)
