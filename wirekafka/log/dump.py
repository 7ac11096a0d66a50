"""Decodes the files of a log directory to plain dictionaries, for people and scripts."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

from wirekafka.codec.batch import HEADER_BYTES, MAGIC, BatchHeader, is_intact, read_header
from wirekafka.codec.compression import Codec
from wirekafka.codec.message import MalformedMessage, Message, Part
from wirekafka.codec.record import Record, decode_records
from wirekafka.errors import KafkaError
from wirekafka.log import checkpoints
from wirekafka.log.aborted_index import decode_entries
from wirekafka.log.epochs import FILE_NAME as EPOCHS_NAME
from wirekafka.log.epochs import decode_epochs
from wirekafka.log.files import Disk, File
from wirekafka.log.index import OffsetIndex, TimeIndex
from wirekafka.log.producers import decode_snapshot
from wirekafka.protocol.records.control import (
    ControlType,
    control_type,
    decode_control_value,
    decode_marker,
)
from wirekafka.visible_text import json_text, one_line

Entry = dict[str, Any]
"""The fields of one line, index entry or batch; every value can be written as JSON."""

_UUID = "16s"

RecordDecoder = Callable[[Record], Entry | None]
"""Decodes a record of an internal topic; returns None for an unknown one."""


class UnknownFile(ValueError):
    """A file whose name is unlike any file's name in a log directory."""


def dump(disk: Disk, path: str, decode: RecordDecoder | None = None) -> Iterator[Entry]:
    """The entries of one file, in order, read lazily.

    `decode` decodes the records of an internal topic. A truncated or malformed file ends with an
    entry `error`. Raises UnknownFile, OSError.
    """
    name = _live_name(path)
    stem, _, suffix = name.rpartition(".")
    if suffix in ("log", "checkpoint") and stem:
        return _batches(_opened(disk, path), decode)
    reader = _BY_NAME.get(name) or (_BY_SUFFIX.get(suffix) if stem else None)
    if reader is None:
        raise UnknownFile(f"{path} is not a kind of file that a log directory has")
    base_offset = int(stem) if stem.isdigit() else 0
    return _guarded(reader, disk.read(path), base_offset)


def plain(value: Any) -> Any:
    """A decoded message, or any part of one, as JSON values; UUIDs in Kafka's form."""
    if isinstance(value, Message | Part):
        return {
            field.name: _uuids(getattr(value, field.name))
            if field.kind == _UUID
            else plain(getattr(value, field.name))
            for field in value.fields
        }
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return text_or_base64(bytes(value))
    return value


def _uuids(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_uuids(item) for item in value]
    return None if value is None else checkpoints.uuid_text(value)


def text_or_base64(data: bytes | None) -> Any:
    """Printable UTF-8 as a string, other bytes as `{"base64": ...}`."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if text.isprintable() or not text:
        return text
    return {"base64": base64.b64encode(data).decode()}


def readable(entry: Entry) -> str:
    """An entry as indented lines: names and values, a batch's records below it."""
    records = entry.get("records", [])
    head = " ".join(f"{name}: {_word(value)}" for name, value in entry.items() if name != "records")
    lines = [head]
    for record in records:
        words = (f"{name}: {_word(value)}" for name, value in record.items())
        lines.append("| " + " ".join(words))
    return "\n".join(lines)


def _word(value: Any) -> str:
    return one_line(value) if isinstance(value, str) else json_text(value)


def _live_name(path: str) -> str:
    name = path.rpartition("/")[2]
    for suffix in (".deleted", ".cleaned", ".swap"):
        name = name.removesuffix(suffix)
    return name


def _opened(disk: Disk, path: str) -> File:
    directory, _, name = path.rpartition("/")
    for entry in disk.list_directory(directory or "."):
        if entry.name == name:
            return disk.open(path, entry.size_bytes)
    raise FileNotFoundError(path)


def _guarded(
    reader: Callable[[bytes, int], Iterator[Entry]], data: bytes, base_offset: int
) -> Iterator[Entry]:
    try:
        yield from reader(data, base_offset)
    except ValueError as error:
        yield {"error": str(error)}


def _batches(file: File, decode: RecordDecoder | None) -> Iterator[Entry]:
    position = 0
    while position < file.size_bytes:
        head = file.pread(HEADER_BYTES, position)
        left = file.size_bytes - position
        if len(head) < HEADER_BYTES:
            yield {"position": position, "error": f"{left} bytes are no batch header"}
            return
        header = read_header(head)
        if header.magic != MAGIC or not HEADER_BYTES <= header.size_bytes <= left:
            yield {
                "position": position,
                "error": f"no batch of magic {header.magic} and {header.size_bytes} bytes"
                f" in the {left} bytes that are left",
            }
            return
        yield _batch(file.pread(header.size_bytes, position), header, position, decode)
        position += header.size_bytes


def _batch(batch: bytes, header: BatchHeader, position: int, decode: RecordDecoder | None) -> Entry:
    codecs = {codec.value: codec.name.lower() for codec in Codec}
    entry: Entry = {
        "position": position,
        "size_bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.end_offset - 1,
        "count": header.count,
        "leader_epoch": header.leader_epoch,
        "compression": codecs.get(header.compression, str(header.compression)),
        "timestamp_type": "LogAppendTime" if header.timestamp_type else "CreateTime",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": header.delete_horizon,
        "crc": header.crc,
        "is_valid": is_intact(batch, 0, header),
    }
    try:
        records = decode_records(batch, header)
    except KafkaError as error:
        entry["error"] = str(error)
        return entry
    entry["records"] = [_record(record, header, decode) for record in records]
    if header.is_control and header.has_producer_id and records:
        marker = decode_marker(batch, header)
        if marker is not None:
            entry["records"][0]["coordinator_epoch"] = marker.coordinator_epoch
    return entry


def _record(record: Record, header: BatchHeader, decode: RecordDecoder | None) -> Entry:
    entry: Entry = {"offset": record.offset, "timestamp": record.timestamp}
    if record.headers:
        entry["headers"] = [[name, text_or_base64(value)] for name, value in record.headers]
    if header.is_control:
        return entry | _control(record)
    meaning = decode(record) if decode else None
    if meaning is not None:
        return entry | meaning
    return entry | {"key": text_or_base64(record.key), "value": text_or_base64(record.value)}


def _control(record: Record) -> Entry:
    number = control_type(record)
    kinds = {kind.value: kind.name for kind in ControlType}
    entry: Entry = {"control": kinds.get(number, number)}
    try:
        value = decode_control_value(record)
    except MalformedMessage as error:
        return entry | {"error": str(error)}
    return entry if value is None else entry | {"value": plain(value)}


def _offset_index(data: bytes, base_offset: int) -> Iterator[Entry]:
    for relative, position in _filled(OffsetIndex.struct, data):
        yield {"offset": base_offset + relative, "position": position}


def _time_index(data: bytes, base_offset: int) -> Iterator[Entry]:
    for timestamp, relative in _filled(TimeIndex.struct, data):
        yield {"timestamp": timestamp, "offset": base_offset + relative}


def _filled(struct: Any, data: bytes) -> Iterator[tuple[int, int]]:
    """The entries before the zeros with which Kafka preallocates the index of an open segment."""
    whole = len(data) // struct.size * struct.size
    for entry in struct.iter_unpack(data[:whole]):
        if entry == (0, 0):
            break
        yield entry
    if whole != len(data):
        raise ValueError(f"{len(data) - whole} bytes after the last whole entry")


def _transaction_index(data: bytes, base_offset: int) -> Iterator[Entry]:
    for aborted in decode_entries(data):
        yield aborted._asdict()


def _producer_snapshot(data: bytes, base_offset: int) -> Iterator[Entry]:
    for producer in decode_snapshot(data):
        newest = producer.batches[-1] if producer.batches else None
        yield {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "last_sequence": producer.last_sequence,
            "first_offset": newest.first_offset if newest else -1,
            "last_offset": newest.last_offset if newest else -1,
            "last_timestamp": producer.last_timestamp,
            "coordinator_epoch": producer.coordinator_epoch,
            "current_transaction_first_offset": producer.transaction_offset,
        }


def _leader_epochs(data: bytes, base_offset: int) -> Iterator[Entry]:
    for epoch in decode_epochs(data):
        yield epoch._asdict()


def _offsets(data: bytes, base_offset: int) -> Iterator[Entry]:
    for (topic, partition), offset in checkpoints.offsets_from(data).items():
        yield {"topic": topic, "partition": partition, "offset": offset}


def _properties(data: bytes, base_offset: int) -> Iterator[Entry]:
    yield dict(checkpoints.properties_from(data))


def _partition_metadata(data: bytes, base_offset: int) -> Iterator[Entry]:
    lines = (line.partition(":") for line in data.decode("utf-8", "replace").splitlines())
    yield {name.strip(): value.strip() for name, _, value in lines}


def _json(data: bytes, base_offset: int) -> Iterator[Entry]:
    fields = json.loads(data)
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    yield fields


_BY_NAME: dict[str, Callable[[bytes, int], Iterator[Entry]]] = {
    EPOCHS_NAME: _leader_epochs,
    checkpoints.RECOVERY_POINTS: _offsets,
    checkpoints.START_OFFSETS: _offsets,
    checkpoints.HIGH_WATERMARKS: _offsets,
    checkpoints.CLEANER_OFFSETS: _offsets,
    checkpoints.META_PROPERTIES: _properties,
    checkpoints.PARTITION_METADATA: _partition_metadata,
    checkpoints.CLEAN_SHUTDOWN: _json,
    "quorum-state": _json,
}
_BY_SUFFIX: dict[str, Callable[[bytes, int], Iterator[Entry]]] = {
    "index": _offset_index,
    "timeindex": _time_index,
    "txnindex": _transaction_index,
    "snapshot": _producer_snapshot,
}
