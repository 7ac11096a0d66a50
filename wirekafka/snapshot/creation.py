"""Creates a snapshot: places the files of an instant beside its name, completes and renames it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from wirekafka.config.topic_config import TopicConfig
from wirekafka.log import checkpoints
from wirekafka.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    START_OFFSETS,
    TopicPartition,
)
from wirekafka.log.files import Disk
from wirekafka.log.log import Log
from wirekafka.log.recovery import CorruptLog, Opening
from wirekafka.snapshot.instant import Instant, NotedDirectory, NotedLog
from wirekafka.snapshot.manifest import MANIFEST, UnusableSnapshot, manifest_of
from wirekafka.snapshot.placing import Changed, Placing, Sharing
from wirekafka.snapshot.target import TargetDirectory

_ROOT_FILES = (RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS)
_NO_LOGS: frozenset[str] = frozenset()
_CONFIG = TopicConfig()
"""Kafka's defaults: of a topic's own, only the distance of index entries would matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOptions:
    """How a snapshot is to differ from its node, and what is done before it gets its name."""

    sharing: Sharing = Sharing.LINKS
    cluster_id: str | None = None
    """Another cluster id, for a branch."""
    emptied_topics: frozenset[str] = _NO_LOGS
    """Topics whose logs become empty."""
    is_described: bool = True
    """Whether a manifest says what is in it; a branch changes as soon as it is made."""
    released: Callable[[], object] | None = None
    """Called once the node's own files are needed no longer."""
    amended: Callable[[list[str], Instant], None] | None = None
    """Called with the paths of the complete directories before the snapshot gets its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """What a snapshot consists of."""

    path: str
    at_ms: int
    logs: int
    size_bytes: int
    linked_bytes: int
    copied_bytes: int


class Creation:
    """A snapshot in the making, in the directory `<path>.incomplete`, which no node starts on."""

    def __init__(self, disk: Disk, path: str, options: SnapshotOptions):
        self._disk = disk
        self._target = TargetDirectory(disk, path)
        self._options = options
        self._placing = Placing(disk, options.sharing)

    def check(self) -> None:
        """Raise UnusableSnapshot unless the name is free."""
        self._target.check()

    def run(self, instant: Instant) -> Created:
        """Create the snapshot of an instant, whose node keeps its files meanwhile.

        Raises UnusableSnapshot, OSError; nothing of the name is left then.
        """
        target = self._target
        target.begin()
        try:
            self._fill(instant)
            target.finish(dict(self._identities(instant)))
        except (Changed, CorruptLog) as error:
            target.discard()
            raise UnusableSnapshot(f"{error}: create the snapshot again") from error
        except BaseException:
            target.discard()
            raise
        logs = [log for directory in instant.directories for log in directory.all_logs()]
        return Created(
            path=target.path,
            at_ms=instant.at_ms,
            logs=len(logs),
            size_bytes=sum(log.size_bytes for log in logs),
            linked_bytes=self._placing.linked_bytes,
            copied_bytes=self._placing.copied_bytes,
        )

    def _fill(self, instant: Instant) -> None:
        """Place all files, and complete logs whose node runs on."""
        paths = self._place_all(instant)
        if self._options.released is not None:
            self._options.released()
        for path, directory in zip(paths, instant.directories, strict=True):
            if not instant.is_stopped:
                self._complete(path, directory)
        if self._options.amended is not None:
            self._options.amended(paths, instant)
        if self._options.is_described:
            text = manifest_of(instant).text()
            self._disk.write_new(f"{self._target.incomplete}/{MANIFEST}", text)

    def _place_all(self, instant: Instant) -> list[str]:
        paths = [self._target.incomplete]
        if len(instant.directories) > 1:
            paths = [f"{paths[0]}/{number}" for number in range(len(instant.directories))]
            for path in paths:
                self._disk.make_directory(path)
        for path, directory in zip(paths, instant.directories, strict=True):
            for log in directory.all_logs():
                if log.topic in self._options.emptied_topics:
                    self._placing.place_empty(log, f"{path}/{log.name}")
                else:
                    self._placing.place(log, f"{path}/{log.name}")
            self._write_checkpoints(path, directory, instant)
        return paths

    def _write_checkpoints(self, path: str, directory: NotedDirectory, instant: Instant) -> None:
        if instant.is_stopped:
            for name in _ROOT_FILES:
                with suppress(FileNotFoundError):
                    text = self._disk.read(f"{directory.path}/{name}")
                    self._write_offsets(path, name, checkpoints.offsets_from(text))
            return
        logs = directory.logs
        recovered = {log.key: log.end_offset for log in logs}
        self._write_offsets(path, RECOVERY_POINTS, recovered)
        starts = {log.key: log.start_offset for log in logs if log.start_offset > _first(log)}
        self._write_offsets(path, START_OFFSETS, starts)
        high_watermarks = {log.key: log.high_watermark for log in logs}
        self._write_offsets(path, HIGH_WATERMARKS, high_watermarks)
        self._write_offsets(path, CLEANER_OFFSETS, directory.cleaner_offsets)

    def _write_offsets(self, path: str, name: str, offsets: dict[TopicPartition, int]) -> None:
        emptied = self._options.emptied_topics
        kept = {key: offset for key, offset in offsets.items() if key[0] not in emptied}
        self._disk.write_new(f"{path}/{name}", checkpoints.offsets_text(kept))

    def _complete(self, path: str, directory: NotedDirectory) -> None:
        """Rebuild the indexes and producers of the segments that were appended to."""
        for log in directory.all_logs():
            if log.topic in self._options.emptied_topics:
                continue
            opened = Log.open(self._disk, f"{path}/{log.name}", _CONFIG, _opening(log))
            try:
                if opened.end_offset != log.end_offset:
                    raise Changed(
                        f"{log.name} ends at {opened.end_offset}, and at the instant of the"
                        f" snapshot at {log.end_offset}"
                    )
                opened.close()
            finally:
                opened.release()

    def _identities(self, instant: Instant) -> Iterator[tuple[str, bytes]]:
        """The files by which a node takes directories for its own, by their paths."""
        cluster_id = self._options.cluster_id or instant.cluster_id
        marker = checkpoints.clean_shutdown_text(instant.broker_epoch)
        for number, directory in enumerate(instant.directories):
            below = f"{number}/" if len(instant.directories) > 1 else ""
            yield f"{below}{CLEAN_SHUTDOWN}", marker
            text = checkpoints.meta_properties_text(
                cluster_id, instant.node_id, directory.directory_id
            )
            yield f"{below}{META_PROPERTIES}", text


def _first(log: NotedLog) -> int:
    return log.segments[0].base_offset


def _opening(log: NotedLog) -> Opening:
    """Only the last segment is scanned: sealed segments have whole indexes."""
    return Opening(
        is_clean=False,
        recovery_point=log.segments[-1].base_offset + 1,
        start_offset=log.start_offset,
    )
