"""Crashes and errors at every operation of a move's end: a replica is never lost or shortened."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest

from tests.in_process import batch
from tests.log.batches import NOW_MS
from tests.manual_clock import ManualClock
from tests.simulation.disk import Crash, Outcome, SimulatedDisk
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import KafkaError
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.log.directories.new_log import NewLog
from wirekafka.log.files import Disk
from wirekafka.metadata.image.image import TopicImage
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.relocation import Relocations
from wirekafka.replication.partition.replica import Leadership, PartitionIdentity

KEY = "t", 0
TOPIC_ID = b"t" * 16
TOPICS = {"t": TopicImage("t", TOPIC_ID)}
BATCHES = 5


class Holder:
    """A broker with the directories /a and /b and at most one partition."""

    def __init__(self, disk: Disk):
        self.clock = ManualClock(NOW_MS)
        self.config = BrokerConfig.of({"log.dirs": "/a,/b"})
        self.directories = [LogDirectory(disk, path, threads=1) for path in ("/a", "/b")]
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.places: dict[tuple[str, int], LogDirectory] = {}
        self.relocations = Relocations(self, self.places)
        for directory in self.directories:
            directory.load(lambda topic: TopicConfig(), NOW_MS)
        self.relocations.locate_logs(TOPICS)

    def lead(self) -> Partition:
        """Lead the partition, on its log where there is one."""
        place = self.places.get(KEY)
        if place is None:
            place = self.places[KEY] = self.directories[0]
            new = NewLog(topic="t", topic_id=TOPIC_ID, partition=0, config=TopicConfig())
            place.create(new, NOW_MS)
        identity = PartitionIdentity("t", TOPIC_ID, 0)
        partition = self.partitions[KEY] = Partition(identity, place.logs[KEY], 1, self.clock)
        partition.lead(Leadership(leader_id=1, leader_epoch=3, isr=(1,), replicas=(1,)))
        return partition

    def partition(self, topic: str, index: int) -> Partition:
        return self.partitions[topic, index]

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        return {key: partition.high_watermark for key, partition in self.partitions.items()}

    def report_directory(self, key: tuple[str, int]) -> None:
        assert self.places[key] is self.directories[1]


def history() -> SimulatedDisk:
    """A synced log in /a, whose first records were deleted."""
    disk = SimulatedDisk()
    partition = Holder(disk).lead()
    for number in range(BATCHES):
        partition.leading().append_from_client(batch(b"%d" % number), -1, NOW_MS)
    partition.delete_records(1)
    partition.log.flush()
    return disk.copy()


def moved(disk: SimulatedDisk) -> Holder:
    """Move the replica from /a to /b, and delete what is left. Raises OSError, KafkaError."""
    holder = Holder(disk)
    partition = holder.lead()
    partition.delete_records(1)
    holder.relocations.move(KEY, "/b")
    relocation = holder.relocations.moving[KEY]
    while not relocation.has_caught_up:
        relocation.copy(100, NOW_MS)
    holder.relocations.complete(relocation)
    holder.directories[0].remove_deleted(NOW_MS + 60_000)
    return holder


def assert_whole(disk: SimulatedDisk, where: str) -> None:
    """The replica is in one of the directories with all records, and can still be moved."""
    for _ in range(2):
        holder = Holder(disk)
        assert KEY in holder.places, where
        log = holder.lead().log
        assert log.end_offset == BATCHES, where
        found = log.read(1, 1 << 20, end_offset=BATCHES)
        values = b"".join(found.buffers())
        assert all(b"\x02%d" % number in values for number in range(1, BATCHES)), where
        holder.relocations.resume()
        for directory in holder.directories:
            directory.release()
    holder = Holder(disk)
    holder.lead()
    holder.relocations.resume()
    relocation = holder.relocations.moving.get(KEY)
    if relocation is not None:
        while not relocation.has_caught_up:
            relocation.copy(100, NOW_MS)
        holder.relocations.complete(relocation)
        assert holder.places[KEY] is holder.directories[1]


def operations(began: SimulatedDisk) -> int:
    disk = began.copy()
    holder = moved(disk)
    assert holder.places[KEY] is holder.directories[1]
    assert (holder.partitions[KEY].log.start_offset, holder.partitions[KEY].leader_epoch) == (1, 3)
    return disk.operations


@pytest.mark.long
@pytest.mark.parametrize("outcome", Outcome, ids=lambda outcome: outcome.name.lower())
def test_a_crash_during_a_move_loses_nothing(outcome: Outcome) -> None:
    began = history()
    for number in range(operations(began)):
        disk = began.copy()
        disk.crash_at = number
        with pytest.raises(Crash):
            moved(disk)
        where = f"operation {number}: {disk.log[-1]}"
        assert_whole(disk.after_crash(outcome, number), where)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_an_error_of_the_disk_during_a_move_loses_nothing(code: int) -> None:
    began = history()
    for number in range(operations(began)):
        disk = began.copy()
        disk.failures = {number: code}
        with suppress(OSError, KafkaError):
            moved(disk)
        disk.failures.clear()
        disk.locks.clear()
        where = f"operation {number}: {disk.log[-1]}"
        assert_whole(disk.after_crash(Outcome.ALL_KEPT, number), where)
