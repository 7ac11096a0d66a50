"""The files of one partition in a log directory, listed and opened while a broker changes them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from wirekafka.codec.batch import Buffer
from wirekafka.log.aborted_index import AbortedTransaction, CorruptIndex, decode_entries
from wirekafka.log.checkpoints import PARTITION_METADATA, partition_metadata_from
from wirekafka.log.crash_cleanup import SWAP_SUFFIX
from wirekafka.log.files import OpenedFile, ReadableDisk
from wirekafka.log.producers import CorruptSnapshot, ProducerStates
from wirekafka.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from wirekafka.reader.problems import DamagedLog, DataLost, ReaderError, UnknownLog

_ATTEMPTS = 100
_READ_SUFFIXES = (LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX, SNAPSHOT_SUFFIX)


class SegmentName(NamedTuple):
    """A segment in a listing; the suffix is `.swap` while the cleaner puts it into its place."""

    base_offset: int
    suffix: str
    size_bytes: int


class Listing(NamedTuple):
    """The segments of a partition at one time, by base offset."""

    segments: tuple[SegmentName, ...]
    names: frozenset[str]
    topic_id: bytes | None

    @property
    def first_offset(self) -> int:
        """The base offset of the first segment; 0 if there is none."""
        return self.segments[0].base_offset if self.segments else 0

    def at(self, offset: int) -> SegmentName | None:
        """The last segment that begins at or before an offset."""
        number = bisect_right(self.segments, offset, key=_base_of) - 1
        return self.segments[number] if number >= 0 else None

    def after(self, base_offset: int) -> SegmentName | None:
        """The first segment that begins after an offset."""
        number = bisect_right(self.segments, base_offset, key=_base_of)
        return self.segments[number] if number < len(self.segments) else None

    def is_like(self, other: Listing) -> bool:
        """Whether the same files are there, whatever their sizes are."""
        return self.names == other.names and self.topic_id == other.topic_id

    def snapshots_before(self, offset: int) -> Iterator[int]:
        """The offsets of the producer snapshots up to an offset, newest first."""
        suffix = SNAPSHOT_SUFFIX
        found = [_offset_of(name, suffix) for name in self.names if name.endswith(suffix)]
        yield from sorted((each for each in found if 0 <= each <= offset), reverse=True)


class SegmentFile:
    """The log file of a segment, open, and its indexes, which are read when they are needed."""

    def __init__(self, disk: ReadableDisk, directory: str, name: SegmentName):
        """Raises FileNotFoundError."""
        self.base_offset = name.base_offset
        self._disk = disk
        self._stem = f"{directory}/{name.base_offset:020d}"
        self._suffix = name.suffix
        self.name = f"{self._stem}{LOG_SUFFIX}{name.suffix}"
        self._file: OpenedFile = disk.open_to_read(self.name)
        self._indexes: dict[str, bytes] = {}

    @property
    def identity(self) -> tuple[int, int]:
        """Numbers of this file alone, while it is open."""
        return self._file.identity

    @property
    def size_bytes(self) -> int:
        """The size of the log file when it was opened."""
        return self._file.size_bytes

    def pread(self, size_bytes: int, position: int) -> Buffer:
        try:
            return self._file.pread(size_bytes, position)
        except OSError as error:
            raise DamagedLog(self.name, position, f"cannot be read: {error.strerror}") from error

    def offset_index(self) -> Buffer:
        return self._index(INDEX_SUFFIX)

    def time_index(self) -> Buffer:
        return self._index(TIME_INDEX_SUFFIX)

    def close(self) -> None:
        """Release the descriptor."""
        self._file.close()

    def _index(self, suffix: str) -> bytes:
        """All of an index; an index of another file, or none, costs a scan and no more."""
        if suffix not in self._indexes:
            try:
                self._indexes[suffix] = self._disk.read(f"{self._stem}{suffix}{self._suffix}")
            except OSError:
                self._indexes[suffix] = b""
        return self._indexes[suffix]


class PartitionFiles:
    """The directory of one partition. Raises ReaderError."""

    def __init__(self, disk: ReadableDisk, directory: str):
        self._disk = disk
        self.directory = directory
        self.topic_id = self._list().topic_id

    def listing(self) -> Listing:
        """The files that are there now. Raises DataLost if the log has been deleted."""
        found = self._list()
        if self.topic_id is None:
            self.topic_id = found.topic_id
        if found.topic_id != self.topic_id:
            raise self._deleted()
        return found

    def settled_listing(self) -> Listing:
        """A listing that no rename has changed while it was made.

        A file that is renamed during a listing may be missed under both names.
        """
        found = self.listing()
        for _ in range(_ATTEMPTS):
            again = self.listing()
            if again.is_like(found):
                return again
            found = again
        raise ReaderError(f"{self.directory} changes too fast to be listed")

    def open(self, listing: Listing, name: SegmentName) -> SegmentFile | None:
        """Open a segment; None if the directory has changed since the listing."""
        try:
            segment = SegmentFile(self._disk, self.directory, name)
        except FileNotFoundError:
            return None
        except OSError as error:
            path = f"{self.directory}/{file_name(name.base_offset, LOG_SUFFIX)}"
            raise DamagedLog(path, 0, f"cannot be opened: {error.strerror}") from error
        if self.listing().is_like(listing):
            return segment
        segment.close()
        return None

    def aborted(self, from_offset: int) -> list[AbortedTransaction]:
        """All aborted transactions of the indexes of the segments from an offset on."""
        for _ in range(_ATTEMPTS):
            listing = self.settled_listing()
            first = listing.at(from_offset)
            base_offset = first.base_offset if first is not None else 0
            try:
                found = [
                    aborted
                    for name in sorted(listing.names)
                    if _is_transaction_index(name) and int(name[:20]) >= base_offset
                    for aborted in self._entries(name)
                ]
            except FileNotFoundError:
                continue
            if self.listing().is_like(listing):
                return found
        raise ReaderError(f"{self.directory} changes too fast to be read")

    def producers_before(self, offset: int) -> ProducerStates:
        """The producers by the newest readable snapshot up to an offset."""
        listing = self.settled_listing()
        producers = ProducerStates(end_offset=listing.first_offset)
        for at in listing.snapshots_before(offset):
            if at < listing.first_offset:
                break
            try:
                data = self._disk.read(f"{self.directory}/{file_name(at, SNAPSHOT_SUFFIX)}")
                producers.load_snapshot(data, at)
            except (CorruptSnapshot, OSError):
                continue
            return producers
        return producers

    def _entries(self, name: str) -> list[AbortedTransaction]:
        path = f"{self.directory}/{name}"
        try:
            return decode_entries(self._disk.read(path))
        except CorruptIndex as error:
            raise DamagedLog(path, 0, str(error)) from error
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DamagedLog(path, 0, f"cannot be read: {error.strerror}") from error

    def _list(self) -> Listing:
        try:
            entries = self._disk.list_directory(self.directory)
        except FileNotFoundError:
            raise self._deleted() from None
        except OSError as error:
            raise UnknownLog(f"{self.directory} cannot be read: {error.strerror}") from error
        try:
            text = self._disk.read(f"{self.directory}/{PARTITION_METADATA}")
            topic_id = partition_metadata_from(text)
        except OSError:
            topic_id = None
        found: dict[int, SegmentName] = {}
        for entry in entries:
            for suffix in ("", SWAP_SUFFIX):
                base_offset = _offset_of(entry.name, LOG_SUFFIX + suffix)
                if base_offset >= 0 and (not suffix or base_offset not in found):
                    found[base_offset] = SegmentName(base_offset, suffix, entry.size_bytes)
        segments = tuple(found[base_offset] for base_offset in sorted(found))
        names = frozenset(entry.name for entry in entries if _matters(entry.name))
        return Listing(segments, names, topic_id)

    def _deleted(self) -> DataLost:
        name = self.directory.rpartition("/")[2]
        return DataLost(name, 0, 0, "the topic has been deleted")


def _offset_of(name: str, suffix: str) -> int:
    """The offset in the name of a file with a suffix; -1 if it is another file."""
    stem = name.removesuffix(suffix)
    return int(stem) if len(stem) == 20 and stem.isdecimal() and stem + suffix == name else -1


def _matters(name: str) -> bool:
    """Whether a file has what is read here, and is neither being deleted nor being written."""
    plain = name.removesuffix(SWAP_SUFFIX)
    return any(_offset_of(plain, suffix) >= 0 for suffix in _READ_SUFFIXES)


def _is_transaction_index(name: str) -> bool:
    plain = name.removesuffix(SWAP_SUFFIX)
    return _offset_of(plain, TRANSACTION_INDEX_SUFFIX) >= 0


def _base_of(name: SegmentName) -> int:
    return name.base_offset
