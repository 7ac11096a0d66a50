"""Replaces the segments of a live log by the segment that a cleaner made from them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from wirekafka.log.compaction.cleaner import Cleaned, CleaningJob
from wirekafka.log.crash_cleanup import CLEANED_SUFFIX, SWAP_SUFFIX
from wirekafka.log.disk_errors import InDoubt, reason_of
from wirekafka.log.files import Disk
from wirekafka.log.log import Log
from wirekafka.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SIDE_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    Sizes,
    file_name,
)


class Swap:
    """The replacement of segments by one: `announce`, sync the directory, then `carry_out`.

    A crash before the directory is synced leaves the old segments, a later one the new. To be
    called by the thread that appends. Raises OSError.
    """

    def __init__(self, disk: Disk, log: Log, job: CleaningJob, cleaned: Cleaned):
        self._disk = disk
        self._log = log
        self._cleaned = cleaned
        self._directory = job.directory
        self._lengths = {piece.base_offset: piece.log_bytes for piece in job.pieces}

    def is_possible(self) -> bool:
        """Whether the log still has the cleaned segments: not deleted, truncated or moved."""
        log = self._log
        if log.directory != self._directory or log.has_failed:
            return False
        return {segment.base_offset: segment.size_bytes for segment in self._replaced()} == {
            base: self._lengths[base] for base in self._cleaned.replaced
        }

    def announce(self) -> None:
        """Rename `.cleaned` to `.swap`; once all are renamed, a restart finishes the swap."""
        for suffix in self._suffixes():
            path = self._path(suffix)
            self._disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)

    def carry_out(self, now_ms: int) -> None:
        """Retire the old segments and give the new one its names.

        After an error the log's directory has to fail; a restart finishes the swap.
        """
        log, sizes = self._log, self._cleaned.sizes
        try:
            replaced = self._replaced()
            log.segments.make_way(replaced, now_ms)
            for suffix in self._suffixes():
                path = self._path(suffix)
                self._disk.rename(path + SWAP_SUFFIX, path)
        except OSError as error:
            log.fail(f"{log.name} is between two states: {reason_of(error)}")
            raise InDoubt.because_of(error) from error
        segment = Segment(self._disk, log.directory, self._cleaned.base_offset, Sizes(*sizes))
        segment.created_ms = replaced[-1].created_ms
        log.segments.replace(replaced, segment)

    def discard(self) -> None:
        """Remove the new files, renamed to `.swap` or not."""
        for suffix in (LOG_SUFFIX, *SIDE_SUFFIXES):
            for stage in (SWAP_SUFFIX, CLEANED_SUFFIX):
                with suppress(FileNotFoundError):
                    self._disk.unlink(self._path(suffix) + stage)

    def _replaced(self) -> Sequence[Segment]:
        segments, replaced = self._log.segments, self._cleaned.replaced
        number = segments.number_of(replaced[0])
        found: Sequence[Segment] = segments[number : number + len(replaced)]
        return found if found[-1] is not segments.active else []

    def _suffixes(self) -> list[str]:
        suffixes = [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX]
        if self._cleaned.sizes.transaction_index_bytes:
            suffixes.append(TRANSACTION_INDEX_SUFFIX)
        return suffixes

    def _path(self, suffix: str) -> str:
        name = file_name(self._cleaned.base_offset, suffix)
        return f"{self._directory}/{name}"
