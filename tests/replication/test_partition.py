"""A partition: its high watermark, its reads, and its use as a replicated log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from wirekafka.codec.batch import read_header
from wirekafka.errors import Error, KafkaError
from wirekafka.log.append import Append, Origin
from wirekafka.protocol.records.control import Marker, encode_marker
from wirekafka.replication.partition.partition import Leadership, Partition, ReadRange


@pytest.fixture
def partition(tmp_path: Path, manual_clock: ManualClock) -> Iterator[Partition]:
    kafka = InProcessBroker(tmp_path / "data", manual_clock)
    kafka.create("t")
    yield kafka.partition("t")
    kafka.stop()


def led(epoch: int, *isr: int) -> Leadership:
    return Leadership(leader_id=1, leader_epoch=epoch, isr=isr, replicas=(1, 2, 3))


def append(partition: Partition, count: int = 1) -> None:
    for _ in range(count):
        partition.leading().append_from_client(batch(), 1, 1_700_000_000_000)


def reach(partition: Partition, replica_id: int, end_offset: int) -> None:
    partition.leader.follower_fetched(replica_id, end_offset, 0, -1, partition.clock.now_ms())


def test_alone_in_sync_the_high_watermark_is_the_log_end(partition: Partition) -> None:
    append(partition, 3)
    assert partition.high_watermark == partition.end_offset == 3


def test_the_high_watermark_is_the_smallest_end_of_the_in_sync_replicas(
    partition: Partition,
) -> None:
    partition.lead(led(1, 1, 2, 3))
    append(partition, 5)
    assert partition.high_watermark == 0
    reach(partition, 2, 4)
    reach(partition, 3, 3)
    assert partition.high_watermark == 3
    reach(partition, 3, 5)
    assert partition.high_watermark == 4


def test_a_smaller_isr_raises_the_high_watermark(partition: Partition) -> None:
    partition.lead(led(1, 1, 2))
    append(partition, 2)
    assert partition.high_watermark == 0
    partition.lead(led(1, 1))
    assert partition.high_watermark == 2


def test_the_high_watermark_never_goes_back(partition: Partition) -> None:
    append(partition, 3)
    partition.lead(led(1, 1, 2))
    append(partition)
    reach(partition, 2, 1)
    assert partition.high_watermark == 3


def test_a_new_leader_epoch_starts_at_the_log_end(partition: Partition) -> None:
    append(partition, 2)
    partition.lead(led(7, 1))
    append(partition)
    assert partition.log.end_offset_for_epoch(0) == (0, 2)
    assert partition.log.end_offset_for_epoch(7) == (7, 3)


def test_commit_callbacks_run_in_order_of_offset(partition: Partition) -> None:
    partition.lead(led(1, 1, 2))
    reached: list[int] = []
    for offset in (3, 1, 2):
        partition.when_committed(offset, lambda offset=offset: reached.append(offset))
    append(partition, 3)
    assert reached == []
    reach(partition, 2, 2)
    assert reached == [1, 2]
    reach(partition, 2, 3)
    assert reached == [1, 2, 3]
    partition.when_committed(3, lambda: reached.append(99))
    assert reached[-1] == 99


def test_commit_callbacks_run_before_the_committing_append_returns(partition: Partition) -> None:
    reached: list[int] = []
    partition.when_committed(1, lambda: reached.append(partition.high_watermark))
    assert partition.append(batch()) == 1
    assert reached == [1]


def test_only_the_leader_appends_and_reads(partition: Partition) -> None:
    partition.follow(Leadership(leader_id=2, leader_epoch=1, replicas=(1, 2)))
    for attempt in (
        lambda: append(partition),
        lambda: partition.append(batch()),
        lambda: partition.read(ReadRange(offset=0, max_bytes=100)),
        lambda: partition.delete_records(0),
    ):
        with pytest.raises(KafkaError) as caught:
            attempt()
        assert caught.value.error is Error.NOT_LEADER_OR_FOLLOWER


def test_batches_are_read_back_one_by_one(partition: Partition) -> None:
    for values in ((b"a", b"b"), (b"c" * 5000,), (b"d",)):
        partition.append(batch(*values))
    found = [read_header(each) for each in partition.read_batches()]
    assert [(header.base_offset, header.count) for header in found] == [(0, 2), (2, 1), (3, 1)]


def test_consumers_read_to_the_high_watermark_and_debuggers_beyond(partition: Partition) -> None:
    partition.lead(led(1, 1, 2))
    append(partition, 2)
    consumer = partition.read(ReadRange(offset=0, max_bytes=1000))
    debugger = partition.read(ReadRange(offset=0, max_bytes=1000, to_log_end=True))
    assert consumer.records is not None and consumer.records.size_bytes == 0
    assert debugger.records is not None and debugger.records.size_bytes == 2 * len(batch())


def test_the_high_watermark_is_restored_within_the_log(partition: Partition) -> None:
    append(partition, 3)
    for checkpoint, restored in ((2, 2), (99, 3), (-1, 0)):
        partition.restore_high_watermark(checkpoint)
        assert partition.high_watermark == restored


def test_transactions_decided_before_a_crash_are_stable_after_it(partition: Partition) -> None:
    for sequence in range(2):
        partition.log.append_as_leader(
            batch(producer_id=7, producer_epoch=0, base_sequence=sequence, is_transactional=True),
            Append(leader_epoch=0, now_ms=1_700_000_000_000, origin=Origin.COORDINATOR),
        )
        partition.log.append_as_leader(
            encode_marker(7, 0, Marker(True, 0, 1_700_000_000_000)),
            Append(leader_epoch=0, now_ms=1_700_000_000_000, origin=Origin.COORDINATOR),
        )
    assert partition.log.first_unstable_offset == 0, "as a scan of the log leaves it"
    partition.restore_high_watermark(3)
    assert partition.last_stable_offset == 2
    partition.restore_high_watermark(4)
    assert partition.last_stable_offset == 4


def test_a_start_after_a_clean_stop_appends_nothing(
    tmp_path: Path, manual_clock: ManualClock
) -> None:
    kafka = InProcessBroker(tmp_path / "data", manual_clock)
    kafka.create("t", 3)
    append(kafka.partition("t", 0), 2)
    kafka.stop()
    files = {path: path.stat() for path in (tmp_path / "data").glob("t-*/*")}
    assert len(files) > 9
    kafka = InProcessBroker(tmp_path / "data", manual_clock)
    assert kafka.partition("t").leader_epoch > 0
    kafka.stop()
    found = {path: path.stat() for path in (tmp_path / "data").glob("t-*/*")}
    assert {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in found.items()} == {
        path: (stat.st_ino, stat.st_mtime_ns) for path, stat in files.items()
    }


def test_records_written_after_a_clean_start_have_the_new_epoch(
    tmp_path: Path, manual_clock: ManualClock
) -> None:
    for _ in range(2):
        kafka = InProcessBroker(tmp_path / "data", manual_clock)
        if "t" not in kafka.broker.image.topics:
            kafka.create("t")
        append(kafka.partition("t"))
        kafka.stop()
    kafka = InProcessBroker(tmp_path / "data", manual_clock)
    epochs = kafka.partition("t").log.epochs
    assert [entry.start_offset for entry in epochs.entries] == [0, 1, 2]
    assert epochs.epoch_at(0) < epochs.epoch_at(1) < epochs.epoch_at(2)
    kafka.stop()
