"""The record of a committed offset in `__consumer_offsets`, and how it is encoded."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from wirekafka.bounded_memory import Remembered
from wirekafka.coordinator.groups.commands import CommittedOffset
from wirekafka.coordinator.groups.record_types import RecordType
from wirekafka.protocol.records.groups_and_transactions import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)

_VERSION = Struct(">h")
_OFFSET_VERSION = 4
# Only version 1 has the expiry that OffsetCommit before v5 requests.
_EXPIRING_OFFSET_VERSION = 1
_OFFSET_KEYS_BYTES = 8 << 20
_OFFSET_KEY_PREFIX = _VERSION.pack(OffsetCommitKey.key)
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


OFFSET_RECORD_TYPE = RecordType(
    OffsetRecord, (LegacyOffsetCommitKey.key, OffsetCommitKey.key), _pack_offset, _unpack_offset
)
