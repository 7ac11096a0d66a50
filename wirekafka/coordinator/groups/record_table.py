"""The table of all record types of `__consumer_offsets`, and the codec that uses it."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

from wirekafka.coordinator.groups.classic.records import GROUP_RECORD_TYPE
from wirekafka.coordinator.groups.consumer.codec import CONSUMER_RECORD_TYPES
from wirekafka.coordinator.groups.offset_record import OFFSET_RECORD_TYPE
from wirekafka.coordinator.groups.record_types import RecordType
from wirekafka.coordinator.groups.share.codec import SHARE_RECORD_TYPES
from wirekafka.coordinator.groups.streams.codec import STREAMS_RECORD_TYPES
from wirekafka.runtime.record_codec import KeyValueCodec

_VERSION = Struct(">h")

RECORD_TYPES: tuple[RecordType, ...] = (
    OFFSET_RECORD_TYPE,
    GROUP_RECORD_TYPE,
    *CONSUMER_RECORD_TYPES,
    *SHARE_RECORD_TYPES,
    *STREAMS_RECORD_TYPES,
)
"""All known records of `__consumer_offsets`.

Each is replayed by the shard, or by the kind of groups whose `records` has its class.
"""


class GroupRecordCodec(KeyValueCodec):
    """Writes the records of a 4.4 coordinator; reads records of every version.

    Unknown record types cannot be read, tombstones included, and a shard is not loaded from a log
    with such records: the state of their groups would be wrong.
    """

    base_sequence = 0
    """The base sequence of batches: Kafka's coordinators write 0 with producer id -1."""

    def __init__(self, types: Sequence[RecordType] = RECORD_TYPES):
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
