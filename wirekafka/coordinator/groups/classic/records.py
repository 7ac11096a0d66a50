"""The record of a classic group in `__consumer_offsets`, and how it is encoded."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from wirekafka.coordinator.groups.record_types import RecordType
from wirekafka.protocol.records.groups_and_transactions import GroupMetadataKey, GroupMetadataValue

_VERSION = Struct(">h")
_GROUP_VERSION = 3
_GROUP_KEY_PREFIX = _VERSION.pack(GroupMetadataKey.key)


class GroupRecord(NamedTuple):
    """The GroupMetadata of a classic group; None is its tombstone."""

    group_id: str
    value: GroupMetadataValue | None


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


GROUP_RECORD_TYPE = RecordType(GroupRecord, (GroupMetadataKey.key,), _pack_group, _unpack_group)
