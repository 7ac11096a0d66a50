"""wirekafka repair: its report of a corrupt log, and truncation, which needs --cut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.log.batches import NOW_MS, append, batch, read_all
from wirekafka.cli.main import main
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.directories.log_directory import LogDirectory, NewLog
from wirekafka.log.files import RealDisk

CONFIG = TopicConfig(segment_bytes=400)


def opened(path: Path) -> LogDirectory:
    directory = LogDirectory(RealDisk(), str(path))
    directory.load(lambda _: CONFIG, NOW_MS)
    return directory


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = opened(tmp_path)
    for topic in ("good", "bad"):
        log = directory.create(
            NewLog(topic=topic, topic_id=bytes(16), partition=0, config=CONFIG), NOW_MS
        )
        for number in range(20):
            append(log, batch(b"value%d" % number))
    directory.release()
    return tmp_path


def break_one(data: Path, at: int) -> Path:
    path = sorted((data / "bad-0").glob("*.log"))[1]
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    return path


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["repair", *words])
    return int(ended.value.code or 0)


def test_a_directory_without_bad_batches_is_reported_as_such(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(data)) == 0
    assert capsys.readouterr().out == "Every batch is whole\n"


def test_a_bad_batch_is_reported_and_nothing_is_changed(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = break_one(data, 70)
    before = {each: each.read_bytes() for each in data.rglob("*") if each.is_file()}
    assert run(str(data)) == 1
    output = capsys.readouterr().out
    assert output.startswith(f"bad-0: checksum mismatch at byte 0 of {path}, at offset 5; 14 whole")
    assert run(str(data), "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["end_offset"], found["readable_after"]) == (5, 14)
    assert {each: each.read_bytes() for each in data.rglob("*") if each.is_file()} == before
    assert ("bad", 0) in opened(data).offline


@pytest.mark.parametrize(("at", "end_offset"), [(100, 6), (152, 7)], ids=["records", "offset"])
def test_a_truncated_log_ends_before_the_bad_batch_and_is_served_again(
    data: Path, capsys: pytest.CaptureFixture[str], at: int, end_offset: int
) -> None:
    break_one(data, at)
    assert run(str(data), "--cut", "bad-0") == 0
    assert f"the log now ends at offset {end_offset}" in capsys.readouterr().out
    directory = opened(data)
    assert not directory.offline
    log = directory.logs["bad", 0]
    assert log.end_offset == len(read_all(log)) == end_offset
    assert append(log, batch(b"next")).base_offset == end_offset
    assert directory.logs["good", 0].end_offset == 20
    directory.release()
    assert run(str(data), "--cut", "bad-0") == 0
    assert "nothing was cut" in capsys.readouterr().out


def test_a_running_brokers_directory_and_unknown_logs_are_refused(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(data), "--cut", "none-0") == 1
    assert "has no log none-0" in capsys.readouterr().err
    directory = opened(data)
    assert run(str(data)) == 1
    assert "is in use" in capsys.readouterr().err
    directory.release()
