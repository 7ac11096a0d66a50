"""The offset checkpoint files of a log directory: read at the start, later replaced as a whole."""

from __future__ import annotations

import logging
from collections.abc import Container
from threading import Lock

from wirekafka.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
    BadCheckpoint,
    TopicPartition,
    offsets_from,
    offsets_text,
)
from wirekafka.log.files import Disk

logger = logging.getLogger(__name__)


class OffsetCheckpoints:
    """The four checkpoint files and their contents. May be used in any thread. Raises OSError."""

    def __init__(self, disk: Disk, path: str):
        self._disk = disk
        self._path = path
        self._writing = Lock()  # All threads use the same temporary file.
        self._written: dict[str, dict[TopicPartition, int]] = {}

    def load(self) -> None:
        """Read the files; call it before anything else."""
        for name in (RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS):
            self._written[name] = self._read(name)

    def offset(self, name: str, key: TopicPartition) -> int:
        """Return the offset of a log in a checkpoint, 0 if it has none."""
        return self._written[name].get(key, 0)

    def read(self, name: str) -> dict[TopicPartition, int]:
        """Return the offsets in a checkpoint, in a new dict; none if it is broken or missing."""
        return dict(self._written[name])

    def write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        """Replace a checkpoint; the caller must not change `offsets` afterwards."""
        with self._writing:
            self._replace(name, offsets)

    def forget_deleted(self, key: TopicPartition, kept: Container[TopicPartition]) -> None:
        """Remove deleted logs from the checkpoints before any deleted log is created again.

        A restart would otherwise apply the offsets of the old log to the new log: it would skip the
        recovery, or drop the records below the old log start. All logs except `kept` are removed at
        once, so that creating many logs again writes each file once.
        """
        with self._writing:
            for name, offsets in list(self._written.items()):
                if key in offsets:
                    self._replace(name, {each: offsets[each] for each in offsets if each in kept})

    def lower(self, name: str, key: TopicPartition, offset: int) -> None:
        """Write an offset of a log if it is lower than the log's offset in the checkpoint."""
        with self._writing:
            written = self._written[name]
            if written.get(key, 0) > offset:
                self._replace(name, {**written, key: offset})

    def _replace(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        """As `write`, by a thread that has the lock."""
        self._disk.write_atomic(f"{self._path}/{name}", offsets_text(offsets))
        self._written[name] = offsets

    def _read(self, name: str) -> dict[TopicPartition, int]:
        try:
            return offsets_from(self._disk.read(f"{self._path}/{name}"))
        except FileNotFoundError:
            return {}
        except BadCheckpoint as error:
            # Nothing is lost: recovery then begins at the start of each log.
            logger.warning("Ignoring the checkpoint %s/%s: %s", self._path, name, error)
            return {}
