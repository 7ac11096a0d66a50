"""The snapshot file format: the records of a state between a header and a footer (KIP-630)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from struct import Struct
from typing import Any, NamedTuple

from wirekafka.codec.batch import batches, is_intact, with_prefix
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.protocol.records.control import (
    ControlType,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from wirekafka.runtime.record_codec import RecordCodec
from wirekafka.runtime.replicated_log import Buffer

_SUFFIX = ".checkpoint"
_NAME = re.compile(rf"(\d{{20}})-(\d{{10}}){re.escape(_SUFFIX)}")
_CONTROL_KEY = Struct(">hh")
_RECORDS_PER_BATCH = 1000


class SnapshotId(NamedTuple):
    """The extent of a snapshot: the records below `end_offset`, the last with epoch `epoch`."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The file name that Kafka uses."""
        return f"{self.end_offset:020d}-{self.epoch:010d}{_SUFFIX}"

    @classmethod
    def parse(cls, file_name: str) -> SnapshotId | None:
        """Parse a file name; None for files that are not snapshots."""
        if not file_name.endswith(_SUFFIX):
            return None
        match = _NAME.fullmatch(file_name)
        return cls(int(match[1]), int(match[2])) if match else None


class BadSnapshot(UnusableDirectory):
    """A snapshot file that is corrupt or incomplete."""


def control_batch(records: Iterable[tuple[int, bytes]], now_ms: int) -> bytes:
    """Encode a control batch of (type, value) records, at offset 0 and epoch 0."""
    return encode_batch(
        [
            Record(index, now_ms, _CONTROL_KEY.pack(0, kind), value, ())
            for index, (kind, value) in enumerate(records)
        ],
        options=BatchOptions(leader_epoch=0, is_control=True),
    )


def control_type(key: bytes | None) -> int:
    """The type in a control record's key, -1 if the key has none."""
    if key is None or len(key) < _CONTROL_KEY.size:
        return -1
    kind: int = _CONTROL_KEY.unpack_from(key)[1]
    return kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The parameters of a snapshot file besides its records.

    `last_contained_ms` is the newest timestamp it covers, `epoch` the leader epoch in its batches;
    `quorum` are control records (type, value) that follow the header.
    """

    now_ms: int
    last_contained_ms: int = 0
    epoch: int = 0
    quorum: Sequence[tuple[int, bytes]] = ()


def encode(records: Iterable[Any], codec: RecordCodec, frame: Frame) -> Iterator[bytes]:
    """Encode the batches of a snapshot file; their offsets start at 0."""
    header = SnapshotHeaderRecord(last_contained_log_timestamp=frame.last_contained_ms)
    first = [(ControlType.SNAPSHOT_HEADER, bytes(header.encode(0))), *frame.quorum]
    last = [(ControlType.SNAPSHOT_FOOTER, bytes(SnapshotFooterRecord().encode(0)))]
    offset = 0
    for batch in _batches(records, codec, frame, first=first, last=last):
        _, shape = next(batches(batch))
        yield b"".join(with_prefix(batch, offset, frame.epoch))
        offset += shape.last_offset_delta + 1


_Control = Sequence[tuple[int, bytes]]


def _batches(
    records: Iterable[Any], codec: RecordCodec, frame: Frame, *, first: _Control, last: _Control
) -> Iterator[bytes]:
    yield control_batch(first, frame.now_ms)
    remaining = iter(records)
    while chunk := list(islice(remaining, _RECORDS_PER_BATCH)):
        yield codec.encode(chunk, frame.now_ms, None)
    yield control_batch(last, frame.now_ms)


def contained_ms(data: Buffer) -> int:
    """The timestamp of the newest record in a snapshot file. Raises `BadSnapshot`."""
    for _, header in batches(memoryview(data)):
        for record in decode_records(memoryview(data)[: header.size_bytes]):
            if control_type(record.key) == ControlType.SNAPSHOT_HEADER:
                return SnapshotHeaderRecord.decode(
                    record.value or b"", 0
                ).last_contained_log_timestamp
        break
    raise BadSnapshot("it has no header")


def decode(data: Buffer) -> Iterator[Buffer]:
    """Split a snapshot file into batches, control batches included. Raises `BadSnapshot`."""
    end = 0
    view = memoryview(data)
    last = None
    for position, header in batches(view):
        batch = view[position : position + header.size_bytes]
        if not is_intact(batch):
            raise BadSnapshot(f"the batch at byte {position} is corrupt")
        end = position + header.size_bytes
        last = batch if header.is_control else None
        yield batch
    if end != len(data):
        raise BadSnapshot(f"{len(data) - end} bytes at its end are not a batch")
    if last is None or control_type(decode_records(last)[-1].key) != ControlType.SNAPSHOT_FOOTER:
        raise BadSnapshot("it has no footer: the file is incomplete")
