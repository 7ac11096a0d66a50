"""Which cluster may use a log directory, and the broker epoch of its last clean stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.files import RealDisk
from wirekafka.log.log_directory import LogDirectory, UnusableDirectory
from wirekafka.metadata.claim import check_cluster, claim, locked, previous_epoch


def two(path: Path) -> BrokerConfig:
    return BrokerConfig.of({"log.dirs": f"{path}/a,{path}/b", "node.id": "7"})


def opened(path: Path) -> list[LogDirectory]:
    return locked(RealDisk(), two(path))


def claimed_by(path: Path, cluster_id: str) -> None:
    directories = opened(path)
    claim(directories, 7, cluster_id, lambda: b"d" * 16)
    for directory in directories:
        directory.release()


def test_new_directories_are_accepted_for_any_cluster(tmp_path: Path) -> None:
    check_cluster(RealDisk(), two(tmp_path), "c")
    assert not any(tmp_path.iterdir()), "nothing is written"


def test_directories_of_another_cluster_are_refused_with_their_path(tmp_path: Path) -> None:
    claimed_by(tmp_path, "c")
    check_cluster(RealDisk(), two(tmp_path), "c")
    with pytest.raises(UnusableDirectory, match="a belongs to cluster c, but the controllers to d"):
        check_cluster(RealDisk(), two(tmp_path), "d")


def stopped(path: Path, *epochs: int) -> None:
    """Leave the directories as a clean stop in these broker epochs does."""
    for directory, epoch in zip(opened(path), epochs, strict=True):
        directory.close_cleanly({}, epoch)


def epoch_found(path: Path) -> int:
    directories = opened(path)
    for directory in directories:
        directory.release()
    return previous_epoch(directories)


def test_the_epoch_of_a_clean_stop_is_reported(tmp_path: Path) -> None:
    assert epoch_found(tmp_path) == -1, "there was none"
    stopped(tmp_path, 40, 40)
    assert epoch_found(tmp_path) == 40


@pytest.mark.parametrize("other", [39, -1])
def test_a_stop_that_was_not_clean_everywhere_counts_as_unclean(tmp_path: Path, other: int) -> None:
    """KAFKA-18635: unsynced records may be lost, and the controllers have to know."""
    stopped(tmp_path, 40, other)
    assert epoch_found(tmp_path) == -1
    stopped(tmp_path, 40, 40)
    (tmp_path / "b" / ".kafka_cleanshutdown").unlink()
    assert epoch_found(tmp_path) == -1


def test_epoch_of_a_clean_stop_counts_for_one_start_only(tmp_path: Path) -> None:
    """KAFKA-18106: a crash after it is an unclean stop, although there was a marker."""
    stopped(tmp_path, 40, 40)
    directories = opened(tmp_path)
    assert previous_epoch(directories) == 40
    for directory in directories:
        directory.load(lambda topic: TopicConfig(), 0)
        directory.release()  # As a killed process leaves it.
    assert epoch_found(tmp_path) == -1


def test_epochs_beside_a_failed_directory_do_not_count(tmp_path: Path) -> None:
    stopped(tmp_path, 40, 40)
    (tmp_path / "b" / ".lock").mkdir()
    assert epoch_found(tmp_path) == -1
