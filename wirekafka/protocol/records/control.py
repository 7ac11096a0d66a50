"""Control records: transaction markers (KIP-98) and records of the metadata quorum (KIP-595)."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from wirekafka.codec.batch import BatchHeader, Buffer
from wirekafka.codec.message import Int16, Int32, Int64, Message, Part, String, UInt16, Uuid, field
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.errors import Error, KafkaError


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    """The first record of a quorum leader's epoch: the leader and its voters (KIP-595)."""

    version: Int16
    leader_id: Int32
    voters: list[Voter]
    granting_voters: list[Voter]

    class Voter(Part):
        voter_id: Int32
        voter_directory_id: Uuid = field("1+")


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    """The first record of a metadata snapshot (KIP-630)."""

    version: Int16
    last_contained_log_timestamp: Int64


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    """The last record of a metadata snapshot (KIP-630)."""

    version: Int16


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    """The `kraft.version` that applies from its offset on (KIP-853)."""

    version: Int16
    kraft_version: Int16


class VotersRecord(Message, versions="0", flexible="0+"):
    """The voter set that applies from its offset on (KIP-853)."""

    version: Int16
    voters: list[Voter]

    class Voter(Part):
        voter_id: Int32
        voter_directory_id: Uuid
        endpoints: list[Endpoint]
        kraft_version_feature: KRaftVersionFeature

        class Endpoint(Part):
            name: String
            host: String
            port: UInt16

        class KRaftVersionFeature(Part):
            min_supported_version: Int16
            max_supported_version: Int16


class ControlType(IntEnum):
    """The type in a control record's key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class Marker(NamedTuple):
    """A transaction marker, as decoded from a control record."""

    is_commit: bool
    coordinator_epoch: int
    timestamp_ms: int


_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
_VERSION = Struct(">h")
_SCHEMAS: dict[int, type[Message]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}


def encode_marker(producer_id: int, producer_epoch: int, marker: Marker) -> bytes:
    """A control batch with one transaction marker, to be appended with `Origin.COORDINATOR`."""
    kind = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
    record = Record(
        timestamp=marker.timestamp_ms,
        key=_KEY.pack(0, kind),
        value=_MARKER_VALUE.pack(0, marker.coordinator_epoch),
    )
    options = BatchOptions(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
    return encode_batch([record], options=options)


def decode_marker(batch: Buffer, header: BatchHeader) -> Marker | None:
    """The marker in a control batch of a producer; None when compaction has emptied the batch.

    Raises KafkaError(INVALID_RECORD) for anything else.
    """
    if header.count == 0:
        return None
    record = decode_records(batch, header)[0]
    try:
        _, kind = _KEY.unpack_from(record.key or b"")
        _, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value or b"")
    except struct_error as error:
        raise KafkaError(Error.INVALID_RECORD, f"Not a transaction marker: {error}") from error
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise KafkaError(Error.INVALID_RECORD, f"Control type {kind} ends no transaction")
    return Marker(kind == ControlType.COMMIT, coordinator_epoch, record.timestamp)


def control_type(record: Record) -> int:
    """The type of a control record as a number, which `ControlType` may lack; -1 for no key."""
    if record.key is None or len(record.key) < _KEY.size:
        return -1
    kind: int = _KEY.unpack_from(record.key)[1]
    return kind


def decode_control_value(record: Record) -> Message | None:
    """The decoded value of a quorum's control record; None for markers and unknown types.

    Raises MalformedMessage.
    """
    schema = _SCHEMAS.get(control_type(record))
    if schema is None or record.value is None:
        return None
    # Each value begins with a version field, which is also its schema version.
    (version,) = _VERSION.unpack_from(record.value)
    return schema.decode(record.value, min(version, schema.versions[1]))
