"""The properties of a log that is to be created, and its creation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log import checkpoints
from wirekafka.log.checkpoints import PARTITION_METADATA, TopicPartition
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

    def create(self, disk: Disk, path: str, now_ms: int, report: Callable[[OSError], None]) -> Log:
        """Create the log in a new directory; `report` is called with I/O errors, also later ones.

        Raises KafkaError(KAFKA_STORAGE_ERROR).
        """
        try:
            disk.make_directory(path)
        except OSError as error:
            report(error)
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, str(error)) from error
        try:
            text = checkpoints.partition_metadata_text(self.topic_id)
            disk.write_new(f"{path}/{PARTITION_METADATA}", text)
            log = Log.create(disk, path, self.config, now_ms)
        except (OSError, KafkaError) as error:
            with suppress(OSError):
                disk.remove_tree(path)  # Or the next try would fail because it exists.
            if isinstance(error, OSError):
                report(error)
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, str(error)) from error
        log.report = report
        return log
