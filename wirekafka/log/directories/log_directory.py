"""A directory of `log.dirs`: its owner, its logs, its checkpoints, its clean shutdown marker."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from heapq import heappop, heappush

from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import KafkaError
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
    TopicPartition,
)
from wirekafka.log.directories.directory_identity import (
    DirectoryIdentity,
    NoIdentity,
    identity_from,
)
from wirekafka.log.directories.future_logs import FutureLogs, topic_partition
from wirekafka.log.directories.log_names import LOG_NAME, MARKED_NAME, REMOTE_INDEX_CACHE
from wirekafka.log.directories.new_log import LogCreation, NewLog
from wirekafka.log.directories.offset_checkpoints import OffsetCheckpoints
from wirekafka.log.directories.ordered_log import OrderedLog
from wirekafka.log.directories.recovery_job import Recover, RecoveryJob, afterwards, scanned
from wirekafka.log.directories.recovery_progress import RecoveryProgress
from wirekafka.log.disk_errors import OUT_OF_SPACE, InDoubt, is_passing, reason_of, storage_error
from wirekafka.log.files import DirectoryLocked, Disk, Lock
from wirekafka.log.flush import Flush, run_all
from wirekafka.log.log import OVER_BUDGET, Log
from wirekafka.log.recovery import CorruptLog, Opening

logger = logging.getLogger(__name__)

METADATA_LOG = "__cluster_metadata-0"
METADATA_TOPIC_ID = bytes(15) + b"\x01"
LONGEST_NAME = 255
_LOGGED_EVERY = 250
_FULL_MS = 10_000
"""How long a directory counts as full after a write has found no space."""
_UNBOUNDED = 1 << 63


class UnusableDirectory(Exception):
    """A log directory that this node must not write to; the message says why."""


class LogDirectory:
    """One log directory, locked from construction to `release`; syncs run in `threads` threads.

    Raises UnusableDirectory. A log that cannot be opened is offline alone, `offline` has the
    reason; after an error of the disk all logs are. A directory that cannot be read or locked in
    the first place has failed from the beginning: `failure` says why.
    """

    def __init__(self, disk: Disk, path: str, threads: int = 8):
        self._disk = disk
        self._threads = threads
        self.path = path.rstrip("/") or path
        self.identity: DirectoryIdentity | None = None
        self.is_new = False  # Whether this start has given the directory its identity.
        self.is_clean = False
        """Whether the last stop was clean, so that files are trusted without a scan."""
        self.broker_epoch = checkpoints.UNKNOWN_BROKER_EPOCH
        """The broker epoch of the last clean stop; -1 when unknown."""
        self.logs: dict[TopicPartition, Log] = {}
        self.is_loaded = False
        """Whether every log here is known: it is in `logs` or in `offline`."""
        self.progress = RecoveryProgress()
        """How far `load` has come."""
        self.futures = FutureLogs(disk, self.path, self.note)
        self._creation = LogCreation(disk, self.note)
        self.topic_ids: dict[TopicPartition, bytes] = {}
        """From `partition.metadata`; logs without a readable one are missing here."""
        self.offline: dict[TopicPartition, str] = {}
        self.failure: str | None = None
        """The reason why the whole directory is out of service until a restart; None while it
        serves."""
        self.is_full = False
        """Whether appends are refused for lack of space; it ends by itself once there is room."""
        self.free_bytes: int | None = None
        """The free space as of the last check."""
        self._has_run_out = False
        self._full_until_ms = 0
        self.on_failure: Callable[[OSError], None] = _ignore
        """Called once, after `failure` is set, unless the directory failed before it was locked."""
        self.metadata_log: Log | None = None
        self._lock: Lock | None = None
        self._checkpoints = OffsetCheckpoints(disk, self.path)
        self.high_watermarks: Mapping[TopicPartition, int] = {}
        """As of the last checkpoint before this start."""
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        """The offset up to which each compacted log is clean."""
        self._deleted: list[tuple[int, str]] = []
        self._refusal: str | None = None
        """Why all logs refuse appends; None while there is space."""
        self._over_budget: frozenset[TopicPartition] = frozenset()
        """The logs that refuse appends because the budget is exhausted."""
        try:
            self._open()
        except NoIdentity as error:
            self.release()
            raise UnusableDirectory(str(error)) from None
        except OSError as error:
            self.failure = str(error)
            self.release()
        except BaseException:
            self.release()
            raise

    def _open(self) -> None:
        """Create the directory if it does not exist, lock it, and read its small files.

        Raises UnusableDirectory while another process has the lock or if the directory cannot be
        created; OSError if it has failed.
        """
        self._read_identity()  # Before anything is written.
        if not self._disk.exists(self.path):
            self._create()
        try:
            self._lock = self._disk.lock(self._file(LOCK))
        except DirectoryLocked as error:
            raise UnusableDirectory(
                f"log directory {self.path} is in use: {error}; a directory serves one broker"
                " at a time"
            ) from None
        self.identity = self._read_identity()
        marker = self._read_if_there(CLEAN_SHUTDOWN)
        self.is_clean = marker is not None
        self.broker_epoch = checkpoints.clean_shutdown_from(marker or b"")
        self._checkpoints.load()
        self.high_watermarks = self._checkpoints.read(HIGH_WATERMARKS)
        self.cleaner_offsets = self._checkpoints.read(CLEANER_OFFSETS)

    def _create(self) -> None:
        try:
            self._disk.make_directory(self.path)
            above = self.path.rpartition("/")[0]
            self._disk.fsync_directory(above or ("/" if self.path[0] == "/" else "."))
        except OSError as error:
            raise UnusableDirectory(
                f"log directory {self.path} cannot be created: {error}"
            ) from error

    def claim(self, identity: DirectoryIdentity) -> None:
        """Make a node the directory's owner. Raises UnusableDirectory if it has another."""
        reason = self.identity and self.identity.mismatch(identity.cluster_id, identity.node_id)
        if reason:
            raise UnusableDirectory(f"{self.path} belongs to {reason}")
        self.is_new = self.identity is None
        if self.identity is None or not self.identity.directory_id:
            self._disk.write_atomic(
                self._file(META_PROPERTIES),
                checkpoints.meta_properties_text(
                    identity.cluster_id, identity.node_id, identity.directory_id
                ),
            )
            self.identity = identity

    def open_metadata_log(self, config: TopicConfig, now_ms: int) -> Log:
        """Open the metadata log, created if it does not exist. Raises CorruptLog."""
        path = self._file(METADATA_LOG)
        if not self._disk.exists(path):
            self._disk.make_directory(path)
            self._disk.write(
                f"{path}/{PARTITION_METADATA}",
                checkpoints.partition_metadata_text(METADATA_TOPIC_ID),
            )
        # The clean shutdown marker stays until `load`: the metadata may still prevent the start.
        opening = Opening(is_clean=self.is_clean, now_ms=now_ms)
        self.metadata_log = OrderedLog.open(self._disk, path, config, opening)
        self.metadata_log.report = self.note
        return self.metadata_log

    def load(
        self, config_of: Callable[[str], TopicConfig], now_ms: int, recover: Recover | None = None
    ) -> None:
        """Open every log, and recover logs where needed; large logs with `recover`, if given.

        Raises OSError that says nothing about the directory's medium.
        """
        if self.failure is not None:
            return
        try:
            self._load_all(config_of, now_ms, recover)
        except OSError as error:
            self.note(error)
            if self.failure is None:
                raise

    def _load_all(
        self, config_of: Callable[[str], TopicConfig], now_ms: int, recover: Recover | None
    ) -> None:
        self.forget_clean_stop()
        found: list[TopicPartition] = []
        for entry in self._disk.list_directory(self.path):
            if not entry.is_directory or entry.name in (METADATA_LOG, REMOTE_INDEX_CACHE):
                continue
            marked = MARKED_NAME.fullmatch(entry.name)
            named = LOG_NAME.fullmatch(entry.name)
            if marked is not None:
                if marked["mark"] == "delete":
                    heappush(self._deleted, (now_ms, self._file(entry.name)))
                elif marked["mark"] == "future":
                    config = config_of(topic_partition(entry.name)[0])
                    opening = Opening(is_clean=self.is_clean, now_ms=now_ms)
                    self.futures.load(entry.name, config, opening)
            elif named is not None:
                found.append((named["topic"], int(named["partition"])))
            else:
                logger.warning("%s is not a log: ignored", self._file(entry.name))
        if found and not self.is_clean:
            logger.info("%s was not closed cleanly: recovering %d logs", self.path, len(found))
        found.sort()
        config_of = lru_cache(maxsize=1)(config_of)  # In order, a topic's logs share one object.
        jobs = [
            RecoveryJob(
                directory=self._file(f"{topic}-{partition}"),
                config=config_of(topic),
                opening=self._opening((topic, partition), now_ms),
            )
            for topic, partition in found
        ]
        self.progress.begin(len(found))
        done = set()
        if recover is not None and not self.is_clean:
            done = scanned(jobs, self._disk, recover, self.progress)
        for number, (key, job) in enumerate(zip(found, jobs, strict=True), 1):
            if job.directory in done:
                job = replace(job, opening=afterwards(job.opening))
            self._load(key, job)
            if job.directory not in done:
                self.progress.opened()
            if self.failure is not None:
                return
            if not self.is_clean and number % _LOGGED_EVERY == 0:
                logger.info("Recovered %d of %d logs in %s", number, len(found), self.path)
        self.is_loaded = True

    def create(self, new: NewLog, now_ms: int) -> Log:
        """Create a log. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            self._checkpoints.forget_deleted(new.key, self.logs)
        except OSError as error:
            self.note(error)
            raise storage_error(error) from error
        path = self._file(f"{new.topic}-{new.partition}")
        log = self.logs[new.key] = self._creation.create(new, path, now_ms)
        self.topic_ids[new.key] = new.topic_id
        if self._refusal is not None:
            log.refusal = self._refusal
        return log

    def promote_future(self, key: TopicPartition, topic_id: bytes) -> None:
        """Put a future log into service under its final name. Raises OSError."""
        self._checkpoints.forget_deleted(key, self.logs)
        self.logs[key] = self.futures.promote(key)
        self.topic_ids[key] = topic_id

    def delete_future(self, key: TopicPartition, now_ms: int) -> None:
        """Delete a future log; its files are removed later. Raises OSError."""
        log, path = self.futures.set_aside(key)
        heappush(self._deleted, (now_ms + log.config.file_delete_delay_ms, path))

    def delete(self, key: TopicPartition, now_ms: int) -> None:
        """Delete a log; its files are removed `file.delete.delay.ms` later. Raises OSError."""
        log = self.logs.pop(key)
        self.cleaner_offsets.pop(key, None)
        path = self._set_aside(log, key, "delete")
        heappush(self._deleted, (now_ms + log.config.file_delete_delay_ms, path))

    def set_aside_stray(self, key: TopicPartition) -> None:
        """Take a log out of service that the cluster does not know, renaming it as stray."""
        path = self._set_aside(self.logs.pop(key), key, "stray")
        logger.warning("%s-%d is not known to the cluster: kept as %s", *key, path)

    def remove_deleted(self, now_ms: int, most_files: int = _UNBOUNDED) -> int | None:
        """Remove files whose delete delay has passed, at most `most_files` of deleted logs.

        Returns when the next files are due, in ms: not after `now_ms` while more can be removed,
        None when nothing is left. Raises OSError; files that could not be removed are left to the
        next start.
        """
        while self._deleted and self._deleted[0][0] <= now_ms:
            if most_files <= 0:
                return self._deleted[0][0]
            due_ms, path = heappop(self._deleted)
            removed = self._disk.remove_files(path, most_files)
            if removed == most_files:
                heappush(self._deleted, (due_ms, path))
            most_files -= max(removed, 1)
        waits = [due_ms for due_ms, _ in self._deleted[:1]]
        for log in self.logs.values():
            retired_due_ms = log.delete_retired(now_ms)
            if retired_due_ms is not None:
                waits.append(retired_due_ms)
        return min(waits, default=None)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the directory's offset checkpoints. Raises OSError."""
        logs = self.logs.items()
        self._checkpoints.write(RECOVERY_POINTS, {key: log.recovery_point for key, log in logs})
        self._checkpoints.write(
            START_OFFSETS,
            {
                key: log.first_offset
                for key, log in logs
                # Apache Kafka always lists tiered logs.
                if log.remote is not None or log.start_offset > log.segments[0].base_offset
            },
        )
        self.checkpoint_high_watermarks(high_watermarks)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the checkpoint of high watermarks; may run in any thread. Raises OSError."""
        self._checkpoints.write(
            HIGH_WATERMARKS,
            {key: offset for key, offset in high_watermarks.items() if key in self.logs},
        )

    def checkpoint_truncation(self, key: TopicPartition) -> None:
        """Lower a truncated log's offsets in the checkpoints where they exceed its own.

        Otherwise recovery would not scan unsynced records that are appended from now on, or would
        drop them as lying below the log start offset. Raises KafkaError(KAFKA_STORAGE_ERROR).
        """
        log = self.logs[key]
        try:
            self._checkpoints.lower(RECOVERY_POINTS, key, log.recovery_point)
            self._checkpoints.lower(START_OFFSETS, key, log.first_offset)
        except OSError as error:
            self.note(error)
            raise storage_error(error) from error

    def write_cleaner_offsets(self) -> None:
        """Write the cleaner's offset checkpoint; may run in any thread. Raises OSError."""
        self._checkpoints.write(CLEANER_OFFSETS, dict(self.cleaner_offsets))

    def all_logs(self) -> Iterable[Log]:
        """The logs in service and the future logs, the metadata log included."""
        if self.metadata_log is not None:
            yield self.metadata_log
        yield from self.logs.values()
        yield from self.futures.values()

    def adopt(self, key: TopicPartition, topic_id: bytes) -> None:
        """Write the topic id of a log that lacks one in `partition.metadata`. Raises OSError."""
        path = f"{self.logs[key].directory}/{PARTITION_METADATA}"
        self._disk.write_atomic(path, checkpoints.partition_metadata_text(topic_id))
        self.topic_ids[key] = topic_id

    def flush(self) -> None:
        """Sync all logs, as many at a time as there are threads.

        Raises OSError. After `SyncFailed` the directory is out of service: a repeated sync would
        not report what may be lost.
        """
        flushes: list[tuple[Log, Flush]] = []
        try:
            for log in self.all_logs():
                if (flush := log.begin_flush()) is not None:
                    flushes.append((log, flush))
            run_all(self._disk, self.path, [flush for _, flush in flushes], self._threads)
        except OSError as error:
            for log, flush in flushes:
                log.withdraw_flush(flush, error)
            self.note(error)
            raise
        for log, flush in flushes:
            log.finish_flush(flush)

    def note(self, error: OSError) -> None:
        """Take the directory out of service, unless the error says nothing about its medium."""
        if error.errno in OUT_OF_SPACE:
            self.is_full = self._has_run_out = True
        is_missing_file = error.errno == errno.ENOENT and self._disk.exists(self.path)
        if not (is_passing(error) or is_missing_file):
            self.fail(error)

    def fail(self, error: OSError) -> None:
        """Take the directory and all of its logs out of service until a restart."""
        if self.failure is not None:
            return
        self.failure = str(error)
        for log in self.all_logs():
            log.fail(f"its log directory has failed: {reason_of(error)}")
        self.offline.update(dict.fromkeys(self.logs, self.failure))
        self.on_failure(error)

    def check_space(self, reserve_bytes: int, now_ms: int) -> str | None:
        """Refuse appends while less than the reserve is free. Returns the reason, None with room.

        Reads and deletions continue; appends resume once there is room again. `is_full` outlasts a
        write that found no space by a while, because a quota does not show in the free space.
        Raises OSError.
        """
        free_bytes = self.free_bytes = self._disk.free_bytes(self.path)
        if self._has_run_out:
            self._has_run_out, self._full_until_ms = False, now_ms + _FULL_MS
        self.is_full = free_bytes < reserve_bytes or now_ms < self._full_until_ms
        if free_bytes >= reserve_bytes:
            if self._refusal is not None or self._over_budget:
                self._refuse(None)
            return None
        # Clients get no path of this machine, and its free space only by DescribeLogDirs.
        self._refuse("its log directory has less free space than its reserve")
        return f"{free_bytes:,} bytes are left in {self.path}, the reserve is {reserve_bytes:,}"

    def close_cleanly(
        self, high_watermarks: Mapping[TopicPartition, int], broker_epoch: int
    ) -> None:
        """Sync and close all logs, write the clean shutdown marker, and release the lock.

        Raises OSError; then the marker is missing, so that the next start recovers. A directory
        that has failed is only released.
        """
        if self.failure is not None:
            self.release()
            return
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
        """Close the files and release the lock without writing anything, as a crash would."""
        for log in self.all_logs():
            log.release()
        if self._lock is not None:
            self._lock.release()

    def refuse_over_budget(self, keys: frozenset[TopicPartition]) -> None:
        """Refuse appends to these logs, and to no others, because the budget is exhausted."""
        if keys != self._over_budget:
            self._over_budget = keys
            self._refuse(self._refusal)

    def _refuse(self, reason: str | None) -> None:
        self._refusal = reason
        # Not the metadata log: topics must stay deletable, which makes room.
        for key, log in self.logs.items():
            refusal = OVER_BUDGET if reason is None and key in self._over_budget else reason
            if log.refusal != refusal:
                log.refusal = refusal
        for log in self.futures.values():
            if log.refusal != reason:
                log.refusal = reason

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _read_if_there(self, name: str) -> bytes | None:
        try:
            return self._disk.read(self._file(name))
        except FileNotFoundError:
            return None

    def _read_identity(self) -> DirectoryIdentity | None:
        text = self._read_if_there(META_PROPERTIES)
        return None if text is None else identity_from(text, self._file(META_PROPERTIES))

    def forget_clean_stop(self) -> None:
        """Delete the marker file of the last clean stop; call it before anything is written."""
        if self._disk.exists(self._file(CLEAN_SHUTDOWN)):
            self._disk.unlink(self._file(CLEAN_SHUTDOWN))
            self._disk.fsync_directory(self.path)

    def _opening(self, key: TopicPartition, now_ms: int) -> Opening:
        return Opening(
            is_clean=self.is_clean,
            recovery_point=self._checkpoints.offset(RECOVERY_POINTS, key),
            start_offset=self._checkpoints.offset(START_OFFSETS, key),
            now_ms=now_ms,
            scanning=self.progress.scanning(0),
        )

    def _load(self, key: TopicPartition, job: RecoveryJob) -> None:
        topic, partition = key
        try:
            log = self.logs[key] = Log.open(self._disk, job.directory, job.config, job.opening)
            log.report = self.note
        except (CorruptLog, KafkaError, OSError) as error:
            self.offline[key] = str(error)
            logger.error("%s-%d is offline: %s", topic, partition, error)
            if isinstance(error, OSError):
                # Nothing opens the log later, so that no error passes.
                self.note(InDoubt.because_of(error) if is_passing(error) else error)
        text = self._read_if_there(f"{topic}-{partition}/{PARTITION_METADATA}")
        topic_id = checkpoints.partition_metadata_from(text or b"")
        if topic_id is not None:
            self.topic_ids[key] = topic_id

    def _set_aside(self, log: Log, key: TopicPartition, mark: str) -> str:
        """Rename a log's directory as Kafka does: `<topic>-<n>.<32 hex digits>-<mark>`."""
        topic, partition = key
        # The topic id makes the name unique among topics created under one name.
        suffix = f"-{partition}.{self.topic_ids.pop(key, bytes(16)).hex()}-{mark}"
        path = self._file(topic[: LONGEST_NAME - len(suffix)] + suffix)
        log.release()
        try:
            self._disk.rename(log.directory, path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            self._disk.remove_tree(path)
            self._disk.rename(log.directory, path)
        log.moved(path)
        return path


def _ignore(error: OSError) -> None:
    """The default `on_failure`: the logs refuse appends, and nobody else has to know."""
