"""Moves replicas between the log directories of a broker, as copies that follow them (KIP-113)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from os.path import abspath
from typing import Protocol

from wirekafka.clock import Clock
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log.checkpoints import TopicPartition
from wirekafka.log.directories.log_directory import LONGEST_NAME, LogDirectory
from wirekafka.log.directories.new_log import NewLog
from wirekafka.log.disk_errors import storage_error
from wirekafka.log.log import Log
from wirekafka.log.recovery import FUTURE_SUFFIX
from wirekafka.replication.partition.follower import LeaderData, ReplicaFollower
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.reading import ReadRange, ReadResult
from wirekafka.replication.partition.replica import PartitionIdentity, Replica

logger = logging.getLogger(__name__)

_OUT_OF_RANGE = (Error.OFFSET_OUT_OF_RANGE, Error.OFFSET_MOVED_TO_TIERED_STORAGE)
_SUFFIX_LENGTH = len(f".{bytes(16).hex()}{FUTURE_SUFFIX}")


class Relocation:
    """One replica and its future log, which follows the present log until it replaces that log."""

    def __init__(self, moved: Partition, log: Log):
        self.partition = moved
        self.log = log
        self.retry_ms = 0
        """The time before which nothing is copied, after an error."""
        self.last_error = ""
        identity = PartitionIdentity(moved.topic, moved.topic_id, moved.index)
        self._replica = Replica(identity, log, moved.node_id, moved.clock)
        # It is synced as a whole before it takes the place of the other.
        self._replica.sync_later = _ignore
        self._follower = ReplicaFollower(self._replica)

    @property
    def key(self) -> TopicPartition:
        return self.partition.topic, self.partition.index

    @property
    def has_caught_up(self) -> bool:
        """Whether the future log is equal to the present log."""
        present, future = self.partition.log, self.log
        return (
            future.end_offset == present.end_offset
            and future.start_offset == present.start_offset
            and not future.has_failed
        )

    def copy(self, max_bytes: int, now_ms: int) -> int:
        """Apply the next batches, truncations and deletions; returns the bytes appended.

        Raises KafkaError.
        """
        moved, replica, log = self.partition, self._replica, self.log
        if log.config is not moved.log.config:
            log.config = moved.log.config
        replica.leadership = moved.leadership
        if log.start_offset > moved.log.start_offset:
            # A kill has undone a deletion of records in the present log.
            self._start_again(now_ms)
        wanted = ReadRange(
            offset=log.end_offset,
            max_bytes=max_bytes,
            to_log_end=True,
            from_any_replica=True,
            last_fetched_epoch=log.epochs.latest,
        )
        try:
            found = moved.read(wanted)
        except KafkaError as error:
            if error.error not in _OUT_OF_RANGE:
                raise
            # The present log has been truncated, or has lost the records to be copied next.
            self._start_again(now_ms)
            return 0
        assert isinstance(found, ReadResult), "of the local log"
        records = b"" if found.records is None else moved.log.load(found.records)
        self._follower.take(
            LeaderData(
                leader_epoch=moved.leader_epoch,
                fetch_offset=log.end_offset,
                records=records,
                high_watermark=found.high_watermark,
                start_offset=moved.log.start_offset,
                diverging=found.diverging,
            ),
            now_ms,
        )
        return len(records)

    def _start_again(self, now_ms: int) -> None:
        start_offset = self.partition.log.start_offset
        self.log.truncate_fully_at(start_offset, now_ms)
        self._replica.set_high_watermark(start_offset)


class Topic(Protocol):
    """A topic of the cluster."""

    @property
    def id(self) -> bytes: ...


class Holder(Protocol):
    """The broker whose replicas move."""

    clock: Clock
    config: BrokerConfig
    directories: list[LogDirectory]
    partitions: dict[TopicPartition, Partition]

    def partition(self, topic: str, index: int) -> Partition:
        """Look up a partition. Raises the KafkaError that says why it is not here."""

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermark of every partition here."""

    def report_directory(self, key: TopicPartition) -> None:
        """Report to the controller in which directory a replica is."""


class Relocations:
    """The moving replicas of a broker, and the directories of new replicas.

    `places` has the directory of each log in service.
    """

    def __init__(self, holder: Holder, places: MutableMapping[TopicPartition, LogDirectory]):
        self._holder = holder
        self._places = places
        self._preferred: dict[TopicPartition, LogDirectory] = {}
        self.moving: dict[TopicPartition, Relocation] = {}
        self.on_begin: Callable[[], None] = _ignore
        """Called when there is something to copy."""

    def move(self, key: TopicPartition, path: str) -> None:
        """Begin to move a replica to another directory; a move back to its own directory cancels.

        A replica that is not here yet will be created in that directory. KafkaError:
        LOG_DIR_NOT_FOUND, INVALID_REPLICA_ASSIGNMENT for a cordoned directory,
        INVALID_TOPIC_EXCEPTION for a name too long, UNKNOWN_TOPIC_OR_PARTITION,
        REPLICA_NOT_AVAILABLE, KAFKA_STORAGE_ERROR.
        """
        topic, index = key
        if len(f"{topic}-{index}") + _SUFFIX_LENGTH > LONGEST_NAME:
            raise KafkaError(Error.INVALID_TOPIC_EXCEPTION)
        # Clients see absolute paths, even where log.dirs has relative ones.
        target = next(
            (each for each in self._holder.directories if abspath(each.path) == path), None
        )
        if target is None:
            raise KafkaError(Error.LOG_DIR_NOT_FOUND)
        if target.failure is not None:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, "the directory has failed")
        if self._holder.config.is_cordoned(target.path):
            raise KafkaError(Error.INVALID_REPLICA_ASSIGNMENT)
        try:
            partition = self._holder.partition(topic, index)
        except KafkaError as error:
            self._preferred[key] = target
            is_elsewhere = error.error == Error.NOT_LEADER_OR_FOLLOWER
            raise KafkaError(Error.REPLICA_NOT_AVAILABLE) if is_elsewhere else error from error
        if key in target.futures:
            return
        self.cancel(key)
        if target is self._places[key]:
            return
        new = NewLog(
            topic=topic, topic_id=partition.topic_id, partition=index, config=partition.log.config
        )
        self._begin(Relocation(partition, target.futures.create(new, self._holder.clock.now_ms())))

    def cancel(self, key: TopicPartition) -> None:
        """Stop moving a replica, and delete its future log. Raises KafkaError."""
        self.moving.pop(key, None)
        for directory in self._holder.directories:
            if key in directory.futures:
                try:
                    directory.delete_future(key, self._holder.clock.now_ms())
                except OSError as error:
                    raise storage_error(error) from error

    def abandon(self, failed: LogDirectory) -> None:
        """Stop the moves to and from a failed directory; their files stay as they are."""
        for key, relocation in list(self.moving.items()):
            if relocation.partition.log.has_failed or key in failed.futures:
                del self.moving[key]

    def create_log(self, identity: PartitionIdentity, config: TopicConfig) -> LogDirectory:
        """Create the log of a new replica, and return its directory.

        The directory is the requested one, or else the directory with the fewest logs. Raises
        KafkaError(KAFKA_STORAGE_ERROR).
        """
        topic, topic_id, index = identity
        directory = self._place_of_new((topic, index))
        new = NewLog(topic=topic, topic_id=topic_id, partition=index, config=config)
        directory.create(new, self._holder.clock.now_ms())
        return directory

    def resume(self) -> None:
        """Continue the moves that a stop has interrupted; delete other future logs."""
        now_ms = self._holder.clock.now_ms()
        for directory in self._holder.directories:
            for key, log in list(directory.futures.items()):
                partition = self._holder.partitions.get(key)
                if (
                    partition is None
                    or partition.topic_id != directory.futures.topic_ids.get(key)
                    or self._places[key] is directory
                    or key in self.moving
                ):
                    directory.delete_future(key, now_ms)
                else:
                    self._begin(Relocation(partition, log))

    def complete(self, relocation: Relocation) -> None:
        """Replace the present log by a future log that has caught up. Raises OSError."""
        key, partition, log = relocation.key, relocation.partition, relocation.log
        assert relocation.has_caught_up and self.moving.get(key) is relocation
        source = self._places[key]
        target = next(each for each in self._holder.directories if each.futures.get(key) is log)
        log.epochs.take_over(partition.log.epochs)
        log.flush()
        target.promote_future(key, partition.topic_id)
        del self.moving[key]
        partition.use_log(log)
        partition.truncated = partial(target.checkpoint_truncation, key)
        self._places[key] = target
        if key in source.cleaner_offsets:
            target.cleaner_offsets[key] = source.cleaner_offsets[key]
        self._holder.report_directory(key)
        logger.info("%s has moved from %s to %s", log.name, source.path, target.path)
        source.delete(key, self._holder.clock.now_ms())
        target.checkpoint(self._holder.high_watermarks())

    def locate_logs(self, topics: Mapping[str, Topic]) -> None:
        """Note the directory of each log that was loaded, in `places`.

        A crash at the end of a move leaves two logs of one replica. The shorter log is set aside as
        stray, or the log of an earlier topic of the same name.
        """

        def rank(directory: LogDirectory, key: TopicPartition) -> tuple[bool, int]:
            topic = topics.get(key[0])
            is_known = topic is not None and directory.topic_ids.get(key) == topic.id
            return is_known, directory.logs[key].end_offset

        for directory in self._holder.directories:
            for key in list(directory.logs):
                kept = dropped = self._places.setdefault(key, directory)
                if kept is directory:
                    continue
                if rank(directory, key) > rank(kept, key):
                    self._places[key] = directory
                else:
                    dropped = directory
                dropped.set_aside_stray(key)

    def _place_of_new(self, key: TopicPartition) -> LogDirectory:
        preferred = self._preferred.pop(key, None)
        if preferred is not None and preferred.failure is None:
            return preferred
        online = [each for each in self._holder.directories if each.failure is None]
        config = self._holder.config
        # All are cordoned if the controller did not know yet when it placed the replica here.
        free = [each for each in online if not config.is_cordoned(each.path)] or online
        return min(free, key=lambda each: len(each.logs))

    def _begin(self, relocation: Relocation) -> None:
        self.moving[relocation.key] = relocation
        self.on_begin()


def _ignore(*arguments: object) -> None:
    """The default of callbacks."""
