"""Which cluster may use a log directory, and the broker epoch of its last clean stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.directories.log_directory import METADATA_LOG, LogDirectory, UnusableDirectory
from wirekafka.log.files import RealDisk
from wirekafka.metadata.broker.claim import check_cluster, claim, locked, previous_epoch


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
    check_cluster(RealDisk(), two(tmp_path), "c", "this node to")
    assert not any(tmp_path.iterdir()), "nothing is written"


def test_directories_of_another_cluster_are_refused_with_their_path(tmp_path: Path) -> None:
    claimed_by(tmp_path, "c")
    check_cluster(RealDisk(), two(tmp_path), "c", "the controllers to")
    with pytest.raises(UnusableDirectory, match="a belongs to cluster c, but the controllers to d"):
        check_cluster(RealDisk(), two(tmp_path), "d", "the controllers to")


def used(path: Path) -> None:
    """Leave two directories with a metadata log and a topic's log, as a node does."""
    claimed_by(path, "c")
    (path / "a" / METADATA_LOG).mkdir()
    (path / "b" / "t-0").mkdir()
    (path / "b" / "t-0" / "partition.metadata").write_text("version: 0\n")


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("is_mount_point", [True, False])
def test_a_directory_that_is_not_mounted_is_refused_and_not_formatted(
    tmp_path: Path, name: str, is_mount_point: bool
) -> None:
    """Kafka 4.4.0: "No `meta.properties` found in ...", whether the directory exists or not."""
    used(tmp_path)
    (tmp_path / name).rename(tmp_path / "elsewhere")
    if is_mount_point:
        (tmp_path / name).mkdir()
    with pytest.raises(UnusableDirectory, match=f"/{name} has no meta.properties, and .*mount"):
        opened(tmp_path)
    assert not is_mount_point or not any((tmp_path / name).iterdir())
    assert (tmp_path / name).exists() == is_mount_point


def test_a_new_directory_is_formatted_beside_used_ones_if_it_is_named(tmp_path: Path) -> None:
    used(tmp_path)
    paths = f"{tmp_path}/a,{tmp_path}/b,{tmp_path}/c"
    named = {"log.dirs": paths, "node.id": "7", "wirekafka.new.log.dirs": f"{tmp_path}/c/"}
    directories = locked(RealDisk(), BrokerConfig.of(named))
    assert claim(directories, 7, None, lambda: b"e" * 16) == "c"
    assert [each.identity and each.identity.directory_id[:1] for each in directories] == [
        b"d",
        b"d",
        b"e",
    ]
    for directory in directories:
        directory.release()


def test_a_first_start_that_was_killed_while_it_formatted_is_finished(tmp_path: Path) -> None:
    claimed_by(tmp_path, "c")
    (tmp_path / "b" / "meta.properties").unlink()
    claimed_by(tmp_path, "c")
    assert (tmp_path / "b" / "meta.properties").exists()


def test_logs_whose_identity_has_vanished_get_no_new_one(tmp_path: Path) -> None:
    used(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name / "meta.properties").unlink()
    (tmp_path / "a" / METADATA_LOG).rmdir()
    with pytest.raises(UnusableDirectory, match=r"b has logs, such as t-0, but no meta.properties"):
        opened(tmp_path)
    assert not (tmp_path / "a" / "meta.properties").exists()


def test_directories_that_are_only_named_like_logs_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a" / "project-1").mkdir(parents=True)
    claimed_by(tmp_path, "c")


def test_another_node_is_named_with_the_setting_that_would_be_right(tmp_path: Path) -> None:
    claimed_by(tmp_path, "c")
    (tmp_path / "b" / "meta.properties").unlink()
    directories = opened(tmp_path)
    with pytest.raises(UnusableDirectory) as refused:
        claim(directories, 8, None, lambda: b"e" * 16)
    assert str(refused.value) == (
        f"{tmp_path}/a belongs to node 7, and this is node 8: set node.id=7, or use another"
        " directory"
    )
    assert not (tmp_path / "b" / "meta.properties").exists(), "nothing is written before that"
    for directory in directories:
        directory.release()


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
