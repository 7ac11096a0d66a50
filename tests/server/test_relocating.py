"""Replicas move between the log directories of a running broker."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.eventually import eventually_async
from tests.in_process import InProcessBroker, batch, now
from tests.log.cleaning import records
from tests.manual_clock import ManualClock
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.errors import Error, KafkaError
from wirekafka.log.append import Append
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.log.directories.new_log import NewLog
from wirekafka.log.files import RealLock
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.protocol.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest
from wirekafka.replication.partition.relocation import Relocation
from wirekafka.server.background.cleaning import Cleaning
from wirekafka.server.background.relocating import Relocating

KEY = "t", 0
COMPACTED = {
    "cleanup_policy": "compact",
    "internal_segment_bytes": "2000",
    "min_cleanable_dirty_ratio": "0.01",
}


class TwoDirectories:
    """A broker with the directories `a` and `b`, and a topic of one partition in one of them."""

    def __init__(self, path: Path, clock: ManualClock):
        self.path = path
        self.clock = clock
        self.start()
        self.kafka.create("t")

    def start(self) -> None:
        self.kafka = InProcessBroker(
            self.path, self.clock, log_dirs=f"{self.path / 'a'},{self.path / 'b'}"
        )

    def stop(self) -> None:
        if any(path.startswith(str(self.path.resolve())) for path in RealLock._held):
            self.kafka.stop()

    def restart_after_a_kill(self) -> None:
        self.kafka.node.abort()
        self.start()

    @property
    def here(self) -> LogDirectory:
        return self.kafka.broker.directory_of(*KEY)

    @property
    def there(self) -> LogDirectory:
        return next(each for each in self.kafka.broker.directories if each is not self.here)

    @property
    def moving(self) -> Relocation:
        return self.kafka.broker.relocations.moving[KEY]

    def put(self, *values: bytes, options: BatchOptions | None = None) -> int:
        """Append a batch as a client does; returns its base offset."""
        now_ms = self.clock.now_ms()
        kept = [Record(timestamp=now_ms, key=b"k", value=value) for value in values]
        data = encode_batch(kept, options=options or BatchOptions())
        leader = self.kafka.partition("t").leader
        assert leader is not None
        return leader.append_from_client(data, -1, now_ms).base_offset

    def values(self) -> list[bytes | None]:
        return [record.value for _, record in records(self.kafka.partition("t").log)]

    def move(self, path: str, topic: str = "t", version: int = 2) -> int:
        """The error of a request to move partition 0."""
        kind = AlterReplicaLogDirsRequest.AlterReplicaLogDir
        part = kind.AlterReplicaLogDirTopic(name=topic, partitions=[0])
        request = AlterReplicaLogDirsRequest(dirs=[kind(path=path, topics=[part])])
        [result] = self.kafka.call(request, version).results
        error: int = result.partitions[0].error_code
        return error

    def described(self) -> list[tuple[str, int, bool]]:
        """(directory, lag, whether it is a future log) of each log of partition 0."""
        response = self.kafka.call(DescribeLogDirsRequest(topics=None), 4)
        return sorted(
            (Path(result.log_dir).name, partition.offset_lag, partition.is_future_key)
            for result in response.results
            for topic in result.topics
            for partition in topic.partitions
        )

    def folders(self, name: str) -> list[str]:
        return sorted(each.name for each in (self.path / name).iterdir() if each.is_dir())

    def finish(self) -> None:
        """Copy until nothing moves any more."""

        async def run() -> None:
            relocating = Relocating(self.kafka.broker)
            relocating.start()
            await eventually_async(lambda: not self.kafka.broker.relocations.moving)

        asyncio.run(run())

    def copy(self, max_bytes: int = 1) -> int:
        return self.moving.copy(max_bytes, self.clock.now_ms())


@pytest.fixture
def broker(tmp_path: Path, manual_clock: ManualClock) -> Iterator[TwoDirectories]:
    broker = TwoDirectories(tmp_path, manual_clock)
    yield broker
    broker.stop()


def test_a_replica_moves_while_it_is_written_and_read(broker: TwoDirectories) -> None:
    source, target = broker.here, broker.there
    broker.put(b"1")
    broker.put(b"2", b"3")
    partition = broker.kafka.partition("t")
    old, before = partition.log, partition.log.read(0, 1 << 20, end_offset=3)
    assert broker.move(target.path) == Error.NONE
    assert broker.copy() > 0
    broker.put(b"4")
    broker.finish()
    assert broker.put(b"5") == 4
    assert broker.here is target and partition.log is not old
    assert partition.log.directory == f"{target.path}/t-0"
    assert broker.values() == [b"1", b"2", b"3", b"4", b"5"]
    assert b"".join(before.buffers()) == b"".join(
        partition.log.read(0, 1 << 20, end_offset=3).buffers()
    )
    assert KEY not in source.logs and KEY in target.logs
    assert broker.folders(Path(target.path).name)[-1] == "t-0"
    [left] = [each for each in broker.folders(Path(source.path).name) if each.startswith("t-")]
    assert left.endswith("-delete")
    broker.clock.advance(1)
    [placed] = broker.kafka.broker.image.topics["t"].partitions.values()
    assert target.identity is not None
    assert placed.directories == [target.identity.directory_id]


def test_the_move_is_described_and_cancelled_by_moving_back(broker: TwoDirectories) -> None:
    source, target = broker.here, broker.there
    broker.put(b"1")
    broker.put(b"2")
    assert broker.move(target.path) == broker.move(target.path) == Error.NONE
    broker.copy()
    here, there = Path(source.path).name, Path(target.path).name
    assert sorted(broker.described()) == sorted([(here, 0, False), (there, 1, True)])
    assert broker.move(source.path) == Error.NONE
    assert broker.described() == [(here, 0, False)]
    assert not broker.kafka.broker.relocations.moving
    assert not [each for each in broker.folders(there) if each.endswith("-future")]
    assert broker.values() == [b"1", b"2"]


@pytest.mark.parametrize("is_clean", [True, False])
def test_the_move_goes_on_after_a_restart(broker: TwoDirectories, is_clean: bool) -> None:
    broker.put(b"1")
    broker.put(b"2")
    target = broker.there.path
    broker.move(target)
    broker.copy()
    if is_clean:
        broker.stop()
        broker.start()
    else:
        broker.restart_after_a_kill()
    assert broker.moving.log.end_offset == 1, "copied before"
    broker.put(b"3")
    broker.finish()
    assert broker.here.path == target
    assert broker.values() == [b"1", b"2", b"3"]
    broker.stop()
    broker.start()
    assert broker.here.path == target and broker.values() == [b"1", b"2", b"3"]


def test_a_repeated_batch_is_recognized_after_the_move(broker: TwoDirectories) -> None:
    options = BatchOptions(producer_id=7, producer_epoch=0, base_sequence=0)
    assert broker.put(b"once", options=options) == 0
    broker.move(broker.there.path)
    broker.finish()
    assert broker.put(b"once", options=options) == 0
    assert broker.values() == [b"once"]


def test_a_log_that_was_deleted_from_or_truncated_is_copied_as_it_is(
    broker: TwoDirectories,
) -> None:
    for value in (b"0", b"1", b"2", b"3"):
        broker.put(value)
    broker.move(broker.there.path)
    broker.copy()
    partition = broker.kafka.partition("t")
    log = partition.log
    partition.delete_records(2)
    log.roll(broker.clock.now_ms())
    broker.put(b"4")
    log.delete_old_segments(broker.clock.now_ms())
    while broker.copy():
        pass
    log.truncate_to(4, broker.clock.now_ms())
    log.append_as_leader(batch(b"other"), Append(leader_epoch=9, now_ms=broker.clock.now_ms()))
    partition.leadership = replace(partition.leadership, leader_epoch=9)
    partition.set_high_watermark(log.end_offset)
    broker.finish()
    assert partition.log is not log
    assert (partition.log.start_offset, partition.log.end_offset) == (2, 5)
    assert broker.values()[-1] == b"other" and b"4" not in broker.values()


def test_a_replica_is_created_where_it_was_requested(broker: TwoDirectories) -> None:
    target = broker.here.path  # The fuller one, which would not be chosen.
    assert broker.move(target, "new") == Error.UNKNOWN_TOPIC_OR_PARTITION
    broker.kafka.create("new")
    assert broker.kafka.broker.directory_of("new", 0).path == target


def test_what_cannot_be_moved_is_refused(broker: TwoDirectories) -> None:
    assert broker.move("/nowhere") == Error.LOG_DIR_NOT_FOUND
    assert broker.move(broker.there.path, "t" * 240) == Error.INVALID_TOPIC_EXCEPTION
    assert not broker.kafka.broker.relocations.moving


def test_a_replica_that_is_named_twice_has_one_result_and_no_replica_none(
    broker: TwoDirectories,
) -> None:
    kind = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    part = kind.AlterReplicaLogDirTopic(name="t", partitions=[0])
    none = kind.AlterReplicaLogDirTopic(name="u", partitions=[])
    request = AlterReplicaLogDirsRequest(
        dirs=[kind(path=path, topics=[part, none]) for path in (broker.here.path, "/nowhere")]
    )
    [result] = broker.kafka.call(request, 2).results
    assert [each.error_code for each in result.partitions] == [Error.LOG_DIR_NOT_FOUND]


def test_the_copy_of_a_deleted_topic_is_deleted(broker: TwoDirectories) -> None:
    broker.put(b"1")
    broker.move(broker.there.path)
    broker.copy()
    now(broker.kafka.broker.controller.submit(DeleteTopics([TopicReference("t", bytes(16))])))
    assert not broker.kafka.broker.relocations.moving
    for name in ("a", "b"):
        left = [each for each in broker.folders(name) if each.startswith("t-")]
        assert all(each.endswith("-delete") for each in left), left
    for directory in broker.kafka.broker.directories:
        directory.remove_deleted(broker.clock.now_ms() + 60_000)
    assert not [each for name in "ab" for each in broker.folders(name) if each.startswith("t-")]


def test_the_longer_of_two_logs_is_kept_after_a_crash_at_the_end_of_a_move(
    broker: TwoDirectories,
) -> None:
    broker.put(b"1")
    source, target = broker.here, broker.there
    broker.move(target.path)
    broker.copy()
    topic_id = broker.kafka.partition("t").topic_id
    broker.moving.log.flush()
    target.promote_future(KEY, topic_id)
    broker.restart_after_a_kill()
    assert broker.values() == [b"1"]
    folders = {name: broker.folders(name) for name in ("a", "b")}
    kept = [name for name, found in folders.items() if "t-0" in found]
    assert kept == [Path(broker.here.path).name]
    strays = [each for found in folders.values() for each in found if each.endswith("-stray")]
    assert len(strays) == 1
    assert {source.path, target.path} == {str(broker.path / "a"), str(broker.path / "b")}


def test_a_disk_that_cannot_be_written_is_tried_again(
    broker: TwoDirectories, caplog: pytest.LogCaptureFixture
) -> None:
    broker.put(b"1")
    broker.move(broker.there.path)
    broker.there.fail(OSError("broken"))
    with pytest.raises(KafkaError):
        broker.copy()
    assert KEY in broker.kafka.broker.relocations.moving
    assert broker.values() == [b"1"]


def test_the_log_of_an_earlier_topic_is_not_taken_for_the_replica(broker: TwoDirectories) -> None:
    broker.put(b"1")
    target = broker.there
    config = broker.kafka.partition("t").log.config
    earlier = NewLog(topic="t", topic_id=b"e" * 16, partition=0, config=config)
    log = target.create(earlier, broker.clock.now_ms())
    for _ in range(3):
        log.append_as_leader(batch(b"old"), Append(leader_epoch=0, now_ms=broker.clock.now_ms()))
    broker.restart_after_a_kill()
    assert broker.values() == [b"1"]
    assert broker.here.path != target.path


def test_new_replicas_avoid_cordoned_directories(broker: TwoDirectories) -> None:
    config = broker.kafka.broker.config
    broker.kafka.broker.config = config.with_dynamic({}, {"cordoned.log.dirs": broker.there.path})
    for number in range(3):
        broker.kafka.create(f"new-{number}")
        assert broker.kafka.broker.directory_of(f"new-{number}", 0) is broker.here
    assert broker.move(broker.there.path) == Error.INVALID_REPLICA_ASSIGNMENT


def test_a_moving_replica_is_not_compacted(broker: TwoDirectories) -> None:
    broker.kafka.create("c", **COMPACTED)
    partition = broker.kafka.partition("c")
    assert partition.leader is not None
    for number in range(200):
        data = batch(b"%d" % number)
        partition.leader.append_from_client(data, -1, broker.clock.now_ms())
    target = next(
        each
        for each in broker.kafka.broker.directories
        if each is not broker.kafka.broker.directory_of("c", 0)
    )
    cleaning = Cleaning(broker.kafka.broker)
    assert cleaning._dirtiest() is not None
    broker.move(target.path, "c")
    assert cleaning._dirtiest() is None
    broker.finish()
    assert cleaning._dirtiest() is not None


def test_a_move_to_a_directory_that_fails_ends_and_the_replica_stays(
    broker: TwoDirectories,
) -> None:
    broker.put(b"before")
    here, there = broker.here, broker.there
    assert broker.move(there.path) == Error.NONE
    there.fail(OSError(errno.EIO, "the medium fails"))
    broker.clock.advance(1)
    assert broker.kafka.broker.relocations.moving == {}
    assert broker.move(there.path) == Error.KAFKA_STORAGE_ERROR
    broker.put(b"after")
    assert broker.here is here and broker.values() == [b"before", b"after"]


def test_a_move_from_a_directory_that_fails_ends_and_its_copy_stays(broker: TwoDirectories) -> None:
    broker.put(b"before")
    assert broker.move(broker.there.path) == Error.NONE
    broker.finish()
    broker.stop()
    broker.start()
    first, second = broker.there, broker.here
    assert broker.move(first.path) == Error.NONE
    second.fail(OSError(errno.EIO, "the medium fails"))
    broker.clock.advance(1)
    assert broker.kafka.broker.relocations.moving == {}
    assert list(first.futures) == [KEY]
    with pytest.raises(KafkaError) as offline:
        broker.kafka.broker.partition(*KEY)
    assert offline.value.error is Error.KAFKA_STORAGE_ERROR
