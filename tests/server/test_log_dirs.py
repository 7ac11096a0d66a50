"""Several log.dirs: partitions are spread over them, and stay in their directories."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.in_process import InProcessBroker, batch, now
from tests.log.batches import read_all
from tests.manual_clock import ManualClock
from wirekafka.log.checkpoints import properties_from, uuid_from
from wirekafka.log.directories import log_directory
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.metadata.image.image import PartitionImage


def started(tmp_path: Path, clock: ManualClock) -> InProcessBroker:
    paths = f"{tmp_path}/a,{tmp_path}/b,{tmp_path}/c"
    return InProcessBroker(Path(paths), clock)


def where(tmp_path: Path) -> dict[str, str]:
    return {log.name: log.parent.name for log in tmp_path.glob("[abc]/t-*")}


def test_partitions_spread_and_stay_where_they_are(
    tmp_path: Path, manual_clock: ManualClock
) -> None:
    kafka = started(tmp_path, manual_clock)
    kafka.create("t", 6)
    for index in range(6):
        kafka.partition("t", index).leader.append_from_client(
            batch(b"%d" % index), 1, manual_clock.now_ms()
        )
    before = where(tmp_path)
    assert sorted(before.values()) == ["a", "a", "b", "b", "c", "c"]
    kafka.stop()
    again = started(tmp_path, manual_clock)
    assert where(tmp_path) == before
    for index in range(6):
        assert b"".join(read_all(again.partition("t", index).log)).endswith(b"%d\x00" % index)
    again.stop()


def test_the_metadata_names_the_directory_of_each_replica(
    tmp_path: Path, manual_clock: ManualClock
) -> None:
    kafka = started(tmp_path, manual_clock)
    kafka.create("t", 6)
    kafka.create("short-lived")
    now(kafka.broker.controller.submit(DeleteTopics([TopicReference(name="short-lived")])))
    manual_clock.advance(1)
    epochs = [partition_in(kafka, index).partition_epoch for index in range(6)]
    for index in range(6):
        assert partition_in(kafka, index).directories == [directory_id(tmp_path, index)]
        assert partition_in(kafka, index).leader_epoch == 0
        assert kafka.partition("t", index).partition_epoch == epochs[index]
    kafka.stop()
    again = started(tmp_path, manual_clock)
    joined = again.broker.metadata_offset
    manual_clock.advance(1)
    assert again.broker.metadata_offset == joined, "known metadata is not published again"
    for index in range(6):
        assert partition_in(again, index).directories == [directory_id(tmp_path, index)]
    again.stop()


def partition_in(kafka: InProcessBroker, index: int) -> PartitionImage:
    """The partition's registration in the metadata."""
    return kafka.broker.image.topics["t"].partitions[index]


def directory_id(tmp_path: Path, index: int) -> bytes:
    text = (tmp_path / where(tmp_path)[f"t-{index}"] / "meta.properties").read_bytes()
    return uuid_from(properties_from(text)["directory.id"])


def test_a_directory_of_another_cluster_is_refused(
    tmp_path: Path, manual_clock: ManualClock
) -> None:
    started(tmp_path, manual_clock).stop()
    properties = tmp_path / "b" / "meta.properties"
    text = properties.read_text()
    properties.write_text(text.replace("cluster.id=", "cluster.id=X"))
    with pytest.raises(UnusableDirectory, match="several clusters"):
        started(tmp_path, manual_clock)
    properties.write_text(text)
    started(tmp_path, manual_clock).stop()


def test_recovery_of_many_logs_logs_its_progress(
    tmp_path: Path,
    manual_clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_directory, "_LOGGED_EVERY", 2)
    kafka = started(tmp_path, manual_clock)
    kafka.create("t", 6)
    for directory in kafka.broker.directories:
        directory.release()  # As a killed process leaves it.
    caplog.set_level(logging.INFO)
    started(tmp_path, manual_clock).stop()
    assert f"{tmp_path}/a was not closed cleanly: recovering 2 logs" in caplog.text
    assert f"Recovered 2 of 2 logs in {tmp_path}/b" in caplog.text
