"""Apache Kafka's own DumpLogSegments reads every file of our logs without an error."""

from __future__ import annotations

import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.kafka_jars import JarsUnavailable, class_path, java, tools_jars
from tests.log.batches import NOW_MS, append, batch, end_transaction, from_producer
from wirekafka.codec.compression import Codec
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.files import RealDisk
from wirekafka.log.log import Log

TOOL = "org.apache.kafka.tools.DumpLogSegments"
CONFIG = TopicConfig(segment_bytes=5000, index_interval_bytes=300)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with everything in it, closed cleanly."""
    directory = tmp_path_factory.mktemp("log") / "topic-0"
    directory.mkdir()
    write_log(directory)
    return directory


@pytest.fixture(scope="module")
def dumped(directory: Path) -> str:
    """What the tool prints for all files."""
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    return dump(directory, suffixes, "--deep-iteration", "--print-data-log")


def dump(directory: Path, suffixes: tuple[str, ...], *options: str) -> str:
    """The tool's output for the files with these suffixes."""
    try:
        command = [java(), "-cp", class_path(tools_jars()), TOOL]
    except JarsUnavailable as missing:
        pytest.skip(str(missing))
    files = sorted(str(path) for path in directory.iterdir() if path.suffix in suffixes)
    done = subprocess.run(
        [*command, *options, "--files", ",".join(files)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_log(directory: Path) -> None:
    log = Log.create(RealDisk(), str(directory), CONFIG, NOW_MS)
    for number in range(60):
        append(log, from_producer(1, number), epoch=number // 25)
        append(log, from_producer(2, number, transactional=True), epoch=number // 25)
        if number % 4 == 3:
            end_transaction(log, 2, commit=number % 8 == 3)
        codec = Codec(number % 5)
        append(log, batch(b"a" * 50, b"b" * number, timestamp=NOW_MS + number, compression=codec))
    assert len(log.segments) > 3
    log.close()


def test_no_file_has_an_error(dumped: str) -> None:
    complaints = [
        line
        for line in dumped.splitlines()
        if re.search(r"mismatch|wrong|corrupt|non-consecutive|invalid|exception", line, re.I)
        and "isvalid: true" not in line
    ]
    assert complaints == []
    assert "isvalid: false" not in dumped


def test_every_batch_and_record_is_printed(dumped: str) -> None:
    batches = re.findall(r"^baseOffset: (\d+) lastOffset: (\d+)", dumped, re.M)
    ends = [(int(first), int(last) + 1) for first, last in batches]
    assert ends[0][0] == 0
    assert all(end == start for (_, end), (start, _) in pairwise(ends))
    assert ends[-1][1] == 60 * 2 + 15 + 60 * 2
    records = re.findall(r"^\| offset: (\d+)", dumped, re.M)
    assert [int(offset) for offset in records] == list(range(ends[-1][1]))


def test_indexes_transactions_and_producers_are_read(dumped: str) -> None:
    assert len(re.findall(r"^Dumping .*\.index$", dumped, re.M)) > 3
    assert len(re.findall(r"^offset: \d+ position: \d+", dumped, re.M)) > 10
    assert len(re.findall(r"^timestamp: \d+ offset: \d+", dumped, re.M)) > 10
    assert len(re.findall(r"producerId: 2 firstOffset: \d+", dumped)) == 7
    assert "producerId: 1 producerEpoch: 0" in dumped


def test_the_indexes_pass_kafkas_sanity_check(directory: Path) -> None:
    passed = dump(directory, (".index", ".timeindex"), "--index-sanity-check")
    indexes = [p for p in directory.iterdir() if p.suffix in (".index", ".timeindex")]
    assert passed.count("passed sanity check") == len(indexes) > 6
