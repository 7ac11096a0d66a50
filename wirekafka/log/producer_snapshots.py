"""The producer snapshots of a log: one at the start of each segment, and one at a clean stop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from wirekafka.log.files import Disk
from wirekafka.log.producers import CorruptSnapshot, ProducerStates
from wirekafka.log.segment import SNAPSHOT_SUFFIX, Segment, file_name


class ProducerSnapshots:
    """The `.snapshot` files in a log's directory. Raises OSError."""

    __slots__ = ("_disk", "_offsets", "directory")

    def __init__(self, disk: Disk, directory: str, names: Iterable[str] = ()):
        self._disk = disk
        self._offsets = sorted(offsets_in(names, SNAPSHOT_SUFFIX)) if names else []
        self.directory = directory

    def path(self, offset: int) -> str:
        """The path of the snapshot at an offset."""
        return f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"

    def write(self, producers: ProducerStates, offset: int) -> None:
        """Write the snapshot of the producers at an offset."""
        self._disk.write(self.path(offset), producers.encode_snapshot())
        if offset not in self._offsets:
            self._offsets = sorted([*self._offsets, offset])

    def ensure(self, producers: ProducerStates, offset: int) -> bool:
        """Write a snapshot unless it exists; returns whether it was written."""
        if self._disk.exists(self.path(offset)):
            return False
        self.write(producers, offset)
        return True

    def load(self, producers: ProducerStates, first_offset: int, end_offset: int) -> None:
        """Load the newest readable snapshot between two offsets, if there is one."""
        for offset in reversed(self._offsets):
            if first_offset <= offset <= end_offset:
                with suppress(CorruptSnapshot, FileNotFoundError):
                    producers.load_snapshot(self._disk.read(self.path(offset)), offset)
                    return

    def keep_needed(self, segments: Sequence[Segment], end_offset: int) -> None:
        """Remove all snapshots except at segment starts and the newest within the log."""
        first_offset = segments[0].base_offset
        usable = [offset for offset in self._offsets if first_offset <= offset <= end_offset]
        bases = {segment.base_offset for segment in segments}
        kept = [offset for offset in usable if offset in bases or offset == usable[-1]]
        for offset in self._offsets:
            if offset not in kept:
                with suppress(FileNotFoundError):  # Deleted with its segment.
                    self._disk.unlink(self.path(offset))
        self._offsets = kept


def offsets_in(names: Iterable[str], suffix: str) -> list[int]:
    """The offsets in the names of a log's files with a suffix."""
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return [int(stem) for stem in stems if len(stem) == 20 and stem.isdigit()]
