"""The properties of a log that is to be created, and its creation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from wirekafka.config.topic_config import TopicConfig
from wirekafka.log import checkpoints
from wirekafka.log.checkpoints import PARTITION_METADATA, TopicPartition
from wirekafka.log.disk_errors import storage_error
from wirekafka.log.files import Disk
from wirekafka.log.log import Log


@dataclass(slots=True, kw_only=True)
class NewLog:
    """The properties of a log to be created."""

    topic: str
    topic_id: bytes
    partition: int
    config: TopicConfig

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.partition


class LogCreation:
    """Creates logs, and removes the files of a failed attempt, so that it can be repeated."""

    def __init__(self, disk: Disk, report: Callable[[OSError], None]):
        """`report` is called with I/O errors, also with later errors of the logs."""
        self._disk = disk
        self._report = report
        self._leftovers: set[str] = set()
        """The directories of failed attempts that could not be removed yet: that takes a
        descriptor too."""

    def create(self, new: NewLog, path: str, now_ms: int) -> Log:
        """Create the log in a new directory. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        disk = self._disk
        try:
            if path in self._leftovers:
                self._clear(path)
            disk.make_directory(path)
            self._leftovers.add(path)  # Until it is complete.
            text = checkpoints.partition_metadata_text(new.topic_id)
            disk.write_new(f"{path}/{PARTITION_METADATA}", text)
            log = Log.create(disk, path, new.config, now_ms)
        except OSError as error:
            if path in self._leftovers:
                with suppress(OSError):  # The next attempt tries that again.
                    self._clear(path)
            self._report(error)
            raise storage_error(error) from error
        self._leftovers.discard(path)
        log.report = self._report
        return log

    def _clear(self, path: str) -> None:
        """Remove the files of a failed attempt. Raises OSError."""
        self._disk.remove_tree(path)
        self._leftovers.discard(path)
