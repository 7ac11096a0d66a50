"""A log that syncs each segment before the next one has no hole after a power cut."""

from __future__ import annotations

from random import Random

import pytest

from tests.log.batches import DIRECTORY, NOW_MS, append, batch
from tests.simulation.disk import Outcome, SimulatedDisk
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.directories.ordered_log import OrderedLog
from wirekafka.log.log import Log
from wirekafka.log.recovery import CorruptLog, Opening

CONFIG = TopicConfig(segment_bytes=400)


def new(kind: type[Log], disk: SimulatedDisk) -> Log:
    disk.make_directory(DIRECTORY)
    return kind.create(disk, DIRECTORY, CONFIG, NOW_MS)


def after_power_cut(kind: type[Log], seed: int) -> tuple[Log, int]:
    """The log as it is opened after appends with a sync now and then, and what was synced."""
    random, disk = Random(seed), SimulatedDisk(seed)
    log = new(kind, disk)
    for _ in range(30):
        append(log, batch(b"x" * random.randint(1, 60)))
        if random.random() < 0.2:
            log.flush()
    survivor = disk.after_crash(Outcome.PREFIX, seed)
    opening = Opening(is_clean=False, now_ms=NOW_MS)
    return kind.open(survivor, DIRECTORY, CONFIG, opening), log.recovery_point


def test_a_power_cut_loses_an_end_that_was_not_synced_and_leaves_no_hole() -> None:
    for seed in range(60):
        found, synced_end = after_power_cut(OrderedLog, seed)
        assert found.end_offset >= synced_end


def test_without_the_order_some_logs_have_a_hole() -> None:
    """So that the test above would find one."""
    with pytest.raises(CorruptLog):
        for seed in range(60):
            after_power_cut(Log, seed)


def test_a_segment_is_continued_until_it_is_synced() -> None:
    log = new(OrderedLog, SimulatedDisk())
    while log.segments.active.size_bytes < 500:
        append(log, batch(b"value"))
    assert len(log.segments) == 1
    log.flush()
    append(log, batch(b"value"))
    assert len(log.segments) == 2
    assert log.segments.active.base_offset == log.end_offset - 1


def test_a_segment_of_twice_its_size_is_synced_at_once() -> None:
    log = new(OrderedLog, SimulatedDisk())
    while len(log.segments) == 1:
        append(log, batch(b"value"))
    first, second = log.segments
    assert 800 <= first.size_bytes < 1_000
    assert log.recovery_point == second.base_offset
