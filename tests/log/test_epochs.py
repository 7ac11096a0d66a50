"""Leader epochs: OffsetsForLeaderEpoch's rules and the checkpoint file."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from tests.log.batches import DIRECTORY, NOW_MS, append, batch, new_log, reopened
from tests.simulation.disk import Crash, Outcome, SimulatedDisk
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.epochs import (
    FILE_NAME,
    EpochEntry,
    LeaderEpochs,
    MalformedEpochs,
    decode_epochs,
    encode_epochs,
)
from wirekafka.log.files import RealDisk
from wirekafka.log.log import Log


def epochs_of(tmp_path: Path, *entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs.load(RealDisk(), str(tmp_path / FILE_NAME))
    for epoch, start_offset in entries:
        epochs.assign(epoch, start_offset)
    return epochs


def test_the_result_is_the_largest_epoch_up_to_the_requested_one_and_its_end(
    tmp_path: Path,
) -> None:
    epochs = epochs_of(tmp_path, (2, 10), (4, 20), (7, 30))
    assert epochs.end_offset_for(7, 45) == (7, 45)
    assert epochs.end_offset_for(4, 45) == (4, 30)
    assert epochs.end_offset_for(5, 45) == (4, 30)
    assert epochs.end_offset_for(3, 45) == (2, 20)


def test_unknown_epochs_have_no_end(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (2, 10), (4, 20))
    assert epochs.end_offset_for(5, 45) == (-1, -1)
    assert epochs.end_offset_for(-1, 45) == (-1, -1)
    assert LeaderEpochs(RealDisk(), "").end_offset_for(0, 45) == (-1, -1)


def test_an_epoch_below_all_known_ones_ends_where_the_first_begins(tmp_path: Path) -> None:
    assert epochs_of(tmp_path, (2, 10), (4, 20)).end_offset_for(1, 45) == (1, 10)


def test_a_follower_truncates_to_the_end_of_the_epoch_that_both_logs_share(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (2, 10), (4, 20))
    assert epochs.common_end(4, 30, 45) == 30  # The same epoch ends earlier at the leader,
    assert epochs.common_end(2, 25, 45) == 20  # or here.
    assert epochs.common_end(3, 15, 45) == 20  # Here is only an older one, as far as it goes.
    assert epochs.common_end(1, 5, 45) == 5
    assert epochs.common_end(6, 40, 45) == 40  # The leader's epoch is unknown here.


def test_assigning_the_same_epoch_again_changes_nothing(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (2, 10), (2, 15))
    assert epochs.entries == [EpochEntry(2, 10)]


def test_an_epoch_at_the_same_offset_replaces_the_one_that_wrote_nothing(tmp_path: Path) -> None:
    assert epochs_of(tmp_path, (0, 0), (1, 0), (3, 0)).entries == [EpochEntry(3, 0)]
    assert epochs_of(tmp_path, (5, 9)).entries == [EpochEntry(3, 0), EpochEntry(5, 9)]


def test_an_older_epoch_at_a_later_offset_replaces_newer_ones(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (1, 0), (3, 10), (2, 20))
    assert epochs.entries == [EpochEntry(1, 0), EpochEntry(2, 20)]
    assert epochs.latest == 2


def test_every_offset_has_the_epoch_that_wrote_it(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (2, 10), (4, 20))
    assert [epochs.epoch_at(offset) for offset in (9, 10, 19, 20, 99)] == [-1, 2, 2, 4, 4]


def test_truncation_removes_epochs_that_begin_at_or_after_the_end(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (1, 0), (2, 10), (3, 20))
    epochs.truncate_from_end(21)
    assert epochs.latest == 3
    epochs.truncate_from_end(10)
    assert epochs.entries == [EpochEntry(1, 0)] and epochs.latest == 1


def test_a_new_log_start_moves_the_start_of_its_epoch(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (1, 0), (2, 10), (3, 20))
    epochs.truncate_from_start(15)
    assert epochs.entries == [EpochEntry(2, 15), EpochEntry(3, 20)]
    epochs.truncate_from_start(20)
    assert epochs.entries == [EpochEntry(3, 20)]
    epochs.truncate_from_start(25)
    assert epochs.entries == [EpochEntry(3, 25)]
    epochs.truncate_from_start(5)
    assert epochs.entries == [EpochEntry(3, 25)]


def test_the_file_has_kafkas_bytes_and_survives_a_restart(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (0, 0))
    assert (tmp_path / FILE_NAME).read_bytes() == b"0\n1\n0 0\n"
    epochs.assign(3, 17)
    assert (tmp_path / FILE_NAME).read_bytes() == b"0\n2\n0 0\n3 17\n"
    assert epochs_of(tmp_path).entries == epochs.entries
    epochs.clear()
    assert (tmp_path / FILE_NAME).read_bytes() == b"0\n0\n" and epochs.latest == -1


def test_an_epoch_is_written_to_the_file_with_its_first_batch(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (0, 0))
    epochs.begin(3, 17)
    assert epochs.latest == 3 and epochs.end_offset_for(0, 17) == (0, 17)
    assert (tmp_path / FILE_NAME).read_bytes() == b"0\n1\n0 0\n"
    epochs.assign(3, 17)
    assert (tmp_path / FILE_NAME).read_bytes() == b"0\n2\n0 0\n3 17\n"


def test_an_epoch_removed_in_memory_is_removed_from_the_file_before_the_next_batch(
    tmp_path: Path,
) -> None:
    epochs_of(tmp_path, (5, 0), (7, 100))
    epochs = epochs_of(tmp_path)
    epochs.forget_from(100)
    assert epochs.entries == [EpochEntry(5, 0)] and epochs.recorded < 0
    epochs.assign(5, 100)  # Otherwise a later load would assign the following records to epoch 7.
    assert (tmp_path / FILE_NAME).read_bytes() == b"0\n1\n5 0\n" and epochs.recorded == 5


def test_nothing_is_written_while_nothing_changes(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path)
    epochs.truncate_from_end(0)
    epochs.truncate_from_start(9)
    epochs.clear()
    assert not (tmp_path / FILE_NAME).exists()


@pytest.mark.parametrize(
    "data",
    [b"x", b"0", b"0\nx\n", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\n0\n", b"0\n1\n0 0 0\n",
     b"0\n1\na 0\n", b"0\n2\n1 5\n1 6\n", b"0\n2\n1 5\n2 4\n", b"\xff\n1\n", b"0\n2\n1 5\n2 60"],
)  # fmt: skip
def test_a_malformed_file_is_an_error(data: bytes) -> None:
    with pytest.raises(MalformedEpochs):
        decode_epochs(data)


def test_encoding_and_decoding_are_inverse() -> None:
    entries = [EpochEntry(0, 0), EpochEntry(2, 5), EpochEntry(9, 2**40)]
    assert decode_epochs(encode_epochs(entries)) == entries
    assert decode_epochs(b"") == []


_TIERED: dict[str, Any] = {
    "remote_storage_enable": True,
    "local_retention_bytes": 1,
    "segment_bytes": 200,
}


def _tiered_log(disk: SimulatedDisk) -> Log:
    """A log under three leader epochs, whose older records are in remote storage only."""
    log = new_log(disk, **_TIERED)
    for epoch in range(3):
        for _ in range(3):
            append(log, batch(b"value"), epoch=epoch)
    assert log.remote is not None
    log.remote.readable_end_offset = 7
    log.delete_old_segments(NOW_MS)
    assert log.first_offset == 0 < log.start_offset
    return log


@pytest.mark.parametrize("outcome", [Outcome.UNSYNCED_LOST, Outcome.RENAMED_EMPTY])
def test_a_power_cut_leaves_the_epochs_of_records_that_are_in_remote_storage_only(
    outcome: Outcome,
) -> None:
    disk = SimulatedDisk()
    log = _tiered_log(disk)
    for segment in log.segments:
        segment.file.fsync()
    for path in ("", "/data", DIRECTORY):
        disk.fsync_directory(path)
    epochs = list(log.epochs.entries)
    survivor = disk.after_crash(outcome, 1)
    again = reopened(survivor, config=TopicConfig(**_TIERED))
    assert again.epochs.entries == epochs


def test_a_crash_while_a_log_begins_after_its_remote_part_leaves_the_epochs_of_that_part() -> None:
    epochs = [EpochEntry(0, 0), EpochEntry(1, 50)]
    for crash_at in range(100):
        disk = SimulatedDisk()
        log = new_log(disk, **_TIERED)
        append(log, batch(b"value"))
        disk.crash_at = disk.operations + crash_at
        with contextlib.suppress(Crash):
            log.restart_after_remote(20, 90, epochs, None, NOW_MS)
        is_over = disk.operations <= disk.crash_at
        again = reopened(disk.after_crash(Outcome.ALL_KEPT, 1), config=TopicConfig(**_TIERED))
        if again.start_offset == 90:
            assert again.epochs.entries == [EpochEntry(0, 20), EpochEntry(1, 50)]
        if is_over:
            assert again.start_offset == 90
            return
    raise AssertionError("it does not end")
