"""The recovery of a log in another process: its input, and the bytes it has to scan."""

from __future__ import annotations

import json
import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from typing import Any

from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.directories.recovery_progress import RecoveryProgress
from wirekafka.log.files import Disk
from wirekafka.log.log import Log
from wirekafka.log.producer_snapshots import offsets_in
from wirekafka.log.recovery import Opening
from wirekafka.log.segment import LOG_SUFFIX

logger = logging.getLogger(__name__)

_LARGE_BYTES = 1 << 20
_WORTH_PROCESSES_BYTES = 256 << 20
"""Scanning less takes about as long as starting a process: a quarter of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryJob:
    """The recovery of one log, as it is passed to another process."""

    directory: str
    config: TopicConfig
    opening: Opening

    def encode(self) -> str:
        """The job as one line of JSON."""
        opening = asdict(replace(self.opening, scanning=None))
        return json.dumps(
            {"directory": self.directory, "config": self.config.values(), "opening": opening}
        )

    @classmethod
    def decode(cls, line: str | bytes) -> RecoveryJob:
        """The inverse of `encode`."""
        values: dict[str, Any] = json.loads(line)
        config: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values["config"].items()
        }
        return cls(
            directory=values["directory"],
            config=TopicConfig(**config),
            opening=Opening(**values["opening"]),
        )

    def run(self, disk: Disk) -> None:
        """Recover the log, and leave its files as a clean stop does, but not synced.

        Raises CorruptLog, OSError, KafkaError as `Log.open`.
        """
        log = Log.open(disk, self.directory, self.config, self.opening)
        try:
            log.close()
        finally:
            log.release()

    def to_scan_bytes(self, disk: Disk) -> int:
        """The size of the segments that recovery has to scan. Raises OSError."""
        sizes = {entry.name: entry.size_bytes for entry in disk.list_directory(self.directory)}
        bases = sorted(offsets_in(sizes, LOG_SUFFIX))
        first = max(bisect_right(bases, self.opening.recovery_point - 1) - 1, 0)
        return sum(sizes[f"{base:020d}{LOG_SUFFIX}"] for base in bases[first:])


def afterwards(opening: Opening) -> Opening:
    """The `Opening` of a log after a job has recovered it."""
    return replace(opening, is_clean=True, is_synced=False)


Recover = Callable[[Sequence[RecoveryJob], RecoveryProgress], set[str]]
"""Runs jobs, which are given longest first; returns the directories of the jobs that succeeded."""


def scanned(
    jobs: Sequence[RecoveryJob], disk: Disk, recover: Recover, progress: RecoveryProgress
) -> set[str]:
    """Recover large logs in several processes if worthwhile; returns their directories."""
    sized = []
    for job in jobs:
        with suppress(OSError):
            sized.append((job.to_scan_bytes(disk), job))
    large = [(size_bytes, job) for size_bytes, job in sized if size_bytes >= _LARGE_BYTES]
    total_bytes = sum(size_bytes for size_bytes, _ in large)
    if len(large) < 2 or total_bytes < _WORTH_PROCESSES_BYTES:
        return set()
    logger.info("Scanning %d MiB of %d logs", total_bytes >> 20, len(large))
    large.sort(key=itemgetter(0), reverse=True)
    return recover([job for _, job in large], progress)
