"""A directory of `log.dirs`: whose it is, which logs are in it, and how it was left."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log import checkpoints
from wirekafka.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOCK,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    START_OFFSETS,
    BadCheckpoint,
    TopicPartition,
)
from wirekafka.log.files import DirectoryLocked, Disk
from wirekafka.log.flush import Flush
from wirekafka.log.log import Log
from wirekafka.log.recovery import CorruptLog, Opening
from wirekafka.log.recovery_job import Recover, RecoveryJob, afterwards

logger = logging.getLogger(__name__)

METADATA_LOG = "__cluster_metadata-0"
METADATA_TOPIC_ID = bytes(15) + b"\x01"
LONGEST_NAME = 255
_TOLD_EVERY = 250
_LARGE_BYTES = 1 << 20
_WORTH_PROCESSES_BYTES = 256 << 20
"""Less is gone through in about the time it takes to start a process: a quarter of a second."""

_LOG_NAME = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)")
_MARKED_NAME = re.compile(r".+-\d+\.[0-9a-f]{32}-(?P<mark>delete|future|stray)")


class UnusableDirectory(Exception):
    """A log directory that this node must not write to; the message says why."""


class Identity(NamedTuple):
    """What ties a directory to a node of a cluster: `meta.properties`, version 1."""

    cluster_id: str
    node_id: int
    directory_id: bytes


@dataclass(slots=True, kw_only=True)
class NewLog:
    """A log to be made."""

    topic: str
    topic_id: bytes
    partition: int
    config: TopicConfig


def log_names(disk: Disk, path: str) -> list[str]:
    """The names of the logs in service in a log directory, the metadata log too. OSError."""
    return sorted(entry.name for entry in disk.list_directory(path)
                  if entry.is_directory and _LOG_NAME.fullmatch(entry.name))


class LogDirectory:
    """One directory, locked from construction on. Syncs run in so many threads.

    Raises UnusableDirectory, OSError. What goes wrong with a single log takes that log offline:
    `offline` says why.
    """

    def __init__(self, disk: Disk, path: str, threads: int = 8):
        self._disk = disk
        self._threads = threads
        self.path = path.rstrip("/") or path
        if not disk.exists(self.path):
            disk.make_directory(self.path)
            above = self.path.rpartition("/")[0]
            disk.fsync_directory(above or ("/" if self.path[0] == "/" else "."))
        try:
            self._lock = disk.lock(self._file(LOCK))
        except DirectoryLocked as error:
            raise UnusableDirectory(
                f"log directory {self.path} is in use: {error}; a directory serves one broker"
                " at a time"
            ) from None
        try:
            self.identity = self._read_identity()
            marker = self._read_if_there(CLEAN_SHUTDOWN)
        except BaseException:
            self._lock.release()
            raise
        self.is_clean = marker is not None
        """Whether the last stop was clean, so that files are trusted without a scan."""
        self.broker_epoch = checkpoints.clean_shutdown_from(marker or b"")
        """The broker epoch of the last clean stop; -1 when unknown."""
        self.logs: dict[TopicPartition, Log] = {}
        self.topic_ids: dict[TopicPartition, bytes] = {}
        """By what `partition.metadata` says; logs without a readable one are missing here."""
        self.offline: dict[TopicPartition, str] = {}
        self.metadata_log: Log | None = None
        self.high_watermarks = self._read_offsets(HIGH_WATERMARKS)
        """As of the last checkpoint before this start."""
        self.cleaner_offsets = self._read_offsets(CLEANER_OFFSETS)
        """Up to where each compacted log is clean."""
        self._recovery_points = self._read_offsets(RECOVERY_POINTS)
        self._start_offsets = self._read_offsets(START_OFFSETS)
        self._deleted: list[tuple[int, str]] = []

    def claim(self, identity: Identity) -> None:
        """Make the directory that node's. Raises UnusableDirectory when it is another's."""
        if self.identity is None:
            self._disk.write_atomic(
                self._file(META_PROPERTIES),
                checkpoints.meta_properties_text(
                    identity.cluster_id, identity.node_id, identity.directory_id
                ),
            )
            self.identity = identity
        elif self.identity != identity:
            raise UnusableDirectory(f"{self.path} belongs to {self.identity}, not to {identity}")

    def open_metadata_log(self, config: TopicConfig, now_ms: int) -> Log:
        """The log of the metadata quorum, made when there is none. Raises CorruptLog."""
        path = self._file(METADATA_LOG)
        if not self._disk.exists(path):
            self._disk.make_directory(path)
            self._disk.write(
                f"{path}/{PARTITION_METADATA}",
                checkpoints.partition_metadata_text(METADATA_TOPIC_ID),
            )
        # The marker of a clean stop stays until `load`: what this log says may rule service out.
        opening = Opening(is_clean=self.is_clean, now_ms=now_ms)
        self.metadata_log = Log.open(self._disk, path, config, opening)
        return self.metadata_log

    def load(self, config_of: Callable[[str], TopicConfig], now_ms: int,
             recover: Recover | None = None) -> None:
        """Open every log, recovering those that need it: with `recover` where there is much."""
        self._forget_clean_stop()
        found: list[TopicPartition] = []
        for entry in self._disk.list_directory(self.path):
            if not entry.is_directory or entry.name == METADATA_LOG:
                continue
            marked = _MARKED_NAME.fullmatch(entry.name)
            named = _LOG_NAME.fullmatch(entry.name)
            if marked is not None:
                if marked["mark"] == "delete":
                    self._deleted.append((now_ms, self._file(entry.name)))
            elif named is not None:
                found.append((named["topic"], int(named["partition"])))
            else:
                logger.warning("%s is no log: left alone", self._file(entry.name))
        if found and not self.is_clean:
            logger.info("%s was not closed cleanly: recovering %d logs", self.path, len(found))
        jobs = [RecoveryJob(directory=self._file(f"{topic}-{partition}"), config=config_of(topic),
                            opening=self._opening((topic, partition), now_ms))
                for topic, partition in sorted(found)]
        done = self._recovered(jobs, recover) if recover is not None else set()
        for number, (key, job) in enumerate(zip(sorted(found), jobs, strict=True), 1):
            opening = afterwards(job.opening) if job.directory in done else job.opening
            self._load(key, replace(job, opening=opening))
            if not self.is_clean and number % _TOLD_EVERY == 0:
                logger.info("Recovered %d of %d logs in %s", number, len(found), self.path)

    def create(self, new: NewLog, now_ms: int) -> Log:
        """Make a log. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        key = new.topic, new.partition
        path = self._file(f"{new.topic}-{new.partition}")
        try:
            self._disk.make_directory(path)
        except OSError as error:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, str(error)) from error
        try:
            text = checkpoints.partition_metadata_text(new.topic_id)
            self._disk.write(f"{path}/{PARTITION_METADATA}", text)
            log = Log.create(self._disk, path, new.config, now_ms)
        except (OSError, KafkaError) as error:
            with suppress(OSError):
                self._disk.remove_tree(path)  # Or the next try would find it there.
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, str(error)) from error
        self.logs[key] = log
        self.topic_ids[key] = new.topic_id
        return log

    def delete(self, key: TopicPartition, now_ms: int) -> None:
        """Take a log out of service; its files go `file.delete.delay.ms` later. Raises OSError."""
        log = self.logs.pop(key)
        self.cleaner_offsets.pop(key, None)
        path = self._set_aside(log, key, "delete")
        self._deleted.append((now_ms + log.config.file_delete_delay_ms, path))

    def set_aside_stray(self, key: TopicPartition) -> None:
        """Take a log out of service that the cluster does not know; its files stay."""
        path = self._set_aside(self.logs.pop(key), key, "stray")
        logger.warning("%s-%d is not known to the cluster: kept as %s", *key, path)

    def remove_deleted(self, now_ms: int) -> int | None:
        """Remove what was deleted long enough ago; when to ask again. Raises OSError."""
        due = [path for due_ms, path in self._deleted if due_ms <= now_ms]
        self._deleted = [entry for entry in self._deleted if entry[0] > now_ms]
        for path in due:
            self._disk.remove_tree(path)
        waits = [due_ms for due_ms, _ in self._deleted]
        for log in self.logs.values():
            due_ms = log.delete_retired(now_ms)
            if due_ms is not None:
                waits.append(due_ms)
        return min(waits, default=None)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the root's offset checkpoints. Raises OSError."""
        logs = self.logs.items()
        self._write_offsets(RECOVERY_POINTS, {key: log.recovery_point for key, log in logs})
        self._write_offsets(
            START_OFFSETS,
            {
                key: log.start_offset
                for key, log in logs
                if log.start_offset > log.segments[0].base_offset
            },
        )
        self._write_offsets(
            HIGH_WATERMARKS,
            {key: offset for key, offset in high_watermarks.items() if key in self.logs},
        )

    def write_cleaner_offsets(self) -> None:
        """Write down up to where logs are clean. For any thread. Raises OSError."""
        self._write_offsets(CLEANER_OFFSETS, dict(self.cleaner_offsets))

    def all_logs(self) -> Iterable[Log]:
        """The logs in service, the metadata log too."""
        if self.metadata_log is not None:
            yield self.metadata_log
        yield from self.logs.values()

    def adopt(self, key: TopicPartition, topic_id: bytes) -> None:
        """Write down the topic id of a log whose `partition.metadata` said none. Raises OSError."""
        path = f"{self.logs[key].directory}/{PARTITION_METADATA}"
        self._disk.write_atomic(path, checkpoints.partition_metadata_text(topic_id))
        self.topic_ids[key] = topic_id

    def flush(self) -> None:
        """Sync all logs, as many at a time as there are threads.

        Raises OSError, and then takes no more appends: what was written since the last sync may
        be lost, although the system calls it clean, and trying again would not tell.
        """
        try:
            self._flush()
        except OSError as error:
            self.fail(error)
            raise

    def fail(self, error: OSError) -> None:
        """Take no more appends before a restart, since a sync has failed; reading goes on."""
        for log in self.all_logs():
            log.fail(f"{self.path} could not be synced: {error}")

    def check_space(self, reserve_bytes: int) -> bool:
        """Refuse appends while the disk has less than that left; whether it has. Raises OSError.

        Reading and deleting go on, and once there is room again so does appending.
        """
        free_bytes = self._disk.free_bytes(self.path)
        if free_bytes >= reserve_bytes:
            self._refuse(None)
            return True
        self._refuse(f"{self.path} has {free_bytes} bytes left, fewer than {reserve_bytes}")
        return False

    def close_cleanly(
        self, high_watermarks: Mapping[TopicPartition, int], broker_epoch: int
    ) -> None:
        """Sync and close all logs, say that it was done, and let go. Raises OSError.

        After an error the marker is missing, so that the next start recovers.
        """
        try:
            for log in self.all_logs():
                log.close()
            self.flush()
            self.checkpoint(high_watermarks)
            if not self._disk.exists(self._file(CLEANER_OFFSETS)):
                self._disk.write(self._file(CLEANER_OFFSETS), checkpoints.offsets_text({}))
            if not self.offline and not any(log.has_failed for log in self.all_logs()):
                marker = checkpoints.clean_shutdown_text(broker_epoch)
                self._disk.write_atomic(self._file(CLEAN_SHUTDOWN), marker)
        finally:
            self.release()

    def release(self) -> None:
        """Give up the files and the lock, leaving everything as after a crash."""
        for log in self.all_logs():
            log.release()
        self._lock.release()

    def _flush(self) -> None:
        begun = [(log, log.begin_flush()) for log in self.all_logs()]
        flushes = [(log, flush) for log, flush in begun if flush is not None]
        if self._threads > 1 and len(flushes) > 1:
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(Flush.run, [flush for _, flush in flushes]))
        else:
            for _, flush in flushes:
                flush.run()
        for log, flush in flushes:
            log.finish_flush(flush)

    def _refuse(self, reason: str | None) -> None:
        # The metadata log goes on: a topic that is deleted makes room.
        for log in self.logs.values():
            if log.refusal != reason:
                log.refusal = reason

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _read_if_there(self, name: str) -> bytes | None:
        try:
            return self._disk.read(self._file(name))
        except FileNotFoundError:
            return None

    def _read_identity(self) -> Identity | None:
        text = self._read_if_there(META_PROPERTIES)
        if text is None:
            return None
        properties = checkpoints.properties_from(text)
        if properties.get("version") != "1":
            raise UnusableDirectory(
                f"{self._file(META_PROPERTIES)} has version {properties.get('version')!r}, not 1"
            )
        try:
            return Identity(
                properties["cluster.id"],
                int(properties["node.id"]),
                checkpoints.uuid_from(properties["directory.id"]),
            )
        except (KeyError, ValueError) as error:
            raise UnusableDirectory(f"{self._file(META_PROPERTIES)}: bad {error}") from None

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.offsets_from(self._read_if_there(name) or b"")
        except BadCheckpoint as error:
            # Nothing is lost: recovery then begins at the start of each log.
            logger.warning("%s: %s: ignored", self._file(name), error)
            return {}

    def _write_offsets(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._disk.write_atomic(self._file(name), checkpoints.offsets_text(offsets))

    def _forget_clean_stop(self) -> None:
        # Before the first byte is written: a crash from here on must find no marker.
        if self._disk.exists(self._file(CLEAN_SHUTDOWN)):
            self._disk.unlink(self._file(CLEAN_SHUTDOWN))
            self._disk.fsync_directory(self.path)

    def _opening(self, key: TopicPartition, now_ms: int) -> Opening:
        return Opening(
            is_clean=self.is_clean,
            recovery_point=self._recovery_points.get(key, 0),
            start_offset=self._start_offsets.get(key, 0),
            now_ms=now_ms,
        )

    def _recovered(self, jobs: Sequence[RecoveryJob], recover: Recover) -> set[str]:
        """The directories of logs that several processes have recovered, if that was worth it."""
        if self.is_clean or len(jobs) < 2:
            return set()
        sized = []
        for job in jobs:
            with suppress(OSError):
                sized.append((job.to_scan_bytes(self._disk), job))
        large = [(size_bytes, job) for size_bytes, job in sized if size_bytes >= _LARGE_BYTES]
        total_bytes = sum(size_bytes for size_bytes, _ in large)
        if len(large) < 2 or total_bytes < _WORTH_PROCESSES_BYTES:
            return set()
        logger.info("Going through %d MiB of %d logs", total_bytes >> 20, len(large))
        large.sort(key=itemgetter(0), reverse=True)
        return recover([job for _, job in large])

    def _load(self, key: TopicPartition, job: RecoveryJob) -> None:
        topic, partition = key
        try:
            self.logs[key] = Log.open(self._disk, job.directory, job.config, job.opening)
        except (CorruptLog, KafkaError, OSError) as error:
            self.offline[key] = str(error)
            logger.error("%s-%d is offline: %s", topic, partition, error)
        text = self._read_if_there(f"{topic}-{partition}/{PARTITION_METADATA}")
        topic_id = checkpoints.partition_metadata_from(text or b"")
        if topic_id is not None:
            self.topic_ids[key] = topic_id

    def _set_aside(self, log: Log, key: TopicPartition, mark: str) -> str:
        """Rename a log's directory as Kafka does: `<topic>-<n>.<32 hex digits>-<mark>`."""
        topic, partition = key
        # The topic id makes the name unique: no two topics of a name ever share one.
        suffix = f"-{partition}.{self.topic_ids.pop(key, bytes(16)).hex()}-{mark}"
        path = self._file(topic[: LONGEST_NAME - len(suffix)] + suffix)
        log.release()
        self._disk.remove_tree(path)
        self._disk.rename(log.directory, path)
        log.moved(path)
        return path
