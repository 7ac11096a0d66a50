"""Decoders of the records of Kafka's internal topics, for dump-log."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from wirekafka.codec.message import MalformedMessage, Message
from wirekafka.codec.record import Record
from wirekafka.coordinator.groups.consumer.codec import CONSUMER_SCHEMAS
from wirekafka.coordinator.groups.share.codec import SHARE_SCHEMAS
from wirekafka.coordinator.groups.streams.codec import STREAMS_SCHEMAS
from wirekafka.coordinator.share_state.records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from wirekafka.log.dump import Entry, RecordDecoder, plain, text_or_base64
from wirekafka.metadata.image.framing import UnknownMetadata, decode_frame
from wirekafka.protocol.records.groups_and_transactions import (
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
from wirekafka.replication.partition.internal_topics import (
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)

_VERSION = Struct(">h")
_OFFSET_KINDS: dict[int, tuple[type[Message], type[Message]]] = {
    0: (LegacyOffsetCommitKey, OffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    **CONSUMER_SCHEMAS,
    **SHARE_SCHEMAS,
    **STREAMS_SCHEMAS,
}
_TRANSACTION_KINDS: dict[int, tuple[type[Message], type[Message]]] = {
    0: (TransactionLogKey, TransactionLogValue)
}
_SHARE_KINDS: dict[int, tuple[type[Message], type[Message]]] = {
    0: (ShareSnapshotKey, ShareSnapshotValue),
    1: (ShareUpdateKey, ShareUpdateValue),
}
_CONSUMER = "consumer"


def decoder_for(path: str) -> RecordDecoder | None:
    """Return the decoder for a log file, by its directory; None for an ordinary topic."""
    directory, _, name = path.rpartition("/")
    topic = directory.rpartition("/")[2].rpartition("-")[0]
    if topic == METADATA_TOPIC or name.endswith(".checkpoint"):
        return decode_metadata
    return _DECODERS.get(topic)


def decode_offsets(record: Record) -> Entry | None:
    """Decode a record of `__consumer_offsets`, including members' subscriptions and assignments."""
    return _keyed(record, _OFFSET_KINDS, _with_decoded_members)


def decode_transactions(record: Record) -> Entry | None:
    """Decode a record of `__transaction_state`."""
    return _keyed(record, _TRANSACTION_KINDS, plain)


def decode_share_states(record: Record) -> Entry | None:
    """Decode a record of `__share_group_state`."""
    return _keyed(record, _SHARE_KINDS, plain)


_DECODERS = {
    OFFSETS_TOPIC: decode_offsets,
    TRANSACTIONS_TOPIC: decode_transactions,
    SHARE_STATE_TOPIC: decode_share_states,
}


def decode_metadata(record: Record) -> Entry | None:
    """Decode a record of the metadata log or of its snapshots."""
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


def _with_decoded_members(value: Message) -> Any:
    fields = plain(value)
    if isinstance(value, GroupMetadataValue) and value.protocol_type == _CONSUMER:
        for member, entry in zip(value.members, fields["members"], strict=True):
            entry["subscription"] = _decoded(ConsumerProtocolSubscription, member.subscription)
            entry["assignment"] = _decoded(ConsumerProtocolAssignment, member.assignment)
    return fields


def _decoded(schema: type[Message], data: bytes) -> Any:
    if len(data) < _VERSION.size:
        return text_or_base64(data)
    (version,) = _VERSION.unpack_from(data)
    try:
        # Members may use a later version; its additional fields come after the known ones.
        return plain(schema.decode(data, min(version, schema.versions[1]), _VERSION.size))
    except MalformedMessage:
        return text_or_base64(data)
