"""Segments: the same files as Kafka's for the same batches, and the same rolls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.log.batches import DIRECTORY, NOW_MS, append, batch, new_log, read_all, reopened
from tests.simulation.disk import SimulatedDisk
from wirekafka.codec.batch import batches
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.log import Log
from wirekafka.log.scan import LARGEST_RELATIVE_OFFSET

KAFKA_LOG = Path(__file__).parent / "kafka_log-0"
"""Written by Apache Kafka 4.3.1 for an idempotent and a transactional producer."""

CONFIG = TopicConfig(segment_bytes=20_000, index_interval_bytes=200)
"""The topic's configs (the first is set as internal.segment.bytes)."""

SIDE_FILES = (".index", ".timeindex", ".txnindex", ".snapshot")


def kafka_files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in KAFKA_LOG.iterdir()}


def our_files(disk: SimulatedDisk) -> dict[str, bytes]:
    return {path.rpartition("/")[2]: data for path, data in disk.files().items()}


def replayed(disk: SimulatedDisk) -> Log:
    disk.make_directory(DIRECTORY)
    log = Log.create(disk, DIRECTORY, CONFIG, NOW_MS)
    for name, data in sorted(kafka_files().items()):
        if name.endswith(".log"):
            for at, header in batches(data):
                log.append_as_follower(data[at : at + header.size_bytes], NOW_MS)
    return log


def test_kafkas_batches_are_written_to_the_same_files_as_by_kafka() -> None:
    disk = SimulatedDisk()
    replayed(disk).close()
    ours = our_files(disk)
    for name, data in kafka_files().items():
        if name != "partition.metadata":
            assert ours[name] == data, name


def test_recovery_rebuilds_kafkas_side_files_from_the_log_files_alone() -> None:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    for name, data in kafka_files().items():
        if name.endswith(".log"):
            disk.write(f"{DIRECTORY}/{name}", data)
    log = reopened(disk, config=CONFIG)
    log.close()
    ours = our_files(disk)
    for name, data in kafka_files().items():
        if name != "partition.metadata":
            assert ours[name] == data, name


def test_the_file_is_named_by_the_first_offset_in_twenty_digits() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, segment_bytes=200)
    for _ in range(4):
        append(log, batch(b"x" * 80))
    assert {name for name in our_files(disk) if name.endswith(".log")} == {
        f"0000000000000000000{n}.log" for n in range(4)
    }


def test_a_segment_rolls_when_the_next_batch_would_not_fit() -> None:
    size_bytes = len(batch())
    log = new_log(segment_bytes=3 * size_bytes)
    for _ in range(7):
        append(log, batch())
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]


def test_a_segment_rolls_by_the_timestamps_of_its_batches_not_by_the_clock() -> None:
    log = new_log(segment_ms=1000)
    append(log, batch(timestamp=NOW_MS))
    append(log, batch(timestamp=NOW_MS + 1000), now_ms=NOW_MS + 900_000)
    append(log, batch(timestamp=NOW_MS - 5000))
    assert len(log.segments) == 1
    append(log, batch(timestamp=NOW_MS + 1001))
    assert [segment.base_offset for segment in log.segments] == [0, 3]


def test_a_segment_without_timestamps_rolls_by_its_age() -> None:
    log = new_log(segment_ms=1000)
    append(log, batch(timestamp=-1))
    append(log, batch(timestamp=-1), now_ms=NOW_MS + 1000)
    assert len(log.segments) == 1
    append(log, batch(timestamp=-1), now_ms=NOW_MS + 1001)
    assert len(log.segments) == 2


def test_jitter_makes_a_segment_roll_earlier_and_the_same_at_every_run() -> None:
    config = TopicConfig(segment_ms=1000, segment_jitter_ms=900)
    rolled_at = []
    for partition in range(4):
        directory = f"/data/topic-{partition}"
        disk = SimulatedDisk()
        disk.make_directory(directory)
        log = Log.create(disk, directory, config, NOW_MS)
        late_ms = 0
        while len(log.segments) == 1:
            append(log, batch(timestamp=NOW_MS + late_ms), now_ms=NOW_MS + late_ms)
            late_ms += 10
        rolled_at.append(late_ms)
    assert len(set(rolled_at)) > 1
    assert all(90 <= late_ms <= 1020 for late_ms in rolled_at)


@pytest.mark.parametrize(("limit_bytes", "entries"), [(48, 3), (24, 1)])
def test_a_segment_rolls_when_an_index_is_full(limit_bytes: int, entries: int) -> None:
    """48 bytes hold 6 offset entries, but of 4 time entries the last is kept for the end."""
    log = new_log(index_interval_bytes=0, segment_index_bytes=limit_bytes)
    for number in range(20):
        append(log, batch(timestamp=NOW_MS + number))
    first = log.segments[0]
    assert len(first.time_index) == len(first.index) == entries
    assert len(read_all(log)) == 20


def test_a_segment_rolls_before_a_relative_offset_overflows() -> None:
    log = new_log()
    source = new_log()
    for offset in (0, LARGEST_RELATIVE_OFFSET, LARGEST_RELATIVE_OFFSET + 1, 1 << 40):
        source.truncate_fully_at(offset, NOW_MS)
        append(source, batch())
        log.append_as_follower(read_all(source)[0], NOW_MS)
    bases = [segment.base_offset for segment in log.segments]
    assert bases == [0, LARGEST_RELATIVE_OFFSET + 1, 1 << 40]


def test_an_index_entry_is_the_last_offset_of_the_batch_that_starts_there() -> None:
    log = new_log(index_interval_bytes=0)
    for _ in range(3):
        append(log, batch(b"a", b"b"))
    size_bytes = len(batch(b"a", b"b"))
    index = log.segments[0].index
    assert [index.pair(n) for n in range(len(index))] == [(3, size_bytes), (5, 2 * size_bytes)]


def test_the_last_time_entry_is_written_when_the_segment_ends() -> None:
    log = new_log()
    append(log, batch(timestamp=NOW_MS + 5))
    append(log, batch(timestamp=NOW_MS))
    assert len(log.segments[0].time_index) == 0
    log.roll(NOW_MS)
    assert log.segments[0].time_index.last_entry() == (NOW_MS + 5, 0)


def test_rolling_an_empty_segment_does_nothing() -> None:
    log = new_log()
    log.roll(NOW_MS)
    append(log, batch())
    log.roll(NOW_MS)
    log.roll(NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def reserved(disk: SimulatedDisk) -> dict[str, int]:
    """The space that is reserved for each log file beyond what is in it."""
    names = [path for path in disk.files() if path.endswith(".log")]
    return {path.rpartition("/")[2]: disk.file(path).reserved_bytes for path in names}


def test_a_preallocated_segment_keeps_its_space_until_it_rolls_or_closes() -> None:
    disk = SimulatedDisk()
    size_bytes = len(batch())
    config = TopicConfig(segment_bytes=3 * size_bytes, preallocate=True)
    disk.make_directory(DIRECTORY)
    log = Log.create(disk, DIRECTORY, config, NOW_MS)
    for _ in range(4):
        append(log, batch())
    first, second = f"{0:020d}.log", f"{3:020d}.log"
    assert reserved(disk) == {first: 0, second: 3 * size_bytes}
    # After a crash, the space is there still.
    again = reopened(disk, config=config)
    assert reserved(disk) == {first: 0, second: 3 * size_bytes}
    again.close()
    assert reserved(disk) == {first: 0, second: 0}
    assert len(read_all(reopened(disk, clean=True, config=config))) == 4


def test_no_space_is_reserved_for_a_segment_by_default() -> None:
    disk = SimulatedDisk()
    append(new_log(disk), batch())
    assert set(reserved(disk).values()) == {0}


def test_the_space_of_a_segment_is_freed_after_the_option_is_switched_off() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, preallocate=True)
    append(log, batch())
    log.config = TopicConfig(preallocate=False)
    log.close()
    assert set(reserved(disk).values()) == {0}
