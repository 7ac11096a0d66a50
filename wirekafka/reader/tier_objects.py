"""The segments in an object store, found by the names of its objects, in either layout."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from bisect import bisect_right
from collections.abc import Container, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace

from wirekafka.codec.batch import Buffer
from wirekafka.log.epochs import EpochEntry, MalformedEpochs, decode_epochs
from wirekafka.reader.problems import DamagedLog, DataLost, ReaderError
from wirekafka.reader.source import OffsetRange
from wirekafka.reader.stored_segment import BatchCursor, largest_timestamp
from wirekafka.tables.rows import NO_LIMIT
from wirekafka.tiered.chunked_layout import ChunkedLayout, ChunkOptions, segment_in
from wirekafka.tiered.layout import IndexKind, Layout
from wirekafka.tiered.local_layout import LocalLayout
from wirekafka.tiered.remote_segment import RemoteSegment, TieredPartition
from wirekafka.tiered.store import DamagedObject, ObjectMissing, Store, StoreError

_FILES_NAME = re.compile(
    r"(?P<prefix>|.*/)(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)"
    r"-(?P<topic_id>[A-Za-z0-9_-]{22})/"
    r"(?P<start>\d{20})-(?P<id>[A-Za-z0-9_-]{22})(?P<suffix>\.[a-z_]+)"
)
"""An object of LocalTieredStorage."""
_CHUNKED_NAME = re.compile(
    r"(?P<prefix>|.*/)(?P<topic>[A-Za-z0-9._-]+)-(?P<topic_id>[A-Za-z0-9_-]{22})"
    r"/(?P<partition>\d+)/"
    r"(?P<start>\d{20})-(?P<id>[A-Za-z0-9_-]{22})(?P<suffix>\.[a-z-]+)"
)
"""An object of Aiven's plugin."""
_FILES_NEEDED = {".log", ".index", ".timeindex", ".leader_epoch_checkpoint"}
_CHUNKED_NEEDED = {".log", ".indexes", ".rsm-manifest"}
_CHUNK_BYTES = 4 << 20
_UNKNOWN = -1
_NO_OFFSETS = OffsetRange(0, 0)


class TierSegment:
    """The log file of a segment in a store, and its indexes. Raises ReaderError."""

    def __init__(self, layout: Layout, segment: RemoteSegment):
        self.segment = segment
        self.base_offset = segment.start_offset
        self.name = next(key for key in layout.keys_if_any(segment) if key.endswith("log"))
        self._layout = layout
        self._indexes: dict[IndexKind, Buffer] = {}

    def pread(self, size_bytes: int, position: int) -> Buffer:
        end = min(position + size_bytes, self.segment.size_bytes)
        if position >= end:
            return b""
        with self._failures(position):
            data = self._layout.read(self.segment, position, end)
        if len(data) != end - position:
            raise DamagedLog(self.name, position + len(data), "the object is too short")
        return data

    def offset_index(self) -> Buffer:
        return self._index(IndexKind.OFFSET)

    def time_index(self) -> Buffer:
        return self._index(IndexKind.TIMESTAMP)

    def transactions(self) -> Buffer:
        """The transaction index; empty if nothing in the segment was aborted."""
        with self._failures(0):
            try:
                return self._layout.index(self.segment, IndexKind.TRANSACTION)
            except ObjectMissing:
                return b""

    def producers(self) -> Buffer | None:
        """The snapshot of the log's producers at the end of the segment, if there is one."""
        with self._failures(0):
            try:
                return self._layout.index(self.segment, IndexKind.PRODUCER_SNAPSHOT)
            except ObjectMissing:
                return None

    def epochs(self) -> list[EpochEntry]:
        """The leader epochs of the log up to the end of the segment."""
        with self._failures(0):
            try:
                return decode_epochs(
                    bytes(self._layout.index(self.segment, IndexKind.LEADER_EPOCH))
                )
            except MalformedEpochs as error:
                raise DamagedObject(str(error)) from error

    def _failures(self, position: int) -> _Failures:
        segment = self.segment
        return _Failures(self.name, position, OffsetRange(segment.start_offset, segment.end_offset))

    def _index(self, kind: IndexKind) -> Buffer:
        """All of an index: without it, more is scanned, and nothing else changes."""
        if kind not in self._indexes:
            try:
                self._indexes[kind] = self._layout.index(self.segment, kind)
            except (ObjectMissing, DamagedObject):
                self._indexes[kind] = b""
            except StoreError as error:
                raise ReaderError(f"{self.name}: {error}") from error
        return self._indexes[kind]


@dataclass(slots=True)
class StoredPartition:
    """The objects of one partition: the suffixes that each segment has, and the sizes of logs."""

    partition: TieredPartition
    layout: Layout
    store: Store
    needed: Set[str]
    """The suffixes that a segment has which is copied completely."""
    suffixes: dict[tuple[int, bytes], set[str]] = field(default_factory=dict)
    sizes: dict[bytes, int] = field(default_factory=dict)

    def note(self, name: re.Match[str], size_bytes: int) -> None:
        """Add an object of the listing."""
        segment_id = _decoded(name["id"])
        self.suffixes.setdefault((int(name["start"]), segment_id), set()).add(name["suffix"])
        if name["suffix"] == ".log":
            self.sizes[segment_id] = size_bytes

    def segments(self, known: Container[bytes]) -> Iterator[RemoteSegment]:
        """The segments that are copied completely, without the segments in `known`."""
        for (start_offset, segment_id), suffixes in sorted(self.suffixes.items()):
            if segment_id in known or not self.needed <= suffixes:
                continue
            provisional = RemoteSegment(
                partition=self.partition,
                id=segment_id,
                start_offset=start_offset,
                end_offset=start_offset + 1,
                max_timestamp_ms=_UNKNOWN,
                broker_id=_UNKNOWN,
                event_ms=_UNKNOWN,
                size_bytes=self.sizes[segment_id],
                epochs=(),
            )
            with suppress(DataLost):  # Deleted since the listing.
                yield self._described(provisional)

    def _described(self, provisional: RemoteSegment) -> RemoteSegment:
        if isinstance(self.layout, LocalLayout):
            return _measured(TierSegment(self.layout, provisional))
        manifest = self.layout.keys(provisional)[0]
        with _Failures(manifest, 0):
            return segment_in(self.store.get(manifest), self.partition, provisional.id)


def stored_partitions(store: Store, key_prefix: str = "") -> list[StoredPartition]:
    """All partitions that have objects in a store. Raises ReaderError."""
    found: dict[tuple[str, TieredPartition], StoredPartition] = {}
    with _Failures("the store", 0):
        for each in store.list(""):
            key = each.key.removeprefix(key_prefix)
            name = _FILES_NAME.fullmatch(key) or _CHUNKED_NAME.fullmatch(key)
            if name is None or not each.key.startswith(key_prefix):
                continue
            prefix = key_prefix + name["prefix"]
            partition = TieredPartition(
                name["topic"], _decoded(name["topic_id"]), int(name["partition"])
            )
            place = (prefix, partition)
            if place not in found:
                found[place] = _partition(store, partition, prefix, name.re is _FILES_NAME)
            found[place].note(name, each.size_bytes)
    return list(found.values())


def _partition(
    store: Store, partition: TieredPartition, prefix: str, is_files: bool
) -> StoredPartition:
    if is_files:
        return StoredPartition(partition, LocalLayout(store, prefix), store, _FILES_NEEDED)
    options = ChunkOptions(chunk_bytes=_CHUNK_BYTES, key_prefix=prefix)
    return StoredPartition(partition, ChunkedLayout(store, options), store, _CHUNKED_NEEDED)


def _measured(found: TierSegment) -> RemoteSegment:
    """A segment of which only the files are known: it ends where its last batch ends."""
    end_offset = found.base_offset
    cursor = BatchCursor(found, NO_LIMIT)
    while (checked := cursor.read(None, is_sealed=True)) is not None:
        if len(checked.batches):
            end_offset = int(checked.batches["end_offset"][-1])
    epochs = [each for each in found.epochs() if each.start_offset < end_offset]
    first = bisect_right(epochs, found.base_offset, key=_start_of_epoch) - 1
    own = epochs[max(first, 0) :]
    if own:
        own[0] = EpochEntry(own[0].epoch, max(own[0].start_offset, found.base_offset))
    largest = largest_timestamp(found)
    return replace(
        found.segment,
        end_offset=max(end_offset, found.base_offset + 1),
        epochs=tuple(own),
        max_timestamp_ms=_UNKNOWN if largest is None else largest,
    )


class _Failures:
    """Converts errors of the store, with the object and the position that they are about.

    `offsets` are lost if the object is.
    """

    __slots__ = ("_name", "_offsets", "_position")

    def __init__(self, name: str, position: int, offsets: OffsetRange = _NO_OFFSETS):
        self._name = name
        self._position = position
        self._offsets = offsets

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ObjectMissing):
            raise DataLost(self._name, *self._offsets, "the object has been deleted") from error
        if isinstance(error, DamagedObject):
            raise DamagedLog(self._name, self._position, str(error)) from error
        if isinstance(error, StoreError):
            raise ReaderError(f"{self._name}: {error}") from error


def _decoded(identity: str) -> bytes:
    return urlsafe_b64decode(identity + "==")


def _start_of_epoch(entry: EpochEntry) -> int:
    return entry.start_offset
