"""A log directory: its identity, its logs, stops, kills and starts."""

from __future__ import annotations

import errno
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.log.batches import NOW_MS, append, batch, read_all
from tests.simulation.disk import Outcome, SimulatedDisk
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import KafkaError
from wirekafka.log.directories.log_directory import (
    DirectoryIdentity,
    LogDirectory,
    NewLog,
    UnusableDirectory,
)
from wirekafka.log.files import RealDisk
from wirekafka.log.flush import _MANY

PATH = "/data"
IDENTITY = DirectoryIdentity("cluster", 1, bytes(range(16)))
TOPIC_ID = b"0123456789abcdef"
HEX_ID = TOPIC_ID.hex()


def opened(disk: SimulatedDisk, **config: Any) -> LogDirectory:
    directory = LogDirectory(disk, PATH, threads=1)
    directory.claim(IDENTITY)
    directory.open_metadata_log(TopicConfig(), NOW_MS)
    directory.load(lambda _: TopicConfig(**config), NOW_MS)
    return directory


def create(directory: LogDirectory, topic: str = "topic", partition: int = 0) -> None:
    directory.create(
        NewLog(topic=topic, topic_id=TOPIC_ID, partition=partition, config=TopicConfig()), NOW_MS
    )


def names(disk: SimulatedDisk, path: str = PATH) -> set[str]:
    return {entry.name for entry in disk.list_directory(path)}


def test_a_new_directory_gets_its_identity_and_keeps_it() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    directory.close_cleanly({}, 5)
    again = LogDirectory(disk, PATH)
    assert again.identity == IDENTITY
    assert (again.is_clean, again.broker_epoch) == (True, 5)


def test_a_directory_of_another_node_is_refused() -> None:
    disk = SimulatedDisk()
    opened(disk).close_cleanly({}, 5)
    with pytest.raises(UnusableDirectory, match="belongs to"):
        LogDirectory(disk, PATH).claim(IDENTITY._replace(node_id=2))


def test_a_directory_in_use_is_refused() -> None:
    disk = SimulatedDisk()
    opened(disk)
    with pytest.raises(UnusableDirectory, match="in use"):
        LogDirectory(disk, PATH)


@pytest.mark.parametrize(
    "text",
    [
        b"version=2\ncluster.id=a\nnode.id=1\n",
        b"version=1\ncluster.id=a\n",
        b"version=1\ncluster.id=a\nnode.id=x\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\n",
        b"version=1\ncluster.id=a\nnode.id=1\ndirectory.id=AAEC\n",
    ],
)
def test_directory_with_unreadable_meta_properties_has_failed_and_is_not_locked(
    text: bytes,
) -> None:
    disk = SimulatedDisk()
    disk.make_directory(PATH)
    disk.write(f"{PATH}/meta.properties", text)
    for _ in range(2):
        assert "meta.properties" in str(LogDirectory(disk, PATH).failure)
    disk.lock(f"{PATH}/.lock")


@pytest.mark.parametrize(
    "text, message",
    [
        (b"", "meta.properties is empty: restore it, or write the lines version=1, cluster.id="),
        (b"node.id=1\ncluster.id=c\n", "meta.properties is incomplete: restore it"),
    ],
)
def test_meta_properties_without_a_version_are_refused_with_the_lines_that_are_missing(
    text: bytes, message: str
) -> None:
    """Kafka 4.4.0: "Error: node ID not found in", for any directory of a node."""
    disk = SimulatedDisk()
    disk.make_directory(PATH)
    disk.write(f"{PATH}/meta.properties", text)
    with pytest.raises(UnusableDirectory, match=message):
        LogDirectory(disk, PATH)
    disk.lock(f"{PATH}/.lock")


@pytest.mark.parametrize("text", [b"version=0\n", b"version=0\nbroker.id=1\n", b"broker.id=1\n"])
def test_zookeeper_mode_is_refused_with_a_remedy_and_the_lock_released(text: bytes) -> None:
    disk = SimulatedDisk()
    disk.make_directory(PATH)
    disk.write(f"{PATH}/meta.properties", text)
    for _ in range(2):
        with pytest.raises(UnusableDirectory, match=r"ZooKeeper mode.*KRaft with Kafka 3\.9"):
            LogDirectory(disk, PATH)


def test_a_directory_without_an_id_gets_one_when_it_is_claimed() -> None:
    disk = SimulatedDisk()
    disk.make_directory(PATH)
    disk.write(f"{PATH}/meta.properties", b"version=1\ncluster.id=cluster\nnode.id=1\n")
    directory = LogDirectory(disk, PATH)
    assert directory.identity == IDENTITY._replace(directory_id=b"")
    with pytest.raises(UnusableDirectory, match="belongs to"):
        directory.claim(IDENTITY._replace(cluster_id="another"))
    directory.claim(IDENTITY)
    directory.release()
    assert LogDirectory(disk, PATH).identity == IDENTITY


def test_a_new_log_has_three_names_and_kafkas_indexes_after_a_clean_stop() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    before = disk.operations
    create(directory, partition=3)
    start = f"{0:020d}"
    made = [line.rpartition("/")[2] for line in disk.log[before:]]
    assert made == ["topic-3", "partition.metadata", "partition.metadata", f"{start}.log"]
    assert len(disk.read(f"{PATH}/topic-3/partition.metadata")) == 43
    directory.close_cleanly({}, 1)
    assert names(disk, f"{PATH}/topic-3") == {
        "partition.metadata",
        f"{start}.log",
        f"{start}.index",
        f"{start}.timeindex",
    }


def test_recovery_leaves_a_log_that_was_never_written_to_as_it_is() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    create(directory)
    directory.release()
    again = opened(disk)
    assert not again.is_clean
    assert names(disk, f"{PATH}/topic-0") == {"partition.metadata", f"{0:020d}.log"}
    append(again.logs["topic", 0], batch())
    again.release()
    assert opened(disk).logs["topic", 0].end_offset == 1


def test_an_indexless_empty_log_is_trusted_after_a_clean_stop() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    create(directory)
    directory.close_cleanly({}, 1)
    for suffix in (".index", ".timeindex"):
        disk.unlink(f"{PATH}/topic-0/{0:020d}{suffix}")
    again = opened(disk)
    append(again.logs["topic", 0], batch())
    again.close_cleanly({}, 2)
    assert opened(disk).logs["topic", 0].end_offset == 1


def test_logs_are_loaded_again_after_a_clean_stop() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    for partition in range(3):
        create(directory, "a.b_c-d", partition)
        for _ in range(partition):
            append(directory.logs["a.b_c-d", partition], batch())
    directory.logs["a.b_c-d", 2].advance_start(1)
    directory.close_cleanly({("a.b_c-d", 2): 2, ("gone", 0): 1}, 7)
    assert {
        "meta.properties",
        ".kafka_cleanshutdown",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
    } <= names(disk)
    assert disk.read(f"{PATH}/recovery-point-offset-checkpoint") == (
        b"0\n3\na.b_c-d 0 0\na.b_c-d 1 1\na.b_c-d 2 2\n"
    )
    assert disk.read(f"{PATH}/log-start-offset-checkpoint") == b"0\n1\na.b_c-d 2 1\n"
    assert disk.read(f"{PATH}/replication-offset-checkpoint") == b"0\n1\na.b_c-d 2 2\n"
    again = opened(disk)
    assert {key: log.end_offset for key, log in again.logs.items()} == {
        ("a.b_c-d", 0): 0,
        ("a.b_c-d", 1): 1,
        ("a.b_c-d", 2): 2,
    }
    assert again.logs["a.b_c-d", 2].start_offset == 1
    assert again.high_watermarks == {("a.b_c-d", 2): 2}
    assert set(again.topic_ids.values()) == {TOPIC_ID}


def test_the_marker_is_removed_after_reading_the_metadata_and_before_the_logs() -> None:
    disk = SimulatedDisk()
    opened(disk).close_cleanly({}, 5)
    directory = LogDirectory(disk, PATH, threads=1)
    directory.open_metadata_log(TopicConfig(), NOW_MS)
    assert ".kafka_cleanshutdown" in names(disk)
    before = disk.operations
    directory.load(lambda topic: TopicConfig(), NOW_MS)
    assert disk.log[before : before + 2] == [
        f"unlink {PATH}/.kafka_cleanshutdown",
        f"fsync_directory {PATH}",
    ]


def test_after_a_kill_the_logs_are_recovered() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    create(directory)
    for _ in range(3):
        append(directory.logs["topic", 0], batch())
    disk.file(f"{PATH}/topic-0/{0:020d}.log").data += b"torn"
    directory.release()
    again = opened(disk)
    assert not again.is_clean
    assert again.logs["topic", 0].end_offset == 3


def test_a_log_that_cannot_be_opened_takes_only_itself_offline() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    create(directory, "bad")
    create(directory, "good")
    for key in directory.logs:
        for _ in range(3):
            append(directory.logs[key], batch())
    directory.release()
    disk.file(f"{PATH}/bad-0/{0:020d}.log").data[65] ^= 1
    again = opened(disk)
    assert list(again.logs) == [("good", 0)]
    assert "follows at" in again.offline["bad", 0]
    assert again.topic_ids["bad", 0] == TOPIC_ID
    again.close_cleanly({}, 5)
    assert ".kafka_cleanshutdown" not in names(disk), "the next start has to look again"


def test_a_deleted_log_is_renamed_at_once_and_removed_later() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    create(directory)
    log = directory.logs["topic", 0]
    append(log, batch())
    held = log.read(0, 100, end_offset=1)
    directory.delete(("topic", 0), NOW_MS)
    assert f"topic-0.{HEX_ID}-delete" in names(disk) and "topic-0" not in names(disk)
    assert held.buffers() == [read_all(log)[0]]
    create(directory)
    assert directory.remove_deleted(NOW_MS + 59_999) == NOW_MS + 60_000
    assert directory.remove_deleted(NOW_MS + 60_000) is None
    assert f"topic-0.{HEX_ID}-delete" not in names(disk)


def test_a_log_created_again_has_none_of_the_offsets_of_the_deleted_one() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    create(directory)
    create(directory, topic="other")
    log = directory.logs["topic", 0]
    for _ in range(5):
        append(log, batch())
    directory.flush()
    log.advance_start(4)
    directory.cleaner_offsets["topic", 0] = 4
    directory.write_cleaner_offsets()
    directory.checkpoint({("topic", 0): 5, ("other", 0): 0})
    directory.delete(("topic", 0), NOW_MS)
    create(directory)
    append(directory.logs["topic", 0], batch())
    directory.release()
    again = opened(disk)
    assert again.high_watermarks == {("other", 0): 0}
    assert ("topic", 0) not in again.cleaner_offsets
    log = again.logs["topic", 0]
    assert (log.start_offset, log.recovery_point, log.end_offset) == (0, 0, 1)


def test_a_truncation_lowers_the_checkpoints_before_the_next_append() -> None:
    """Recovery has to scan records that are appended below the earlier recovery point."""
    disk = SimulatedDisk()
    directory = opened(disk)
    create(directory)
    log = directory.logs["topic", 0]
    for _ in range(5):
        append(log, batch())
    directory.flush()
    log.advance_start(4)
    directory.checkpoint({})
    log.truncate_to(2, NOW_MS)
    directory.checkpoint_truncation(("topic", 0))
    operations = disk.operations
    directory.checkpoint_truncation(("topic", 0))
    assert disk.operations == operations, "the files are up to date"
    append(log, batch(), epoch=1)
    directory.release()
    log = opened(disk).logs["topic", 0]
    assert (log.start_offset, log.recovery_point, log.end_offset) == (2, 2, 3)


def test_a_partition_deleted_again_under_the_same_topic_id_replaces_the_earlier_one() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    for _ in range(2):
        create(directory)
        append(directory.logs["topic", 0], batch())
        directory.delete(("topic", 0), NOW_MS)
    assert [name for name in names(disk) if name.startswith("topic")] == [
        f"topic-0.{HEX_ID}-delete"
    ]
    assert directory.remove_deleted(NOW_MS + 60_000) is None


def test_deleted_logs_are_removed_in_bounded_steps() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    for partition in range(5):
        create(directory, partition=partition)
        directory.delete(("topic", partition), NOW_MS)
    due_ms = NOW_MS + 60_000
    steps = 0
    while True:
        before = disk.operations
        again_ms = directory.remove_deleted(due_ms, 3)
        removed = [line for line in disk.log[before:] if line.startswith("unlink")]
        assert len(removed) <= 3
        steps += 1
        if again_ms is None:
            break
        assert again_ms == due_ms
    assert steps >= 4
    assert names(disk) == {"meta.properties", "__cluster_metadata-0"}


def test_a_deletion_is_finished_after_a_restart() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    create(directory)
    directory.delete(("topic", 0), NOW_MS)
    directory.release()
    again = opened(disk)
    assert not again.logs
    again.remove_deleted(NOW_MS)
    assert names(disk) == {"meta.properties", "__cluster_metadata-0"}


def test_a_long_topic_name_still_fits_a_directory_name() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    create(directory, "t" * 249)
    directory.delete(("t" * 249, 0), NOW_MS)
    (name,) = [name for name in names(disk) if name.endswith("-delete")]
    assert len(name) == 255


def test_a_stray_log_is_kept_but_not_served() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    create(directory)
    directory.set_aside_stray(("topic", 0))
    directory.release()
    assert not opened(disk).logs
    assert f"topic-0.{HEX_ID}-stray" in names(disk)


def test_foreign_files_and_directories_are_left_unchanged() -> None:
    disk = SimulatedDisk()
    disk.make_directory(f"{PATH}/lost+found")
    disk.make_directory(f"{PATH}/snapshots")
    disk.write(f"{PATH}/notes.txt", b"mine")
    directory = opened(disk)
    assert not directory.logs and not directory.offline
    assert {"lost+found", "snapshots", "notes.txt"} <= names(disk)


def test_an_unknown_topic_id_can_be_stored() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    create(directory)
    directory.release()
    disk.unlink(f"{PATH}/topic-0/partition.metadata")
    again = opened(disk)
    assert again.topic_ids == {}
    again.adopt(("topic", 0), TOPIC_ID)
    again.release()
    assert opened(disk).topic_ids == {("topic", 0): TOPIC_ID}


def test_broken_checkpoints_mean_recovery_from_the_start() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    create(directory)
    append(directory.logs["topic", 0], batch())
    directory.close_cleanly({}, 5)
    disk.write(f"{PATH}/recovery-point-offset-checkpoint", b"0\n7\nbroken\n")
    disk.unlink(f"{PATH}/.kafka_cleanshutdown")
    assert opened(disk).logs["topic", 0].end_offset == 1


def test_a_failed_sync_leaves_no_marker() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    create(directory)
    append(directory.logs["topic", 0], batch())
    quiet = disk.operations
    for number in range(quiet, quiet + 60):
        copy = disk.copy()
        again = opened(copy)
        append(again.logs["topic", 0], batch())
        copy.failures[copy.operations + number - quiet] = errno.EIO
        try:
            again.close_cleanly({}, 5)
        except OSError:
            assert not copy.locks, "the lock is let go in any case"
            copy.failures.clear()
            assert opened(copy).logs["topic", 0].end_offset == 2


def test_a_log_that_cannot_be_created_is_a_storage_error() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    disk.failures[disk.operations + 2] = errno.ENOSPC
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        create(directory)
    assert not directory.logs
    create(directory)


def test_after_a_failed_sync_all_appends_are_refused() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    create(directory)
    log = directory.logs["topic", 0]
    append(log, batch())
    disk.failures[disk.operations] = errno.EIO
    with pytest.raises(OSError):
        directory.flush()
    directory.check_space(0, NOW_MS)
    with pytest.raises(KafkaError, match="has failed"):
        append(log, batch())
    assert len(read_all(log)) == 1
    directory.close_cleanly({}, 5)
    assert ".kafka_cleanshutdown" not in names(disk)


def test_a_disk_that_is_nearly_full_refuses_appends_until_there_is_room() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    create(directory)
    log = directory.logs["topic", 0]
    append(log, batch())
    disk.capacity_bytes = 1000
    refusal = str(directory.check_space(900, NOW_MS))
    assert refusal == f"{disk.free_bytes('/data')} bytes are left in /data, the reserve is 900"
    with pytest.raises(KafkaError, match="less free space than its reserve") as refused:
        append(log, batch())
    assert not re.search(r"\d|/", str(refused.value.message)), "clients learn no more"
    assert len(read_all(log)) == 1
    disk.capacity_bytes = 1 << 20
    create(directory, partition=1)
    with pytest.raises(KafkaError, match="less free space than its reserve"):
        append(directory.logs["topic", 1], batch())
    assert directory.is_full
    assert directory.check_space(900, NOW_MS) is None
    assert not directory.is_full
    append(log, batch())


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_directory_counts_as_full_for_a_while_after_a_write_that_found_no_space(
    code: int,
) -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    directory.note(OSError(code, "no space"))
    assert directory.is_full and directory.failure is None
    for now_ms in (NOW_MS, NOW_MS + 9_999):
        assert directory.check_space(900, now_ms) is None
        assert directory.is_full
    assert directory.check_space(900, NOW_MS + 10_000) is None
    assert not directory.is_full


def test_syncs_run_in_parallel() -> None:
    disk = SimulatedDisk()
    directory = LogDirectory(disk, PATH, threads=4)
    directory.load(lambda _: TopicConfig(), NOW_MS)
    for partition in range(10):
        create(directory, partition=partition)
        append(directory.logs["topic", partition], batch())
    directory.flush()
    assert {log.recovery_point for log in directory.logs.values()} == {1}


def test_the_logs_of_a_topic_share_one_configuration() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    for topic in ("a", "b"):
        for partition in range(3):
            create(directory, topic, partition)
    directory.close_cleanly({}, 1)
    again = LogDirectory(disk, PATH, threads=1)
    asked = []
    again.load(lambda topic: asked.append(topic) or TopicConfig(), NOW_MS)
    assert sorted(asked) == ["a", "b"]
    assert len({id(log.config) for log in again.logs.values()}) == 2


def test_an_idle_log_takes_little_memory(tmp_path: Path) -> None:
    directory = LogDirectory(RealDisk(open_files_limit=8), str(tmp_path / "data"))
    directory.load(lambda _: TopicConfig(), NOW_MS)
    create(directory, partition=1000)
    tracemalloc.start()
    for partition in range(200):
        create(directory, partition=partition)
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    directory.release()
    assert size_bytes / 200 < 3 * 1024


def with_many_logs(disk: SimulatedDisk) -> LogDirectory:
    """A directory of so many logs, each with a record, that files are not synced one by one."""
    directory = opened(disk)
    for index in range(_MANY):
        create(directory, partition=index)
        append(directory.logs["topic", index], batch())
    return directory


def test_very_many_logs_are_synced_by_one_call_and_survive_a_power_cut() -> None:
    disk = SimulatedDisk()
    directory = with_many_logs(disk)
    start = len(disk.log)
    directory.close_cleanly({}, 5)
    synced = [each for each in disk.log[start:] if each.startswith(("sync_all", "fsync"))]
    assert synced[0] == f"sync_all {PATH}"
    assert not [each for each in synced if "/topic-" in each]
    again = opened(disk.after_crash(Outcome.UNSYNCED_LOST, 0))
    assert [each.end_offset for each in again.logs.values()] == [1] * _MANY


def test_a_failed_sync_of_very_many_logs_leaves_no_marker() -> None:
    disk = SimulatedDisk()
    directory = with_many_logs(disk)
    disk.failures[disk.operations] = errno.EIO
    with pytest.raises(OSError):
        directory.flush()
    directory.close_cleanly({}, 5)
    assert ".kafka_cleanshutdown" not in names(disk)
