"""Indexes of remote segments in files, named as Apache Kafka's, within a limit of bytes."""

from __future__ import annotations

import logging
import sys
from array import array
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from operator import lt
from threading import Lock
from typing import NamedTuple

from wirekafka.codec.batch import Buffer
from wirekafka.log.aborted_index import decode_entries
from wirekafka.log.files import Disk
from wirekafka.log.index import OffsetIndex, TimeIndex
from wirekafka.tiered.layout import IndexKind
from wirekafka.tiered.local_layout import id_text
from wirekafka.tiered.remote_segment import RemoteSegment

logger = logging.getLogger(__name__)

_SUFFIXES = {
    IndexKind.OFFSET: ".index",
    IndexKind.TIMESTAMP: ".timeindex",
    IndexKind.TRANSACTION: ".txnindex",
}


class _Key(NamedTuple):
    segment_id: str
    suffix: str


@dataclass(slots=True)
class _IndexFile:
    name: str
    size_bytes: int
    is_used: bool
    """Since the last `drop_unused`."""


class IndexFiles:
    """The files of one folder, which survive a restart. May be used in any thread.

    A file is complete once it has its name. A damaged file is loaded again. Without a usable
    folder, all indexes are loaded each time.
    """

    def __init__(self, disk: Disk, path: str, limit_bytes: int):
        self._disk = disk
        self._path = path
        self._limit_bytes = limit_bytes
        self._entries: OrderedDict[_Key, _IndexFile] = OrderedDict()
        """The least recently used file first."""
        self._size_bytes = 0
        self._failure = ""
        self._lock = Lock()
        try:
            self._find()
        except OSError as error:
            self._failed(error)

    @property
    def size_bytes(self) -> int:
        """The bytes of all files."""
        return self._size_bytes

    def limit(self, limit_bytes: int) -> None:
        """Change the limit."""
        with self._lock:
            self._limit_bytes = limit_bytes
            self._trim()

    def get(self, segment: RemoteSegment, kind: IndexKind, load: Callable[[], Buffer]) -> Buffer:
        """An index, loaded and kept if there is no file of it. Raises what `load` does."""
        suffix = _SUFFIXES.get(kind)
        if suffix is None:
            return load()
        key = _Key(id_text(segment.id), suffix)
        found = self._read(key, segment, kind)
        if found is not None:
            return found
        data = load()
        if len(data) <= self._limit_bytes and _is_sound(data, segment, kind):
            self._keep(key, f"{segment.start_offset}_{key.segment_id}{suffix}", data)
        return data

    def forget(self, segment_id: bytes) -> None:
        """Remove the files of a deleted segment."""
        text = id_text(segment_id)
        with self._lock:
            for suffix in _SUFFIXES.values():
                self._remove(_Key(text, suffix))

    def note_use(self, segment_id: bytes, kind: IndexKind) -> None:
        """An index was used whose content was elsewhere already."""
        with self._lock:
            entry = self._entries.get(_Key(id_text(segment_id), _SUFFIXES.get(kind, "")))
            if entry is not None:
                entry.is_used = True

    def drop_unused(self) -> None:
        """Remove all files that were not used since the last call."""
        with self._lock:
            for key in [key for key, entry in self._entries.items() if not entry.is_used]:
                self._remove(key)
            for entry in self._entries.values():
                entry.is_used = False

    def _find(self) -> None:
        """Take over the files of the last run, and remove what it has not completed."""
        if not self._disk.exists(self._path):
            self._disk.make_directory(self._path)
        found = self._disk.list_directory(self._path)
        for each in sorted(found, key=lambda entry: entry.modified_ms):
            offset, _, rest = each.name.partition("_")
            segment_id, dot, ending = rest.rpartition(".")
            if dot + ending in _SUFFIXES.values() and offset.isdecimal():
                self._add(_Key(segment_id, dot + ending), each.name, each.size_bytes)
            elif not each.is_directory:
                self._disk.unlink(f"{self._path}/{each.name}")
        self._trim()

    def _read(self, key: _Key, segment: RemoteSegment, kind: IndexKind) -> bytes | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            entry.is_used = True
        try:
            data = self._disk.read(f"{self._path}/{entry.name}")
        except FileNotFoundError:
            data = b""  # Another thread has made room.
        except OSError as error:
            self._failed(error)
            return None
        if len(data) == entry.size_bytes and _is_sound(data, segment, kind):
            return data
        if data:
            logger.warning("%s/%s is damaged, and loaded again", self._path, entry.name)
        with self._lock:
            if self._entries.get(key) is entry:
                self._remove(key)
        return None

    def _keep(self, key: _Key, name: str, data: Buffer) -> None:
        try:
            self._disk.write_atomic(f"{self._path}/{name}", bytes(data))
        except OSError as error:
            self._failed(error)
            return
        with self._lock:
            self._add(key, name, len(data))
            self._trim()

    def _add(self, key: _Key, name: str, size_bytes: int) -> None:
        known = self._entries.pop(key, None)
        self._size_bytes += size_bytes - (0 if known is None else known.size_bytes)
        self._entries[key] = _IndexFile(name, size_bytes, is_used=True)

    def _trim(self) -> None:
        while self._size_bytes > self._limit_bytes:
            self._remove(next(iter(self._entries)))

    def _remove(self, key: _Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size_bytes -= entry.size_bytes
            with suppress(OSError):  # A file that is left is found by the next start.
                self._disk.unlink(f"{self._path}/{entry.name}")

    def _failed(self, error: OSError) -> None:
        if str(error) != self._failure:
            self._failure = str(error)
            logger.warning("Indexes of remote segments are not kept on the disk: %s", error)


def _is_sound(data: Buffer, segment: RemoteSegment, kind: IndexKind) -> bool:
    """Whether an index can be the index of a segment."""
    match kind:
        case IndexKind.OFFSET:
            if len(data) % OffsetIndex.struct.size:
                return False
            numbers = array("I", bytes(data))
            if sys.byteorder == "little":
                numbers.byteswap()
            offsets, positions = numbers[::2], numbers[1::2]
            return (
                all(map(lt, offsets, offsets[1:]))
                and all(map(lt, positions, positions[1:]))
                and (not positions or positions[-1] < segment.size_bytes)
            )
        case IndexKind.TIMESTAMP:
            if len(data) % TimeIndex.struct.size:
                return False
            entries = TimeIndex.struct.iter_unpack(data)
            return all(
                one[0] <= other[0] and one[1] <= other[1] for one, other in pairwise(entries)
            )
        case IndexKind.TRANSACTION:
            try:
                decode_entries(data)
            except ValueError:
                return False
            return True
        case _:
            return True
