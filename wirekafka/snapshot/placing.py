"""Places the files of a noted log in a new directory: links sealed segments, copies the rest."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum

from wirekafka.log.checkpoints import (
    PARTITION_METADATA,
    partition_metadata_from,
    partition_metadata_text,
)
from wirekafka.log.epochs import FILE_NAME as EPOCHS
from wirekafka.log.files import DirectoryEntry, Disk
from wirekafka.log.producer_snapshots import offsets_in
from wirekafka.log.segment import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SIDE_SUFFIXES,
    SNAPSHOT_SUFFIX,
    file_name,
)
from wirekafka.snapshot.instant import UNKNOWN_OFFSET, NotedLog, SegmentLength

_CANNOT_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP})
_METADATA_SNAPSHOT_SUFFIX = ".checkpoint"


class Sharing(Enum):
    """Whether sealed segments become second names of the node's own files."""

    LINKS = "sealed segments are linked where the file system allows it"
    COPIES = "every file is copied"


class Changed(Exception):
    """A log has changed since the instant, in a way that leaves no whole copy of it."""


class Placing:
    """Places logs; `linked` and `copied_bytes` count what was done."""

    def __init__(self, disk: Disk, sharing: Sharing):
        self._disk = disk
        self._links = sharing is Sharing.LINKS
        self.linked = 0
        self.linked_bytes = 0
        self.copied_bytes = 0

    def place(self, log: NotedLog, target: str) -> None:
        """Give a log's directory `target` the files of a noted log. Raises Changed, OSError."""
        self._disk.make_directory(target)
        source = self._source(log)
        try:
            files = {entry.name: entry for entry in self._disk.list_directory(source)}
            self._place_all(log, source, files, target)
        except FileNotFoundError as error:
            raise Changed(f"{log.name} has changed: {error.filename} is missing") from error
        if not self._is_of(log, source):
            # Deleted, and created again under the same name.
            self._disk.remove_tree(target)
            self.place(log, target)
            return
        self._check_sizes(log, target)

    def place_empty(self, log: NotedLog, target: str) -> None:
        """Give `target` an empty log with the identity of a noted log."""
        self._disk.make_directory(target)
        self._write_identity(log, target)
        self._disk.create(f"{target}/{file_name(0, LOG_SUFFIX)}").close()

    def _place_all(
        self, log: NotedLog, source: str, files: Mapping[str, DirectoryEntry], target: str
    ) -> None:
        is_whole = log.end_offset == UNKNOWN_OFFSET
        for segment in log.segments[:-1]:
            self._place_sealed(segment, source, target)
            self._copy_side_files(segment.base_offset, source, files, target)
        if log.segments:
            self._copy_tail(log.segments[-1], source, target)
            if is_whole:
                self._copy_side_files(log.segments[-1].base_offset, source, files, target)
        self._copy_producers(log, source, files, target)
        self._write_identity(log, target)
        if EPOCHS in files:
            self._copy_whole(f"{source}/{EPOCHS}", f"{target}/{EPOCHS}")
        for name in files:
            if name.endswith(_METADATA_SNAPSHOT_SUFFIX) or name == "quorum-state":
                self._copy_metadata_file(log, name, source, target)

    def _place_sealed(self, segment: SegmentLength, source: str, target: str) -> None:
        name = file_name(segment.base_offset, LOG_SUFFIX)
        if self._links:
            try:
                _either(f"{source}/{name}", lambda path: self._disk.link(path, f"{target}/{name}"))
            except OSError as error:
                if error.errno not in _CANNOT_LINK:
                    raise
                self._links = False
            else:
                self.linked += 1
                self.linked_bytes += segment.size_bytes
                return
        self._copy_log(name, segment.size_bytes, source, target)

    def _copy_tail(self, segment: SegmentLength, source: str, target: str) -> None:
        name = file_name(segment.base_offset, LOG_SUFFIX)
        if segment.size_bytes:
            self._copy_log(name, segment.size_bytes, source, target)
        else:
            self._disk.create(f"{target}/{name}").close()

    def _copy_log(self, name: str, size_bytes: int, source: str, target: str) -> None:
        new = f"{target}/{name}"
        _either(f"{source}/{name}", lambda path: self._disk.copy_file(path, new, size_bytes))
        self.copied_bytes += size_bytes

    def _copy_side_files(
        self, base_offset: int, source: str, files: Mapping[str, DirectoryEntry], target: str
    ) -> None:
        for suffix in SIDE_SUFFIXES:
            name = file_name(base_offset, suffix)
            if name in files:
                self._copy_whole(f"{source}/{name}", f"{target}/{name}")

    def _copy_producers(
        self, log: NotedLog, source: str, files: Mapping[str, DirectoryEntry], target: str
    ) -> None:
        for offset in offsets_in(files, SNAPSHOT_SUFFIX):
            if log.end_offset == UNKNOWN_OFFSET or offset <= log.end_offset:
                name = file_name(offset, SNAPSHOT_SUFFIX)
                with suppress(FileNotFoundError):  # Not needed any more: it is rebuilt.
                    self._copy_whole(f"{source}/{name}", f"{target}/{name}")

    def _copy_metadata_file(self, log: NotedLog, name: str, source: str, target: str) -> None:
        """The snapshots of the metadata up to the instant, and the state of the quorum."""
        stem = name.partition("-")[0]
        is_later = stem.isdigit() and log.end_offset != UNKNOWN_OFFSET
        if is_later and int(stem) > log.end_offset:
            return
        with suppress(FileNotFoundError):  # There is a newer one.
            self._copy_whole(f"{source}/{name}", f"{target}/{name}")

    def _write_identity(self, log: NotedLog, target: str) -> None:
        if log.topic_id:
            text = partition_metadata_text(log.topic_id)
            self._disk.write_new(f"{target}/{PARTITION_METADATA}", text)

    def _copy_whole(self, old: str, new: str) -> None:
        """Copy a small file, which the node replaces but never changes."""
        data = self._disk.read(old)
        self._disk.write_new(new, data)
        self.copied_bytes += len(data)

    def _source(self, log: NotedLog) -> str:
        """The directory of a log, which is renamed if its topic is deleted. Raises Changed."""
        if self._is_of(log, log.path):
            return log.path
        root = log.path.rpartition("/")[0]
        suffix = f"-{log.partition}.{log.topic_id.hex()}-delete"
        for entry in self._disk.list_directory(root):
            if entry.is_directory and entry.name.endswith(suffix):
                return f"{root}/{entry.name}"
        raise Changed(f"{log.name} was deleted or moved")

    def _is_of(self, log: NotedLog, path: str) -> bool:
        if not log.topic_id:
            return self._disk.exists(path)
        try:
            found = partition_metadata_from(self._disk.read(f"{path}/{PARTITION_METADATA}"))
        except FileNotFoundError:
            return False
        return found == log.topic_id

    def _check_sizes(self, log: NotedLog, target: str) -> None:
        sizes = {entry.name: entry.size_bytes for entry in self._disk.list_directory(target)}
        for base_offset, size_bytes in log.segments:
            found = sizes.get(file_name(base_offset, LOG_SUFFIX))
            if found != size_bytes:
                raise Changed(f"{log.name} was truncated: {found} of {size_bytes} bytes are left")


def _either(path: str, take: Callable[[str], None]) -> None:
    """Take a log file under its name, or under its name after it was retired."""
    try:
        take(path)
    except FileNotFoundError:
        take(path + DELETED_SUFFIX)
