"""The record types of `__consumer_offsets`, with those of offsets and classic groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, NamedTuple

from wirekafka.coordinator.consumer.codec import CONSUMER_PACKINGS
from wirekafka.coordinator.group_commands import CommittedOffset
from wirekafka.coordinator.share.codec import SHARE_PACKINGS
from wirekafka.coordinator.streams.codec import STREAMS_PACKINGS
from wirekafka.protocol.records.groups_and_transactions import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from wirekafka.remembered import Remembered
from wirekafka.runtime.record_codec import KeyValueCodec

_VERSION = Struct(">h")
_GROUP_VERSION = 3
_OFFSET_VERSION = 4
# Only version 1 has the expiry that OffsetCommit before v5 requests.
_EXPIRING_OFFSET_VERSION = 1
_OFFSET_KEYS_BYTES = 8 << 20
_OFFSET_KEY_PREFIX = _VERSION.pack(OffsetCommitKey.key)
_GROUP_KEY_PREFIX = _VERSION.pack(GroupMetadataKey.key)
_OFFSET_PREFIX = _VERSION.pack(_OFFSET_VERSION)
_EXPIRING_PREFIX = _VERSION.pack(_EXPIRING_OFFSET_VERSION)
_NO_TOPIC_ID = bytes(16)

_encode_offset = OffsetCommitValue.encoder(_OFFSET_VERSION)
_encode_expiring_offset = OffsetCommitValue.encoder(_EXPIRING_OFFSET_VERSION)


class OffsetRecord(NamedTuple):
    """A committed offset; None is its tombstone."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


class GroupRecord(NamedTuple):
    """The GroupMetadata of a classic group; None is its tombstone."""

    group_id: str
    value: GroupMetadataValue | None


class RecordType(NamedTuple):
    """A row of the table: a class of records and how it is encoded and decoded.

    `unpack` gets the key, its version included, and the value, None for a tombstone.
    """

    record: type
    key_versions: tuple[int, ...]
    pack: Callable[[Any], tuple[bytes, bytes | None]]
    unpack: Callable[[bytes, bytes | None], Any]


class GroupRecordCodec(KeyValueCodec):
    """Writes the records of a 4.4 coordinator; reads those of every version.

    Unknown record types cannot be read, tombstones included, and a shard is not loaded from a log
    with such records: the state of their groups would be wrong.
    """

    base_sequence = 0
    """The base sequence of batches: Kafka's coordinators write 0 with producer id -1."""

    def __init__(self, types: Sequence[RecordType] | None = None):
        types = RECORD_TYPES if types is None else types
        self._packers = {each.record: each.pack for each in types}
        self._unpackers = {
            key_version: each.unpack for each in types for key_version in each.key_versions
        }

    def pack(self, record: Any) -> tuple[bytes, bytes | None]:
        """Return key and value; the value None makes a tombstone."""
        return self._packers[type(record)](record)

    def unpack(self, key: bytes, value: bytes | None) -> Any:
        """Decode a record. Raises ValueError for a key that is not in the table."""
        (key_version,) = _VERSION.unpack_from(key)
        unpack = self._unpackers.get(key_version)
        if unpack is None:
            raise ValueError("no kind of group here has such records")
        return unpack(key, value)


def _pack_offset(record: OffsetRecord) -> tuple[bytes, bytes | None]:
    group_id, topic, partition, committed = record
    key = _offset_keys[group_id, topic, partition]
    if committed is None:
        return key, None
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_ms,
        expire_timestamp=committed.expire_ms,
        topic_id=committed.topic_id,
    )
    if committed.expire_ms != -1:
        return key, bytes(_encode_expiring_offset(value, [], bytearray(_EXPIRING_PREFIX)))
    return key, bytes(_encode_offset(value, [], bytearray(_OFFSET_PREFIX)))


def _pack_offset_key(key: tuple[str, str, int]) -> bytes:
    group_id, topic, partition = key
    packed = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return _OFFSET_KEY_PREFIX + packed.encode(0)


_offset_keys = Remembered[tuple[str, str, int], bytes](_OFFSET_KEYS_BYTES, find=_pack_offset_key)
"""Encoded keys of offsets: consumers commit the same partitions repeatedly."""


def _unpack_offset(key: bytes, value: bytes | None) -> OffsetRecord:
    # Keys of version 0 and 1 have the same layout.
    name = OffsetCommitKey.decode(key, 0, _VERSION.size)
    if value is None:
        return OffsetRecord(name.group, name.topic, name.partition, None)
    (version,) = _VERSION.unpack_from(value)
    committed = OffsetCommitValue.decode(value, version, _VERSION.size)
    return OffsetRecord(
        name.group,
        name.topic,
        name.partition,
        CommittedOffset(
            committed.offset,
            committed.leader_epoch,
            committed.metadata,
            committed.commit_timestamp,
            committed.expire_timestamp,
            committed.topic_id or _NO_TOPIC_ID,
        ),
    )


def _pack_group(record: GroupRecord) -> tuple[bytes, bytes | None]:
    key = _GROUP_KEY_PREFIX + GroupMetadataKey(group=record.group_id).encode(0)
    if record.value is None:
        return key, None
    return key, _VERSION.pack(_GROUP_VERSION) + record.value.encode(_GROUP_VERSION)


def _unpack_group(key: bytes, value: bytes | None) -> GroupRecord:
    group_id = GroupMetadataKey.decode(key, 0, _VERSION.size).group
    if value is None:
        return GroupRecord(group_id, None)
    (version,) = _VERSION.unpack_from(value)
    return GroupRecord(group_id, GroupMetadataValue.decode(value, version, _VERSION.size))


RECORD_TYPES: tuple[RecordType, ...] = (
    RecordType(
        OffsetRecord, (LegacyOffsetCommitKey.key, OffsetCommitKey.key), _pack_offset, _unpack_offset
    ),
    RecordType(GroupRecord, (GroupMetadataKey.key,), _pack_group, _unpack_group),
    *(RecordType(*packing) for packing in (*CONSUMER_PACKINGS, *SHARE_PACKINGS, *STREAMS_PACKINGS)),
)
"""All known records of `__consumer_offsets`.

Each is replayed by the shard, or by the kind of groups whose `records` has its class.
"""
