"""The records of `__consumer_offsets` that classic groups and offsets are made of, as bytes."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import NamedTuple, TypeAlias

from wirekafka.coordinator.group_commands import CommittedOffset
from wirekafka.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from wirekafka.replication.record_codec import KeyValueCodec

_VERSION = Struct(">h")
_GROUP_VERSION = 3
_OFFSET_VERSION = 4
# Only version 1 has the expiry that clients before OffsetCommit v5 ask for.
_EXPIRING_OFFSET_VERSION = 1
_OFFSET_KEY_PREFIX = _VERSION.pack(OffsetCommitKey.key)
_GROUP_KEY_PREFIX = _VERSION.pack(GroupMetadataKey.key)
_OFFSET_PREFIX = _VERSION.pack(_OFFSET_VERSION)
_EXPIRING_PREFIX = _VERSION.pack(_EXPIRING_OFFSET_VERSION)
_NO_TOPIC_ID = bytes(16)

_encode_offset = OffsetCommitValue.encoder(_OFFSET_VERSION)
_encode_expiring_offset = OffsetCommitValue.encoder(_EXPIRING_OFFSET_VERSION)


class OffsetRecord(NamedTuple):
    """An offset was committed, or forgotten (None)."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


class GroupRecord(NamedTuple):
    """A group began a generation or became empty; None: it is gone."""

    group_id: str
    value: GroupMetadataValue | None


ShardRecord: TypeAlias = OffsetRecord | GroupRecord


class GroupRecordCodec(KeyValueCodec):
    """Writes what a 4.3 coordinator writes; reads every version there has been."""

    base_sequence = 0
    """Kafka's coordinators write 0 here, with producer id -1."""

    def pack(self, record: ShardRecord) -> tuple[bytes, bytes | None]:
        """Key and value; None makes a tombstone."""
        if isinstance(record, OffsetRecord):
            return _pack_offset(record)
        key = _GROUP_KEY_PREFIX + GroupMetadataKey(group=record.group_id).encode(0)
        if record.value is None:
            return key, None
        return key, _VERSION.pack(_GROUP_VERSION) + record.value.encode(_GROUP_VERSION)

    def unpack(self, key: bytes | None, value: bytes | None) -> ShardRecord | None:
        """The record; None for one that belongs to newer kinds of groups."""
        if key is None or len(key) < _VERSION.size:
            return None
        (kind,) = _VERSION.unpack_from(key)
        if kind == OffsetCommitKey.key or kind == LegacyOffsetCommitKey.key:
            return _unpack_offset(key, value)
        if kind == GroupMetadataKey.key:
            group_id = GroupMetadataKey.decode(key, 0, _VERSION.size).group
            if value is None:
                return GroupRecord(group_id, None)
            (version,) = _VERSION.unpack_from(value)
            return GroupRecord(group_id, GroupMetadataValue.decode(value, version, _VERSION.size))
        return None


def _pack_offset(record: OffsetRecord) -> tuple[bytes, bytes | None]:
    group_id, topic, partition, committed = record
    key = _pack_offset_key(group_id, topic, partition)
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


@lru_cache(maxsize=16_384)
def _pack_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Consumers commit the same partitions again and again."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return _OFFSET_KEY_PREFIX + key.encode(0)


def _unpack_offset(key: bytes, value: bytes | None) -> OffsetRecord:
    # Keys of kind 0 and 1 are laid out alike.
    name = OffsetCommitKey.decode(key, 0, _VERSION.size)
    if value is None:
        return OffsetRecord(name.group, name.topic, name.partition, None)
    (version,) = _VERSION.unpack_from(value)
    told = OffsetCommitValue.decode(value, version, _VERSION.size)
    return OffsetRecord(name.group, name.topic, name.partition, CommittedOffset(
        told.offset, told.leader_epoch, told.metadata, told.commit_timestamp,
        told.expire_timestamp, told.topic_id or _NO_TOPIC_ID,
    ))
