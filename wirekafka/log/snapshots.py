"""The producer snapshots of a log: one where each segment begins, and one at a clean stop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from wirekafka.log.files import Disk
from wirekafka.log.producers import CorruptSnapshot, ProducerStates
from wirekafka.log.segment import SNAPSHOT_SUFFIX, Segment, file_name


class Snapshots:
    """The `.snapshot` files in a log's directory. Raises OSError."""

    __slots__ = ("_disk", "_offsets", "directory")

    def __init__(self, disk: Disk, directory: str, names: Iterable[str] = ()):
        self._disk = disk
        self._offsets = sorted(offsets_in(names, SNAPSHOT_SUFFIX))
        self.directory = directory

    def path(self, offset: int) -> str:
        """Where the snapshot of the producers up to an offset is."""
        return f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"

    def write(self, producers: ProducerStates, offset: int) -> None:
        """Write down the producers as they are at an offset."""
        self._disk.write(self.path(offset), producers.encode_snapshot())
        if offset not in self._offsets:
            self._offsets = sorted([*self._offsets, offset])

    def ensure(self, producers: ProducerStates, offset: int) -> bool:
        """Write a snapshot unless it is there; whether it was written."""
        if self._disk.exists(self.path(offset)):
            return False
        self.write(producers, offset)
        return True

    def load(self, producers: ProducerStates, first_offset: int, end_offset: int) -> None:
        """Start the producers anew from the newest readable snapshot between two offsets."""
        for offset in reversed(self._offsets):
            if first_offset <= offset <= end_offset:
                with suppress(CorruptSnapshot, FileNotFoundError):
                    producers.load_snapshot(self._disk.read(self.path(offset)), offset)
                    return

    def keep_needed(self, segments: Sequence[Segment], end_offset: int) -> None:
        """Remove all but those that belong to segments and the newest not ahead of the log."""
        first_offset = segments[0].base_offset
        usable = [offset for offset in self._offsets if first_offset <= offset <= end_offset]
        bases = {segment.base_offset for segment in segments}
        kept = [offset for offset in usable if offset in bases or offset == usable[-1]]
        for offset in self._offsets:
            if offset not in kept:
                with suppress(FileNotFoundError):  # It went with its segment.
                    self._disk.unlink(self.path(offset))
        self._offsets = kept


def offsets_in(names: Iterable[str], suffix: str) -> list[int]:
    """The offsets of the file names with a suffix."""
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return [int(stem) for stem in stems if len(stem) == 20 and stem.isdigit()]
