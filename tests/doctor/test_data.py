"""The log directories of a stopped wirekafka node: without a finding, and with planted faults."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import wirekafka
from tests.doctor.planted import Planted, now_ms
from tests.doctor.planted_data import IN_DIRECTORIES
from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from wirekafka.client.client import CliError
from wirekafka.doctor.cluster import disks
from wirekafka.doctor.data.examination import examine_data
from wirekafka.doctor.data.facts import DirectoryFiles, NodeFiles
from wirekafka.doctor.data.identities import check_state
from wirekafka.doctor.data.volumes import check_volumes
from wirekafka.doctor.finding import Finding, Severity
from wirekafka.log.directories.log_directory import METADATA_LOG
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.protocol.records.metadata import FeatureLevelRecord


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The two log directories of a node that was stopped."""
    directory = tmp_path_factory.mktemp("node")
    paths = [directory / name for name in ("first", "second")]
    broker = InProcessBroker(directory, ManualClock(), log_dirs=",".join(map(str, paths)))
    broker.create("kept")
    leader = broker.partition("kept").leader
    assert leader is not None
    for _ in range(2):
        leader.append_from_client(batch(), -1, now_ms())
    broker.stop()
    return paths


@pytest.fixture
def paths(node: Sequence[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A copy of the directories of the node."""
    monkeypatch.setattr(disks, "NEARLY_FULL", 0)  # The disk of the tests may be.
    copies = [tmp_path / path.name for path in node]
    for path, copy in zip(node, copies, strict=True):
        shutil.copytree(path, copy)
    return copies


def examined(paths: Sequence[Path]) -> Sequence[Finding]:
    return examine_data([str(path) for path in paths], deep=True)


def test_a_stopped_node_has_no_findings_and_stays_as_it_is(paths: Sequence[Path]) -> None:
    before = state_of(paths)
    assert examined(paths) == []
    assert state_of(paths) == before


@pytest.mark.parametrize("plant", IN_DIRECTORIES, ids=lambda each: each.__name__)
def test_a_planted_fault_is_found(
    paths: Sequence[Path], plant: Callable[[Sequence[Path]], Planted]
) -> None:
    planted = plant(paths)
    [found] = [each for each in examined(paths) if each.check == planted.check]
    assert planted.subject in found.subject
    assert planted.advice in found.advice


def test_a_node_that_runs_is_in_use_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "NEARLY_FULL", 0)
    with wirekafka.Broker(tmp_path / "data") as broker:
        found = examined([tmp_path / "data"])
        assert [each.check for each in found] == ["not-checked", "in-use"]
        broker.create_topic("later")


def test_a_directory_of_anything_else_is_no_log_directory(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    [found] = examined([tmp_path])
    assert (found.check, found.severity) == ("not-a-log-directory", Severity.ERROR)


def test_metadata_that_cannot_be_decoded_is_reported(paths: Sequence[Path]) -> None:
    [file] = (paths[0] / "__cluster_metadata-0").glob("*.log")
    content = file.read_bytes()
    file.write_bytes(content.replace(b"\x01\x0c\x00\x11metadata", b"\x01\x7f\x00\x11metadata", 1))
    assert content != file.read_bytes()
    assert "metadata-unreadable" in {each.check for each in examined(paths)}


def test_metadata_of_a_newer_version_is_reported() -> None:
    image = MetadataImage()
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=99))
    [found] = check_state(NodeFiles(directories=[], image=image))
    assert found.check == "other-version"
    assert "metadata.version 99" in found.problem


@pytest.mark.parametrize(
    ("free_bytes", "severity"), [(40, Severity.ERROR), (100, Severity.WARNING), (200, None)]
)
def test_a_volume_that_is_nearly_full_is_reported(
    free_bytes: int, severity: Severity | None
) -> None:
    files = DirectoryFiles(path="/data", free_bytes=free_bytes, total_bytes=1000)
    found = list(check_volumes(NodeFiles(directories=[files])))
    assert [each.severity for each in found] == ([severity] if severity else [])


_FIRST_LOG = "00000000000000000000.log"


@pytest.mark.parametrize(
    ("place", "check"),
    [
        ("meta.properties", "no-identity"),
        ("recovery-point-offset-checkpoint", "bad-checkpoint"),
        ("partition.metadata", "no-topic-id"),
        (_FIRST_LOG, "metadata-unreadable"),
        (".lock", None),
    ],
)
@pytest.mark.parametrize("kind", ["fifo", "device", "huge", "loop"])
def test_what_is_no_file_of_kafka_is_neither_read_nor_waited_for(
    paths: Sequence[Path], place: str, check: str | None, kind: str
) -> None:
    folders = {"partition.metadata": "kept-0", _FIRST_LOG: METADATA_LOG}
    [folder] = {path for path in paths if (path / "kept-0").exists()}
    if place == _FIRST_LOG:
        [folder] = {path for path in paths if (path / METADATA_LOG).exists()}
    file = folder / folders.get(place, "") / place
    file.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "loop":
        file.symlink_to(file.name)
    else:
        with file.open("wb") as opened:
            opened.truncate(1 << 40)
    if (place, kind) == (".lock", "loop"):
        with pytest.raises(CliError, match="symbolic links"):
            examine_data([str(path) for path in paths], deep=False)
        return
    found = {each.check for each in examine_data([str(path) for path in paths], deep=False)}
    assert check is None or check in found


def test_a_link_that_leads_to_itself_is_reported(paths: Sequence[Path]) -> None:
    (paths[0] / "kept-7").symlink_to("kept-7")
    [found] = [each for each in examined(paths) if each.check == "symbolic-link"]
    assert "kept-7" in found.subject


def test_reading_every_batch_keeps_a_lock_file_and_what_it_links_to(
    paths: Sequence[Path], tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (paths[0] / ".lock").symlink_to(precious)
    (paths[1] / ".lock").write_text("")
    examined(paths)
    assert precious.read_text() == "kept"
    assert (paths[0] / ".lock").is_symlink() and (paths[1] / ".lock").exists()


def state_of(paths: Sequence[Path]) -> dict[Path, tuple[int, bytes | None]]:
    """Every file's time and content."""
    return {
        each: (each.stat().st_mtime_ns, each.read_bytes() if each.is_file() else None)
        for path in paths
        for each in path.rglob("*")
    }
