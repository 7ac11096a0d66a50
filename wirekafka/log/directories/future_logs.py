"""The `-future` logs of one directory, which are to replace logs in other directories (KIP-113)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import KafkaError
from wirekafka.log.checkpoints import PARTITION_METADATA, TopicPartition, partition_metadata_from
from wirekafka.log.directories.new_log import LogCreation, NewLog
from wirekafka.log.files import Disk
from wirekafka.log.log import Log
from wirekafka.log.recovery import FUTURE_SUFFIX, CorruptLog, Opening, log_name

logger = logging.getLogger(__name__)

_ANY_TIME_MS = 1 << 63


def future_name(new: NewLog) -> str:
    """The name of a future log's directory, unique among topics created under one name."""
    return f"{new.topic}-{new.partition}.{new.topic_id.hex()}{FUTURE_SUFFIX}"


class FutureLogs(Mapping[TopicPartition, Log]):
    """The future logs of one directory by topic and partition."""

    def __init__(self, disk: Disk, path: str, report: Callable[[OSError], None]):
        """`report` is called with each I/O error of a log."""
        self._disk = disk
        self._report = report
        self._creation = LogCreation(disk, report)
        self._path = path
        self._logs: dict[TopicPartition, Log] = {}
        self.topic_ids: dict[TopicPartition, bytes] = {}
        """Of the logs that were loaded."""

    def __getitem__(self, key: TopicPartition) -> Log:
        return self._logs[key]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._logs)

    def __len__(self) -> int:
        return len(self._logs)

    def create(self, new: NewLog, now_ms: int) -> Log:
        """Create an empty log. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        path = f"{self._path}/{future_name(new)}"
        log = self._logs[new.key] = self._creation.create(new, path, now_ms)
        return log

    def load(self, name: str, config: TopicConfig, opening: Opening) -> None:
        """Open a future log, or remove it if it cannot be opened, since it is only a copy."""
        path = f"{self._path}/{name}"
        key = topic_partition(name)
        try:
            text = self._disk.read(f"{path}/{PARTITION_METADATA}")
            self.topic_ids[key] = partition_metadata_from(text) or b""
            log = self._logs[key] = Log.open(self._disk, path, config, opening)
            log.report = self._report
        except (CorruptLog, KafkaError, OSError) as error:
            logger.warning("%s is copied again: %s", path, error)
            self._disk.remove_tree(path)

    def promote(self, key: TopicPartition) -> Log:
        """Give a log its final name; it is no future log any more. Raises OSError."""
        log = self._logs[key]
        log.delete_retired(_ANY_TIME_MS)  # Named in the present directory.
        self._rename(log, f"{self._path}/{log.name}")
        # Before the log that it replaces is deleted.
        self._disk.fsync_directory(self._path)
        del self._logs[key]
        return log

    def set_aside(self, key: TopicPartition) -> tuple[Log, str]:
        """Mark a log's directory as deleted; returns the log and the path. Raises OSError."""
        log = self._logs[key]
        path = f"{log.directory.removesuffix(FUTURE_SUFFIX)}-delete"
        self._disk.remove_tree(path)  # Of an earlier log, whose delay has not passed.
        self._rename(log, path)
        del self._logs[key]
        return log, path

    def _rename(self, log: Log, path: str) -> None:
        log.release()
        self._disk.rename(log.directory, path)
        log.moved(path)


def topic_partition(name: str) -> TopicPartition:
    """The topic and partition in the name of a log's directory."""
    topic, _, partition = log_name(name).rpartition("-")
    return topic, int(partition)
