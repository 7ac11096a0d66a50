"""A broker's reaction to log directories that fail (KIP-112, KIP-858)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from wirekafka.clock import Clock
from wirekafka.errors import Error, KafkaError
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.metadata.image.image import UNASSIGNED_DIRECTORY
from wirekafka.replication.partition.replica import PartitionIdentity

logger = logging.getLogger(__name__)


def may_be_offline(
    directories: Sequence[LogDirectory], identity: PartitionIdentity, assigned: bytes
) -> bool:
    """Whether a replica's log is out of service, or may be in a directory that has failed.

    `assigned` is the id of its directory in the metadata. A new log must not be created then: the
    replica has one already, which returns with its directory.
    """
    topic, topic_id, index = identity
    key = topic, index
    if any(
        key in each.offline and each.topic_ids.get(key, topic_id) == topic_id
        for each in directories
    ):
        return True
    if all(each.is_loaded for each in directories) or assigned == UNASSIGNED_DIRECTORY:
        return False
    return all(
        each.failure is not None or each.identity is None or each.identity.directory_id != assigned
        for each in directories
    )


class FailureReporter(Protocol):
    """A registered broker."""

    def report_failed(self, directory: bytes) -> None:
        """Report a failed log directory, by its id, to the controllers."""


class DirectoryFailures:
    """Takes the partitions of failed log directories out of service, and reports the directories.

    The node has to stop, as in Kafka, if the metadata log's directory fails, or all directories do.
    """

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        member: FailureReporter,
        clock: Clock,
        retire: Callable[[LogDirectory], None],
        failed: Callable[[Exception], None],
    ):
        """`directories` begin with the metadata log's; `retire` closes the partitions of one;
        `failed` stops the node."""
        self._directories = directories
        self._member = member
        self._clock = clock
        self._retire = retire
        self._failed = failed
        for each in directories:
            each.on_failure = partial(self._note, each)

    def _note(self, directory: LogDirectory, error: OSError) -> None:
        logger.error("Log directory %s has failed: %s", directory.path, error)
        # Deferred, because the error may have occurred in the midst of a change of a partition.
        self._clock.call_later(0, partial(self._take_offline, directory))

    def _take_offline(self, directory: LogDirectory) -> None:
        self._retire(directory)
        if directory is self._directories[0]:
            self._stop("the metadata log's directory has failed")
        elif all(each.failure is not None for each in self._directories):
            self._stop("all log directories have failed")
        elif directory.identity is not None:
            self._member.report_failed(directory.identity.directory_id)

    def _stop(self, reason: str) -> None:
        logger.critical("The node stops: %s", reason)
        self._failed(KafkaError(Error.KAFKA_STORAGE_ERROR, reason))
