"""Random operations on a branch, on its origin and on snapshots of both, against plain copies."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.in_process import InProcessBroker, batch
from tests.log.batches import NOW_MS
from tests.log.cleaning import clean
from tests.log.recovered import described
from tests.manual_clock import ManualClock
from tests.repetitions import repetitions
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.append import Append
from wirekafka.log.files import RealDisk
from wirekafka.log.log import Log
from wirekafka.log.recovery import Opening
from wirekafka.server.snapshots.branch import branch
from wirekafka.server.snapshots.taking import take
from wirekafka.snapshot.creation import SnapshotOptions
from wirekafka.snapshot.manifest import UnusableSnapshot

OPERATIONS = repetitions("WIREKAFKA_BRANCH_OPERATIONS", usual=500, thorough=5_000)
SMALL = {"internal_segment_bytes": "3000", "index_interval_bytes": "300"}
CONFIGS = {
    "events": TopicConfig(segment_bytes=3000, index_interval_bytes=300),
    "facts": TopicConfig(segment_bytes=3000, index_interval_bytes=300, cleanup_policy=("compact",)),
}


class Copy:
    """The logs of a directory, changed by operations that depend on a seed and the logs alone."""

    def __init__(self, directory: Path):
        self.directory = directory
        self._disk = RealDisk()
        self.logs = {topic: self._open(topic, is_clean=True) for topic in CONFIGS}

    def _open(self, topic: str, *, is_clean: bool) -> Log:
        opening = Opening(is_clean=is_clean, now_ms=NOW_MS)
        return Log.open(self._disk, str(self.directory / f"{topic}-0"), CONFIGS[topic], opening)

    def apply(self, seed: int) -> None:
        random = Random(seed)
        topic = random.choice(list(self.logs))
        log = self.logs[topic]
        match random.choices(range(7), weights=(40, 10, 8, 8, 8, 6, 6))[0]:
            case 0:
                self._append(log, random)
            case 1:
                log.truncate_to(random.randint(log.start_offset, log.end_offset), NOW_MS)
            case 2:
                log.advance_start(random.randint(log.start_offset, log.end_offset))
                log.delete_old_segments(NOW_MS)
            case 3:
                log.roll(NOW_MS)
            case 4:
                log.delete_retired(1 << 62)
                if log.config.is_compacted:
                    clean(self._disk, log)
            case 5:
                log.close()
                log.flush()
                log.release()
                self.logs[topic] = self._open(topic, is_clean=True)
            case 6:  # After a kill: every index is rebuilt.
                log.release()
                for path in (self.directory / f"{topic}-0").glob("*.index"):
                    path.unlink()
                self.logs[topic] = self._open(topic, is_clean=False)

    def _append(self, log: Log, random: Random) -> None:
        for _ in range(random.randint(1, 12)):
            key = b"%d" % random.randint(0, 20)
            data = batch(random.randbytes(random.randint(10, 600)), key=key, timestamp=NOW_MS)
            log.append_as_leader(data, Append(leader_epoch=0, now_ms=NOW_MS))

    def close(self) -> None:
        for log in self.logs.values():
            log.close()
            log.release()

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.directory)): path.read_bytes()
            for topic in CONFIGS
            for path in sorted((self.directory / f"{topic}-0").iterdir())
        }


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[Path]:
    broker = InProcessBroker(tmp_path / "origin", ManualClock())
    broker.create("events", **SMALL)
    broker.create("facts", cleanup_policy="compact", **SMALL)
    for number in range(60):
        for topic in CONFIGS:
            broker.partition(topic).leader.append_from_client(
                batch(b"%d" % number * 200, key=b"%d" % (number % 9), timestamp=NOW_MS), 1, NOW_MS
            )
    broker.stop()
    yield tmp_path / "origin"


def test_branch_and_origin_equal_plain_copies_after_random_operations(
    origin: Path, tmp_path: Path
) -> None:
    branch(RealDisk(), [str(origin)], str(tmp_path / "branch"))
    take(RealDisk(), [str(origin)], str(tmp_path / "snapshot"), SnapshotOptions())
    snapshots = {"snapshot": tree(tmp_path / "snapshot")}
    pairs = []
    for name in ("origin", "branch"):
        shutil.copytree(tmp_path / name, tmp_path / f"plain-{name}")
        pairs.append((Copy(tmp_path / name), Copy(tmp_path / f"plain-{name}")))
    random = Random(39)
    for number in range(OPERATIONS):
        pair = random.choice(pairs)
        seed = random.randint(0, 1 << 30)
        for copy in pair:
            copy.apply(seed)
        for topic in CONFIGS:
            assert described(pair[0].logs[topic]) == described(pair[1].logs[topic]), number
        if number % 25 == 24:
            name = f"linked-{number}"
            link_sealed(pair[0], tmp_path / name)
            snapshots[name] = tree(tmp_path / name)
    for pair in pairs:
        for copy in pair:
            copy.close()
        assert pair[0].files() == pair[1].files()
    for name, expected in snapshots.items():
        assert tree(tmp_path / name) == expected, name


def test_a_node_whose_quorum_has_other_voters_is_not_branched(origin: Path, tmp_path: Path) -> None:
    state = origin / "__cluster_metadata-0" / "quorum-state"
    fields = json.loads(state.read_text())
    state.write_text(json.dumps(fields | {"currentVoters": [{"voterId": 1}, {"voterId": 2}]}))
    with pytest.raises(UnusableSnapshot, match=r"one of a cluster with the controllers \[1, 2\]"):
        branch(RealDisk(), [str(origin)], str(tmp_path / "branch"))
    assert os.listdir(tmp_path) == ["origin"]


def link_sealed(copy: Copy, target: Path) -> None:
    """Link what a snapshot links of a node that runs on."""
    for topic, log in copy.logs.items():
        (target / topic).mkdir(parents=True)
        for segment in log.segments[:-1]:
            path = Path(segment.file.path)
            (target / topic / path.name).hardlink_to(path)


def tree(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*.log")
        if path.is_file()
    }
