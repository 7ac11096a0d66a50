"""Log directories as a source: of Kafka or of wirekafka, whether or not a broker runs on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.log.checkpoints import (
    HIGH_WATERMARKS,
    META_PROPERTIES,
    START_OFFSETS,
    BadCheckpoint,
    TopicPartition,
    offsets_from,
    uuid_text,
)
from wirekafka.log.directories.log_names import LOG_NAME
from wirekafka.log.epochs import FILE_NAME as EPOCHS_NAME
from wirekafka.log.epochs import EpochEntry, MalformedEpochs, decode_epochs
from wirekafka.log.files import ReadableDisk
from wirekafka.reader.partition_files import PartitionFiles
from wirekafka.reader.partition_log import PartitionLog
from wirekafka.reader.problems import DamagedLog, ReaderError, UnknownLog
from wirekafka.reader.source import CheckedBatches, Isolation, OffsetRange, SplitPoint


class DirectorySource:
    """All logs of one or several log directories. Nothing is written, and no lock is taken."""

    def __init__(
        self,
        disk: ReadableDisk,
        paths: Sequence[str],
        *,
        reads_uncommitted_tail: bool = False,
        committed_ends: Mapping[TopicPartition, int] | None = None,
    ):
        """`reads_uncommitted_tail`: up to the log end, for whoever knows that no broker runs there
        and that no other replica is ahead. `committed_ends` are high watermarks, or last stable
        offsets, that the running broker reports: they are newer than its checkpoint, and may
        change. Raises UnknownLog.
        """
        self._disk = disk
        self._paths = paths
        self._has_safe_end = not reads_uncommitted_tail
        self._committed_ends = {} if committed_ends is None else committed_ends
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._roots: dict[TopicPartition, str] = {}
        self._find_logs()

    def topics(self) -> list[str]:
        self._find_logs()
        return sorted({topic for topic, _ in self._roots})

    def partitions(self, topic: str) -> list[int]:
        self._find_logs()
        found = sorted(partition for name, partition in self._roots if name == topic)
        if not found:
            raise UnknownLog(f"{', '.join(self._paths)} has no topic {topic}")
        return found

    def topic_id(self, topic: str, partition: int) -> bytes | None:
        """The id of a partition's topic; None if the directory does not say."""
        return self._log(topic, partition).files.topic_id

    def first_local_offset(self, topic: str, partition: int) -> int:
        """Where the files begin, even if the log begins elsewhere."""
        return self._log(topic, partition).first_offset()

    def start_checkpoint(self, topic: str, partition: int) -> int:
        """The log start offset that was written last, below which everything is deleted."""
        self._log(topic, partition)
        return self._checkpoint(START_OFFSETS, (topic, partition)) or 0

    def epochs(self, topic: str, partition: int) -> list[EpochEntry]:
        """The leader epochs of a log; none if they cannot be read."""
        path = f"{self._log(topic, partition).files.directory}/{EPOCHS_NAME}"
        try:
            return decode_epochs(self._disk.read(path))
        except (MalformedEpochs, OSError):
            return []

    def offsets(self, topic: str, partition: int, isolation: Isolation) -> OffsetRange:
        end_offset = self.end_offset(topic, partition, isolation)
        start_offset = self.start_checkpoint(topic, partition)
        start_offset = max(start_offset, self.first_local_offset(topic, partition))
        return OffsetRange(start_offset, max(end_offset, start_offset))

    def end_offset(self, topic: str, partition: int, isolation: Isolation) -> int:
        """The safe end, which may lie in front of the files if older records are in a tier."""
        log = self._log(topic, partition)
        end_offset = self._committed_end(log, topic, partition)
        return log.stable_end(end_offset) if isolation == "read_committed" else end_offset

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        offsets = self.offsets(topic, partition, "read_uncommitted")
        return self._log(topic, partition).offset_for_time(timestamp_ms, offsets)

    def split_points(
        self, topic: str, partition: int, offsets: OffsetRange, target_bytes: int
    ) -> list[SplitPoint]:
        return self._log(topic, partition).split_points(offsets, target_bytes)

    def aborted(self, topic: str, partition: int, offsets: OffsetRange) -> list[AbortedTransaction]:
        log = self._log(topic, partition)
        return log.aborted(offsets, self._committed_end(log, topic, partition))

    def read(self, topic: str, partition: int, offsets: OffsetRange) -> Iterator[CheckedBatches]:
        try:
            log = self._log(topic, partition)
        except ReaderError as error:
            yield CheckedBatches(problem=error)
            return
        yield from log.read(offsets)

    def close(self) -> None:
        """Nothing stays open between reads."""

    def _committed_end(self, log: PartitionLog, topic: str, partition: int) -> int:
        if not self._has_safe_end and (topic, partition) not in self._committed_ends:
            return log.log_end()
        committed = self._high_watermark((topic, partition))
        return 0 if committed is None else committed

    def _high_watermark(self, key: TopicPartition) -> int | None:
        reported = self._committed_ends.get(key)
        if reported is not None:
            return reported
        if not self._has_safe_end:
            return None
        return self._checkpoint(HIGH_WATERMARKS, key)

    def _log(self, topic: str, partition: int) -> PartitionLog:
        key = (topic, partition)
        if key not in self._roots:
            self._find_logs()
        if key not in self._roots:
            raise UnknownLog(f"{', '.join(self._paths)} has no log {topic}-{partition}")
        name = f"{topic}-{partition}"
        if key not in self._logs:
            files = PartitionFiles(self._disk, f"{self._roots[key]}/{name}")
            self._logs[key] = PartitionLog(name, files, partial(self._high_watermark, key))
        return self._logs[key]

    def _find_logs(self) -> None:
        found: dict[TopicPartition, str] = {}
        for path in self._paths:
            try:
                entries = self._disk.list_directory(path)
            except OSError as error:
                raise UnknownLog(f"{path} cannot be read: {error.strerror}") from error
            for entry in entries:
                match = LOG_NAME.fullmatch(entry.name)
                if match is None or not entry.is_directory:
                    continue
                key = (match["topic"], int(match["partition"]))
                found[key] = self._chosen(key, found.get(key), path)
        for key, path in found.items():
            if self._roots.get(key, path) != path:
                self._logs.pop(key, None)
        self._roots = found

    def _chosen(self, key: TopicPartition, first: str | None, second: str) -> str:
        """Of two replicas of a partition the one with the higher high watermark."""
        if first is None:
            return second
        topic, partition = key
        ids = [
            PartitionFiles(self._disk, f"{path}/{topic}-{partition}").topic_id
            for path in (first, second)
        ]
        if None not in ids and ids[0] != ids[1]:
            names = " and ".join(uuid_text(each) for each in ids if each is not None)
            raise ReaderError(
                f"{first} and {second} have two topics {topic}, with the ids {names}:"
                " name one of the directories alone"
            )
        ends = [self._offsets_in(path, HIGH_WATERMARKS).get(key, -1) for path in (first, second)]
        return first if ends[0] >= ends[1] else second

    def _checkpoint(self, name: str, key: TopicPartition) -> int | None:
        return self._offsets_in(self._roots[key], name).get(key)

    def _offsets_in(self, path: str, name: str) -> dict[TopicPartition, int]:
        file = f"{path}/{name}"
        try:
            return offsets_from(self._disk.read(file))
        except FileNotFoundError:
            if name == HIGH_WATERMARKS:
                self._require_owner(path)
            return {}
        except BadCheckpoint as error:
            raise DamagedLog(file, 0, str(error)) from error
        except OSError as error:
            raise DamagedLog(file, 0, f"cannot be read: {error.strerror}") from error

    def _require_owner(self, path: str) -> None:
        """A broker without the checkpoint has just been started; other directories are copies."""
        try:
            self._disk.read(f"{path}/{META_PROPERTIES}")
        except OSError:
            raise UnknownLog(
                f"there is no {path}/{HIGH_WATERMARKS}, so it is unknown which records are"
                ' committed: end="log" reads all of them'
            ) from None
