"""Logs of a killed broker are recovered in worker processes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.log.batches import NOW_MS, append, batch, end_transaction, from_producer, read_all
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.directories import recovery_job
from wirekafka.log.directories.log_directory import LogDirectory, NewLog
from wirekafka.log.directories.recovery_job import RecoveryJob, afterwards
from wirekafka.log.directories.recovery_progress import RecoveryProgress
from wirekafka.log.files import RealDisk
from wirekafka.log.log import Log
from wirekafka.log.recovery import Opening
from wirekafka.server.background import recovery_pool

CONFIG = TopicConfig(segment_bytes=4000, index_interval_bytes=300)
RECOVER = partial(recovery_pool.recover, processes=2)


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five logs of a killed process: several segments, two producers, an aborted transaction."""
    monkeypatch.setattr(recovery_job, "_LARGE_BYTES", 1)
    monkeypatch.setattr(recovery_job, "_WORTH_PROCESSES_BYTES", 1)
    path = tmp_path / "left"
    directory = LogDirectory(RealDisk(), str(path))
    directory.load(lambda _: CONFIG, NOW_MS)
    for partition in range(5):
        new = NewLog(topic="t", topic_id=bytes(16), partition=partition, config=CONFIG)
        log = directory.create(new, NOW_MS)
        for number in range(40 * (partition + 1)):
            append(log, from_producer(1, number), epoch=number // 30)
            append(log, batch(b"v" * 50), epoch=number // 30)
        append(log, from_producer(2, 0, transactional=True), epoch=9)
        end_transaction(log, 2, commit=False)
    directory.release()
    return path


def opened(path: Path, *recover: object) -> LogDirectory:
    directory = LogDirectory(RealDisk(), str(path))
    directory.load(lambda _: CONFIG, NOW_MS, *recover)  # type: ignore[arg-type]
    return directory


def state(log: Log) -> dict[str, object]:
    return {
        "offsets": (log.start_offset, log.end_offset, log.recovery_point),
        "batches": read_all(log),
        "epochs": log.epochs.entries,
        "producers": log.producers.encode_snapshot(),
        "aborted": log.aborted_transactions(0, log.end_offset),
        "indexes": [
            [index.pair(n) for n in range(len(index))]
            for segment in log.segments
            for index in (segment.index, segment.time_index)
        ],
    }


def test_logs_are_the_same_as_when_the_broker_recovers_them_itself(
    left: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = left.parent / "copy"
    shutil.copytree(left, copy)
    caplog.set_level("INFO")
    with_processes, alone = opened(left, RECOVER), opened(copy)
    assert len(alone.logs) == 5
    assert {key: state(log) for key, log in with_processes.logs.items()} == {
        key: state(log) for key, log in alone.logs.items()
    }
    assert "of 5 logs" in caplog.text
    for directory in (with_processes, alone):
        directory.release()


def test_logs_recovered_in_another_process_do_not_count_as_synced(left: Path) -> None:
    directory = opened(left, RECOVER)
    log = directory.logs["t", 0]
    assert log.recovery_point == 0 < log.end_offset
    flush = log.begin_flush()
    assert flush is not None and flush.end_offset == log.end_offset
    directory.release()


def test_a_torn_tail_is_cut_there_and_a_bad_batch_takes_its_log_offline(left: Path) -> None:
    torn = sorted((left / "t-1").glob("*.log"))[-1]
    torn.write_bytes(torn.read_bytes() + bytes(100))
    bad = sorted((left / "t-2").glob("*.log"))[0]
    data = bytearray(bad.read_bytes())
    data[65] ^= 1
    bad.write_bytes(data)
    directory = opened(left, RECOVER)
    assert sorted(directory.logs) == [("t", 0), ("t", 1), ("t", 3), ("t", 4)]
    assert "checksum mismatch at position 0" in directory.offline["t", 2]
    assert directory.logs["t", 1].segments.active.size_bytes == torn.stat().st_size
    directory.release()


class Noted(RecoveryProgress):
    """Keeps what was reported: how many logs, and how many segments by thread, are left."""

    def __init__(self) -> None:
        super().__init__()
        self.logs_left: list[int] = []
        self.segments_left: dict[int, list[int]] = {}

    def begin(self, logs: int) -> None:
        super().begin(logs)
        self.logs_left.append(logs)

    def opened(self) -> None:
        super().opened()
        self.logs_left.append(self.logs)

    def scanning(self, thread: int) -> Callable[[int], None]:
        super().scanning(thread)
        return self.segments_left.setdefault(thread, []).append


@pytest.mark.parametrize("recover", [RECOVER, None], ids=["processes", "alone"])
def test_logs_and_segments_are_counted_down(left: Path, recover: object) -> None:
    segments = {path.name: len(list(path.glob("*.log"))) for path in left.glob("t-*")}
    directory = LogDirectory(RealDisk(), str(left))
    noted = directory.progress = Noted()
    directory.load(lambda _: CONFIG, NOW_MS, recover)  # type: ignore[arg-type]
    assert noted.logs_left == [5, 4, 3, 2, 1, 0]
    reported = [each for counts in noted.segments_left.values() for each in counts]
    for count in segments.values():
        assert count > 1
        for number in range(count + 1):
            reported.remove(number)  # Raises if it was not reported.
    # Where a process has ended, it says once more that nothing is left.
    assert not any(reported) and all(
        counts[-1] == 0 for counts in noted.segments_left.values() if counts
    )
    directory.release()


def test_without_worker_processes_the_broker_recovers_by_itself(
    left: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recovery_pool.sys, "executable", shutil.which("false"))
    directory = opened(left, RECOVER)
    assert len(directory.logs) == 5 and not directory.offline
    assert "The other logs are recovered in the broker's process" in caplog.text
    directory.release()


def test_with_one_process_the_broker_recovers_by_itself(left: Path) -> None:
    jobs = [
        RecoveryJob(
            directory=str(left / "t-0"),
            config=CONFIG,
            opening=Opening(is_clean=False, now_ms=NOW_MS),
        )
    ]
    before = sorted(path.name for path in (left / "t-0").iterdir())
    assert recovery_pool.recover(jobs * 3, RecoveryProgress(), processes=1) == set()
    assert sorted(path.name for path in (left / "t-0").iterdir()) == before


def test_after_a_clean_stop_no_process_is_started(left: Path) -> None:
    directory = opened(left)
    directory.close_cleanly({}, 1)
    directory = opened(left, lambda jobs, progress: pytest.fail("there is nothing to recover"))
    directory.release()


def test_only_bytes_above_the_recovery_point_count(left: Path) -> None:
    segments = sorted((left / "t-4").glob("*.log"))
    second = int(segments[1].stem)

    def counted(recovery_point: int) -> int:
        opening = Opening(is_clean=False, recovery_point=recovery_point)
        job = RecoveryJob(directory=str(left / "t-4"), config=CONFIG, opening=opening)
        return job.to_scan_bytes(RealDisk())

    sizes = [path.stat().st_size for path in segments]
    assert counted(0) == counted(second) == sum(sizes)
    assert counted(second + 1) == sum(sizes[1:])


def test_an_encoded_job_is_decoded_to_an_equal_job() -> None:
    opening = Opening(is_clean=False, recovery_point=7, start_offset=3, now_ms=NOW_MS)
    config = TopicConfig(cleanup_policy=("compact", "delete"), segment_bytes=123_456)
    job = RecoveryJob(directory="/data/t-0", config=config, opening=opening)
    assert RecoveryJob.decode(job.encode()) == job
    assert afterwards(opening).is_clean and not afterwards(opening).is_synced


def test_a_worker_ends_with_its_input_even_during_a_job(left: Path) -> None:
    opening = Opening(is_clean=False, now_ms=NOW_MS)
    job = RecoveryJob(directory=str(left / "t-0"), config=CONFIG, opening=opening)
    done = subprocess.run(
        [sys.executable, "-m", "wirekafka.server.background.recovery_worker"],
        check=True,
        timeout=60,
        input=job.encode().encode() + b"\n",
        capture_output=True,
    )
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each for each in messages if "segments" not in each] in ([], [{"done": job.directory}])
