"""The records of `__share_group_state` (KIP-932): snapshots of share partitions, and updates."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from wirekafka.codec.batch import read_header
from wirekafka.codec.compression import Codec
from wirekafka.codec.message import Int8, Int16, Int32, Int64, Message, Part, String, Uuid, field
from wirekafka.coordinator.share_state.states import NO_COUNT, ShareKey, StateBatch
from wirekafka.runtime.record_codec import KeyValueCodec
from wirekafka.runtime.replicated_log import Buffer


class ShareSnapshotKey(Message, key=0, versions="0", flexible="none"):
    group_id: String
    topic_id: Uuid
    partition: Int32


class ShareSnapshotValue(Message, key=0, versions="0", flexible="0+"):
    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(default=NO_COUNT, tag=0)
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: list[StateBatch]

    class StateBatch(Part):
        first_offset: Int64
        last_offset: Int64
        delivery_state: Int8
        delivery_count: Int16


class ShareUpdateKey(Message, key=1, versions="0", flexible="none"):
    group_id: String
    topic_id: Uuid
    partition: Int32


class ShareUpdateValue(Message, key=1, versions="0", flexible="0+"):
    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(default=NO_COUNT, tag=0)
    state_batches: list[StateBatch]

    class StateBatch(Part):
        first_offset: Int64
        last_offset: Int64
        delivery_state: Int8
        delivery_count: Int16


class ShareSnapshot(NamedTuple):
    """The whole state of a share partition.

    `snapshot_epoch` counts its snapshots from 0. The timestamps, in ms, differ if the snapshot
    was written only because the partition was inactive.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_ms: int
    write_ms: int
    batches: tuple[StateBatch, ...] = ()


class ShareUpdate(NamedTuple):
    """A change of a share partition's state since the snapshot with the same epoch."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...] = ()


class ShareRecord(NamedTuple):
    """The snapshot or update of a share partition; None, a tombstone, if its state is deleted.

    `offset` is the offset of a record read from the log, and -1 for a new record.
    """

    key: ShareKey
    value: ShareSnapshot | ShareUpdate | None
    offset: int = -1


_VERSION = Struct(">h")
_VALUE_PREFIX = _VERSION.pack(0)
_SNAPSHOT_PREFIX = _VERSION.pack(ShareSnapshotKey.key)
_UPDATE_PREFIX = _VERSION.pack(ShareUpdateKey.key)


class ShareRecordCodec(KeyValueCodec):
    """Encodes and decodes the records of `__share_group_state`."""

    def __init__(self, compression: Codec = Codec.NONE):
        self.compression = compression

    def pack(self, record: ShareRecord) -> tuple[bytes, bytes | None]:
        """Encode key and value; a value of None is a tombstone, with the key of a snapshot."""
        ids = dict(zip(("group_id", "topic_id", "partition"), record.key, strict=True))
        value = record.value
        if isinstance(value, ShareUpdate):
            key = _UPDATE_PREFIX + ShareUpdateKey(**ids).encode(0)
            return key, _VALUE_PREFIX + _update_value(value).encode(0)
        key = _SNAPSHOT_PREFIX + ShareSnapshotKey(**ids).encode(0)
        return key, None if value is None else _VALUE_PREFIX + _snapshot_value(value).encode(0)

    def unpack(self, key: bytes, value: bytes | None) -> ShareRecord:
        """Decode a record. Raises ValueError for an unknown type of key or version of a value."""
        kind = key[: _VERSION.size]
        version = value and value[: _VERSION.size]
        if kind not in (_SNAPSHOT_PREFIX, _UPDATE_PREFIX) or version not in (None, _VALUE_PREFIX):
            raise ValueError("not a snapshot or update of a share partition")
        ids = ShareSnapshotKey.decode(key, 0, _VERSION.size)
        share_key = ShareKey(ids.group_id, ids.topic_id, ids.partition)
        if value is None:
            return ShareRecord(share_key, None)
        if kind == _SNAPSHOT_PREFIX:
            return ShareRecord(
                share_key, _snapshot(ShareSnapshotValue.decode(value, 0, _VERSION.size))
            )
        return ShareRecord(share_key, _update(ShareUpdateValue.decode(value, 0, _VERSION.size)))

    def decode(self, batch: Buffer) -> Iterable[ShareRecord]:
        """Decode the records of a batch, with their offsets. Raises `UnreadableRecord`."""
        offset = read_header(batch).base_offset
        for index, record in enumerate(super().decode(batch)):
            yield record._replace(offset=offset + index)


def _snapshot_value(snapshot: ShareSnapshot) -> ShareSnapshotValue:
    kind = ShareSnapshotValue.StateBatch
    return ShareSnapshotValue(
        snapshot_epoch=snapshot.snapshot_epoch,
        state_epoch=snapshot.state_epoch,
        leader_epoch=snapshot.leader_epoch,
        start_offset=snapshot.start_offset,
        delivery_complete_count=snapshot.delivery_complete_count,
        create_timestamp=snapshot.create_ms,
        write_timestamp=snapshot.write_ms,
        state_batches=[kind(**batch._asdict()) for batch in snapshot.batches],
    )


def _update_value(update: ShareUpdate) -> ShareUpdateValue:
    kind = ShareUpdateValue.StateBatch
    return ShareUpdateValue(
        snapshot_epoch=update.snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=[kind(**batch._asdict()) for batch in update.batches],
    )


def _snapshot(value: ShareSnapshotValue) -> ShareSnapshot:
    return ShareSnapshot(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        create_ms=value.create_timestamp,
        write_ms=value.write_timestamp,
        batches=_batches(value),
    )


def _update(value: ShareUpdateValue) -> ShareUpdate:
    return ShareUpdate(
        snapshot_epoch=value.snapshot_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=_batches(value),
    )


def _batches(value: ShareSnapshotValue | ShareUpdateValue) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(
            batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
        )
        for batch in value.state_batches
    )
