"""Finds invalid batches in the logs of a stopped broker, and truncates a log at one on request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from wirekafka.log import scan
from wirekafka.log.checkpoints import LOCK
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.log.directories.log_names import log_names
from wirekafka.log.files import DirectoryLocked, Disk
from wirekafka.log.producer_snapshots import offsets_in
from wirekafka.log.scan import BadBatch
from wirekafka.log.segment import LOG_SUFFIX, SIDE_SUFFIXES, SNAPSHOT_SUFFIX, file_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """The first invalid batch of a log, its position in a file, and the batches that follow.

    `end_offset` is the log end after truncation at that batch, which would also remove
    `readable_after` valid batches, and `lost_bytes` bytes in all.
    """

    log: str
    path: str
    position: int
    reason: str
    end_offset: int
    readable_after: int
    lost_bytes: int

    @property
    def is_torn_tail(self) -> bool:
        """Whether no valid batch follows, so that the next start truncates the log by itself."""
        return self.readable_after == 0


def examine(disk: Disk, directory: str) -> Iterator[Damage]:
    """Scan every log in a log directory; yields the first damage of each damaged one.

    Raises UnusableDirectory while a broker runs there, OSError.
    """
    with _locked(disk, directory):
        for name in log_names(disk, directory):
            found = _damage(disk, f"{directory}/{name}", name)
            if found is not None:
                yield found


def cut(disk: Disk, directory: str, name: str) -> Damage | None:
    """Truncate a log at its first invalid batch; returns the damage, None if there is none.

    Raises UnusableDirectory, OSError.
    """
    with _locked(disk, directory):
        if name not in log_names(disk, directory):
            raise UnusableDirectory(f"{directory} has no log {name}")
        path = f"{directory}/{name}"
        found = _damage(disk, path, name)
        if found is None:
            return None
        sizes = {entry.name: entry.size_bytes for entry in disk.list_directory(path)}
        bad = found.path.rpartition("/")[2]
        base_offset = int(bad.removesuffix(LOG_SUFFIX))
        # Last segment first, so that a crash leaves a log that ends earlier, without a gap.
        for offset in sorted(offsets_in(sizes, LOG_SUFFIX), reverse=True):
            if offset > base_offset:
                disk.unlink(f"{path}/{file_name(offset, LOG_SUFFIX)}")
        file = disk.open(found.path, sizes[bad])
        file.truncate(found.position)
        file.fsync()
        file.close()
        # The next start rebuilds the files beside the log that are missing.
        for suffix in (*SIDE_SUFFIXES, SNAPSHOT_SUFFIX):
            for offset in offsets_in(sizes, suffix):
                if offset >= base_offset and not (
                    suffix == SNAPSHOT_SUFFIX and offset == base_offset
                ):
                    with suppress(FileNotFoundError):
                        disk.unlink(f"{path}/{file_name(offset, suffix)}")
        disk.fsync_directory(path)
        return found


class _locked:
    def __init__(self, disk: Disk, directory: str):
        try:
            self._lock = disk.lock(f"{directory}/{LOCK}")
        except DirectoryLocked as error:
            raise UnusableDirectory(f"{directory} is in use: {error}") from None

    def __enter__(self) -> None:
        """Held since construction."""

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _damage(disk: Disk, path: str, name: str) -> Damage | None:
    sizes = {entry.name: entry.size_bytes for entry in disk.list_directory(path)}
    end_offset, bad, bad_path, lost, readable = 0, None, "", 0, 0
    for base_offset in sorted(offsets_in(sizes, LOG_SUFFIX)):
        file_path = f"{path}/{file_name(base_offset, LOG_SUFFIX)}"
        file = disk.open(file_path, sizes[file_name(base_offset, LOG_SUFFIX)])
        position = 0
        if bad is None:
            end_offset = max(end_offset, base_offset)
            try:
                for at, header, _ in scan.checked(file, 0, file.size_bytes):
                    # Offsets are not under the checksum.
                    if not 0 <= header.base_offset - end_offset <= scan.LARGEST_RELATIVE_OFFSET:
                        raise BadBatch(at, f"offset {header.base_offset} where {end_offset} is due")
                    end_offset = header.end_offset
            except BadBatch as error:
                bad = error
                bad_path = file_path
                position = error.position + 1
                lost = -error.position
        if bad is not None:
            lost += file.size_bytes
            while (found := scan.next_valid(file, position, end_offset)) is not None:
                readable += 1
                position = found[0] + found[1].size_bytes
        file.close()
    if bad is None:
        return None
    return Damage(
        log=name,
        path=bad_path,
        position=bad.position,
        reason=bad.reason,
        end_offset=end_offset,
        readable_after=readable,
        lost_bytes=lost,
    )
