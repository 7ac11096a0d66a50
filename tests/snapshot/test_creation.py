"""Snapshots in log directories: their instant, what is shared, and what is recognised."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from tests.snapshot.taken import noted, snapshot
from wirekafka.log.append import Append
from wirekafka.log.directories.handover import examine
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.log.files import RealDisk
from wirekafka.log.log import Log
from wirekafka.server.snapshots.noting import Unavailable
from wirekafka.server.snapshots.taking import take
from wirekafka.snapshot.creation import Creation, SnapshotOptions
from wirekafka.snapshot.instant import Instant
from wirekafka.snapshot.local_snapshots import problems, snapshots_in
from wirekafka.snapshot.manifest import MANIFEST, UnusableSnapshot, read_manifest
from wirekafka.snapshot.placing import Sharing
from wirekafka.snapshot.target import TargetDirectory

SEGMENT_BYTES = "10000"
VALUE = bytes(range(256)) * 12


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[InProcessBroker]:
    made = InProcessBroker(tmp_path / "data", ManualClock())
    made.create("orders", internal_segment_bytes=SEGMENT_BYTES)
    yield made
    made.stop()


def fill(broker: InProcessBroker, batches: int, topic: str = "orders") -> Log:
    log = broker.partition(topic).log
    for number in range(batches):
        append(log, b"%d " % number + VALUE)
    return log


def append(log: Log, value: bytes) -> None:
    log.append_as_leader(batch(value), Append(leader_epoch=0, now_ms=1_700_000_000_000))


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def end_of(path: Path, topic: str = "orders") -> int:
    """The log end of a topic in a node that starts on a copy of a snapshot."""
    opened = InProcessBroker(path, ManualClock())
    try:
        return opened.partition(topic).log.end_offset
    finally:
        opened.stop()


def test_a_snapshot_has_what_was_appended_before_its_instant_and_nothing_later(
    broker: InProcessBroker, tmp_path: Path
) -> None:
    log = fill(broker, 10)
    instant = noted(broker.broker)
    append(log, b"later")
    fill(broker, 5)  # Rolls the segment that was the last.
    created = Creation(RealDisk(), str(tmp_path / "copy"), SnapshotOptions()).run(instant)
    assert created.linked_bytes > 20_000
    manifest = read_manifest(RealDisk(), str(tmp_path / "copy"))
    [orders] = [log for log in manifest.logs if log.topic == "orders"]
    assert (orders.start_offset, orders.end_offset) == (0, 10)
    assert examine(RealDisk(), [str(tmp_path / "copy")]).node_id == broker.broker.node_id
    assert end_of(tmp_path / "copy") == 10
    assert log.end_offset == 16


def test_a_snapshot_opens_without_a_recovery(
    broker: InProcessBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker, 10)
    snapshot(broker.broker, str(tmp_path / "copy"))
    caplog.clear()
    assert end_of(tmp_path / "copy") == 10
    assert "not closed cleanly" not in caplog.text


def test_a_snapshot_of_a_stopped_node_equals_its_directory(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path / "data", ManualClock())
    broker.create("orders", internal_segment_bytes=SEGMENT_BYTES)
    fill(broker, 10)
    broker.stop()
    take(RealDisk(), [str(tmp_path / "data")], str(tmp_path / "copy"), SnapshotOptions())
    copied = contents(tmp_path / "copy")
    del copied[MANIFEST]
    assert copied == contents(tmp_path / "data")


def test_links_are_shared_and_copies_are_not(broker: InProcessBroker, tmp_path: Path) -> None:
    fill(broker, 10)
    snapshot(broker.broker, str(tmp_path / "linked"))
    copying = SnapshotOptions(sharing=Sharing.COPIES)
    Creation(RealDisk(), str(tmp_path / "copied"), copying).run(noted(broker.broker))
    for name, links in (("linked", [1, 2, 2, 2]), ("copied", [1, 1, 1, 1])):
        segments = sorted((tmp_path / name / "orders-0").glob("*.log"), reverse=True)
        assert [os.stat(path).st_nlink for path in segments] == links


def test_files_beside_the_log_are_never_shared(broker: InProcessBroker, tmp_path: Path) -> None:
    fill(broker, 10)
    snapshot(broker.broker, str(tmp_path / "copy"))
    shared = {path.suffix for path in (tmp_path / "copy").rglob("*") if links(path) > 1}
    assert shared == {".log"}


def links(path: Path) -> int:
    return os.stat(path).st_nlink if path.is_file() else 1


def test_a_topic_deleted_and_created_again_since_the_instant_is_the_old_one(
    broker: InProcessBroker, tmp_path: Path
) -> None:
    log = fill(broker, 10)
    instant = noted(broker.broker)
    renamed = f"{log.directory}.{instant_id(instant)}-delete"
    os.rename(log.directory, renamed)
    shutil.copytree(renamed, log.directory)
    (Path(log.directory) / "partition.metadata").write_text(
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg"
    )
    for path in Path(log.directory).glob("*.log"):
        path.write_bytes(b"")
    Creation(RealDisk(), str(tmp_path / "copy"), SnapshotOptions()).run(instant)
    assert end_of(tmp_path / "copy") == 10
    shutil.rmtree(log.directory)
    os.rename(renamed, log.directory)


def instant_id(instant: Instant) -> str:
    [orders] = [log for log in instant.directories[0].logs if log.topic == "orders"]
    return orders.topic_id.hex()


def test_a_log_that_was_truncated_since_the_instant_is_refused(
    broker: InProcessBroker, tmp_path: Path
) -> None:
    log = fill(broker, 10)
    instant = noted(broker.broker)
    log.truncate_to(1, 0)
    with pytest.raises(
        UnusableSnapshot, match=r"orders-0 was truncated.* create the snapshot again"
    ):
        Creation(RealDisk(), str(tmp_path / "copy"), SnapshotOptions()).run(instant)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_node_with_an_offline_log_is_refused(broker: InProcessBroker) -> None:
    broker.broker.directories[0].offline["orders", 0] = "a bad batch"
    with pytest.raises(Unavailable, match="orders-0 is offline: a bad batch"):
        noted(broker.broker)
    broker.broker.directories[0].offline.clear()


def test_a_name_that_is_taken_is_refused(broker: InProcessBroker, tmp_path: Path) -> None:
    snapshot(broker.broker, str(tmp_path / "copy"))
    with pytest.raises(UnusableSnapshot, match="copy exists"):
        snapshot(broker.broker, str(tmp_path / "copy"))
    with pytest.raises(UnusableSnapshot, match="missing does not exist"):
        snapshot(broker.broker, str(tmp_path / "missing" / "copy"))


def test_a_target_among_the_logs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableSnapshot, match="where only logs may be"):
        take(RealDisk(), [f"{tmp_path}/data/"], f"{tmp_path}/data/copy", SnapshotOptions())


@pytest.mark.parametrize("is_running", [True, False])
def test_a_node_with_several_directories_has_as_many_in_its_snapshot(
    is_running: bool, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    data = f"{tmp_path}/a,{tmp_path}/b"
    broker = InProcessBroker(data, ManualClock())
    for topic in ("orders", "facts", "events"):
        broker.create(topic, internal_segment_bytes=SEGMENT_BYTES)
        fill(broker, 10, topic)
    if is_running:
        snapshot(broker.broker, str(tmp_path / "copy"))
    broker.stop()
    if not is_running:
        take(RealDisk(), data.split(","), str(tmp_path / "copy"), SnapshotOptions())
        with pytest.raises(UnusableSnapshot, match="no metadata log"):
            take(RealDisk(), [f"{tmp_path}/b"], str(tmp_path / "other"), SnapshotOptions())
    copied = InProcessBroker(f"{tmp_path}/copy/0,{tmp_path}/copy/1", ManualClock())
    for topic in ("orders", "facts", "events"):
        assert copied.partition(topic).log.end_offset == 10
    copied.stop()
    [found] = snapshots_in(RealDisk(), str(tmp_path / "copy"))
    assert found.manifest.directories == 2
    broken = list(problems(RealDisk(), found))
    # The node has written to its metadata log since.
    assert [line for line in broken if "__cluster_metadata" not in line] == []


def test_an_interrupted_snapshot_is_recognised_and_replaced(
    broker: InProcessBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(BaseException):
        pass

    def interrupted(*_: object) -> None:
        raise Interrupted

    fill(broker, 10)
    with monkeypatch.context() as patched:
        patched.setattr(RealDisk, "sync_all", interrupted)
        patched.setattr(TargetDirectory, "discard", TargetDirectory._release)
        with pytest.raises(Interrupted):
            snapshot(broker.broker, str(tmp_path / "copy"))
    with pytest.raises(UnusableDirectory, match="is an incomplete snapshot"):
        InProcessBroker(tmp_path / "copy.incomplete", ManualClock())
    with pytest.raises(UnusableSnapshot, match="is no snapshot"):
        read_manifest(RealDisk(), str(tmp_path / "copy"))
    snapshot(broker.broker, str(tmp_path / "copy"))
    assert not (tmp_path / "copy.incomplete").exists()
    assert end_of(tmp_path / "copy") == 10


def test_a_directory_without_a_clean_stop_is_refused(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path / "data", ManualClock())
    with pytest.raises(UnusableSnapshot, match="in use"):
        take(RealDisk(), [str(tmp_path / "data")], str(tmp_path / "copy"), SnapshotOptions())
    broker.broker.abort()
    with pytest.raises(UnusableSnapshot, match="not closed cleanly: start its node once"):
        take(RealDisk(), [str(tmp_path / "data")], str(tmp_path / "copy"), SnapshotOptions())
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnusableSnapshot, match="no log directory"):
        take(RealDisk(), [f"{tmp_path}/empty"], str(tmp_path / "copy"), SnapshotOptions())
