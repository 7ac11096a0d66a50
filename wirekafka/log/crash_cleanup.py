"""Finishes or undoes segment swaps and deletions that a crash interrupted."""

from __future__ import annotations

from wirekafka.log.files import DirectoryEntry, Disk
from wirekafka.log.index import TEMPORARY_SUFFIX
from wirekafka.log.scan import headers
from wirekafka.log.segment import DELETED_SUFFIX, LOG_SUFFIX, SIDE_SUFFIXES

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
_REMOVED = (DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)
_HALF_DONE = (SWAP_SUFFIX, *_REMOVED)


def clean_up_after_crash(disk: Disk, directory: str) -> dict[str, DirectoryEntry]:
    """Finish or undo interrupted swaps and deletions; returns the log's files by name.

    The cleaner writes `.cleaned` files, renames all of them to `.swap`, retires the segments they
    replace, and takes the suffix away. So while any `.cleaned` file is left, its group is
    incomplete and removed; a `.swap` log without such a file is complete and replaces the segments
    that it covers. Raises OSError, BadBatch.
    """
    files = {entry.name: entry for entry in disk.list_directory(directory)}
    if any(name.endswith(_HALF_DONE) for name in files):
        _finish_or_undo(disk, directory, files)
    for name in list(files):
        stem, dot, suffix = name.partition(".")
        if dot + suffix in SIDE_SUFFIXES and stem + LOG_SUFFIX not in files:
            disk.unlink(f"{directory}/{name}")
            del files[name]
    return files


def _finish_or_undo(disk: Disk, directory: str, files: dict[str, DirectoryEntry]) -> None:
    cleaned = [_offset(name) for name in files if name.endswith(CLEANED_SUFFIX)]
    for name in list(files):
        incomplete = name.endswith(SWAP_SUFFIX) and _offset(name) >= min(cleaned, default=_NEVER)
        if incomplete or name.endswith(_REMOVED):
            disk.unlink(f"{directory}/{name}")
            del files[name]
    for name in sorted(files):
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _retire_covered(disk, directory, files, name)
    for name in sorted(files):
        if name.endswith(SWAP_SUFFIX):
            live = name.removesuffix(SWAP_SUFFIX)
            disk.rename(f"{directory}/{name}", f"{directory}/{live}")
            files[live] = files.pop(name)._replace(name=live)


def _retire_covered(
    disk: Disk, directory: str, files: dict[str, DirectoryEntry], swap: str
) -> None:
    """Remove the segments whose records a complete `.swap` file holds."""
    base_offset = end_offset = _offset(swap)
    file = disk.open(f"{directory}/{swap}", files[swap].size_bytes)
    for _, header in headers(file, 0, file.size_bytes):
        end_offset = header.end_offset
    file.close()
    for name in list(files):
        stem, dot, suffix = name.partition(".")
        if dot + suffix != LOG_SUFFIX or not base_offset <= int(stem) < max(end_offset, 1):
            continue
        for covered in [n for n in files if n.partition(".")[0] == stem and SWAP_SUFFIX not in n]:
            if covered.endswith((LOG_SUFFIX, *SIDE_SUFFIXES)):
                disk.unlink(f"{directory}/{covered}")
                del files[covered]


def _offset(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isdigit() else _NEVER


_NEVER = 1 << 63
