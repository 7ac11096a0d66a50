"""The framing of metadata records in record values: frame version, type, version, body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from wirekafka.codec.message import MalformedMessage, Message
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.protocol.records import metadata as schemas
from wirekafka.protocol.records.metadata import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from wirekafka.runtime.machine import Producer
from wirekafka.runtime.replicated_log import Buffer

FRAME_VERSION = 1
METADATA_FEATURE = "metadata.version"
ELR_FEATURE = "eligible.leader.replicas.version"

# The metadata.version from which a record version may be written (KIP-858, 966, 1066).
_DIRECTORIES = 17
CORDONED_SINCE = 30

_TYPES: dict[int, type[Message]] = {
    schema.key: schema
    for schema in vars(schemas).values()
    if isinstance(schema, type) and issubclass(schema, Message) and schema is not Message
}


class UnknownMetadata(UnusableDirectory):
    """A metadata record that this version cannot decode; without it the metadata is incomplete."""


def encode_frame(record: Message, metadata_version: int, with_elr: bool) -> bytes:
    """Encode one framed record, in the version that Kafka writes at this metadata.version."""
    return _framer(type(record), record_version(record, metadata_version, with_elr))(record)


def _framer(schema: type[Message], version: int) -> Callable[[Any], bytes]:
    """Return the function that encodes and frames records of one schema in one version."""
    encode = schema.encoder(version)
    head = bytearray()
    for number in (FRAME_VERSION, schema.key, version):
        _write_uvarint(head, number)

    def framed(record: Any) -> bytes:
        # No schema has a field of type Records, so all is in what `encode` returns.
        return bytes(encode(record, [], head[:]))

    return framed


def decode_frame(value: Buffer) -> Message:
    """Decode a framed record. Raises `UnknownMetadata` for an unknown type, version or body."""
    if len(value) > 3 and not (value[0] | value[1] | value[2]) & 0x80:
        frame_version, key, version = value[:3]  # The usual case, fast: a start reads thousands.
        position = 3
    else:
        frame_version, position = _read_uvarint(value, 0)
        key, position = _read_uvarint(value, position)
        version, position = _read_uvarint(value, position)
    schema = _TYPES.get(key)
    if frame_version != FRAME_VERSION or schema is None or version not in schema.versions:
        raise UnknownMetadata(
            f"unknown metadata record: frame {frame_version}, type {key}, version {version}"
        )
    try:
        record: Message = schema.decode(bytes(value[position:]), version)
    except MalformedMessage as error:
        raise UnknownMetadata(f"malformed {schema.__name__} v{version}: {error}") from error
    return record


def record_version(record: Message, metadata_version: int, with_elr: bool) -> int:
    """The version of its schema that Kafka 4.4 writes `record` at."""
    match record:
        case PartitionRecord() | PartitionChangeRecord():
            return 2 if with_elr else int(metadata_version >= _DIRECTORIES)
        case RegisterBrokerRecord():
            if metadata_version >= CORDONED_SINCE:
                return 4
            return 3 if metadata_version >= _DIRECTORIES else 1
        case BrokerRegistrationChangeRecord():
            if record.cordoned_log_dirs is not None:
                return 3
            return 2 if record.log_dirs else 1 if record.in_controlled_shutdown else 0
        case _:
            return type(record).versions.last


class MetadataCodec:
    """Batches of `__cluster_metadata`: framed values, no keys, never compressed."""

    def __init__(self, levels: Mapping[str, int] | None = None) -> None:
        """`levels` are the feature levels so far; levels in later batches replace them."""
        self._levels: dict[str, int] = dict(levels or {})
        self._framers: dict[type[Message], Callable[[Any], bytes]] = {}
        """By type, at these levels: one batch has thousands of records of one type."""

    def encode(self, records: Sequence[Any], now_ms: int, producer: Producer | None) -> bytes:
        """Encode one batch of framed records."""
        assert producer is None, "metadata has no producers"
        framed = []
        for index, record in enumerate(records):
            self._note(record)
            framed.append(Record(index, now_ms, None, self.frame(record)))
        return encode_batch(framed, options=BatchOptions())

    def frame(self, record: Message) -> bytes:
        """Encode one framed record at the current feature levels."""
        framer = self._framers.get(record.__class__)
        if framer is None:
            with_elr = self._levels.get(ELR_FEATURE, 0) > 0
            version = record_version(record, self._levels.get(METADATA_FEATURE, 0), with_elr)
            framer = _framer(type(record), version)
            if not isinstance(record, BrokerRegistrationChangeRecord):  # Its version may differ.
                self._framers[type(record)] = framer
        return framer(record)

    def decode(self, batch: Buffer) -> Iterable[Any]:
        """Decode the records of a data batch. Raises `UnknownMetadata`."""
        for record in decode_records(batch):
            if record.value is not None:
                decoded = decode_frame(record.value)
                self._note(decoded)
                yield decoded

    def _note(self, record: Message) -> None:
        if isinstance(record, FeatureLevelRecord):
            self._levels[record.name] = record.feature_level
            self._framers.clear()


def _write_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 35:
        if position >= len(data):
            raise UnknownMetadata("the frame ends inside its header")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise UnknownMetadata("the frame's header is not a valid varint")
