"""A process that appends to a real disk is killed repeatedly; acknowledged records stay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.log.batches import NOW_MS
from tests.log.cleaning import records
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.log.files import RealDisk

KILLS = 12
CONFIG = TopicConfig(segment_bytes=20_000, index_interval_bytes=500)

WRITER = """
import sys
from tests.log.batches import NOW_MS, append, from_producer
from tests.log.test_kill import CONFIG
from wirekafka.log.files import RealDisk
from wirekafka.log.directories.log_directory import LogDirectory, NewLog

directory = LogDirectory(RealDisk(), sys.argv[1])
directory.load(lambda topic: CONFIG, NOW_MS)
log = directory.logs.get(("topic", 0)) or directory.create(
    NewLog(topic="topic", topic_id=bytes(16), partition=0, config=CONFIG), NOW_MS
)
sequence = int(sys.argv[2])
while True:
    append(log, from_producer(1, sequence))
    sequence += 1
    print(sequence, flush=True)
"""


@pytest.mark.long
def test_a_kill_at_any_moment_loses_no_acknowledged_record_and_duplicates_none(
    tmp_path: Path,
) -> None:
    random = Random(7)
    acknowledged = 0
    for _ in range(KILLS):
        # The next process repeats the last acknowledged batch, which must be a duplicate.
        again = max(acknowledged - 1, 0)
        command = [sys.executable, "-c", WRITER, str(tmp_path / "data"), str(again)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(random.randrange(1, 400)):
                assert process.stdout.readline(), "the writer stopped by itself"
            process.kill()
            reported = process.stdout.read().splitlines()
        # A line may have been cut by the kill: only whole numbers ahead of the known ones count.
        stored = stored_sequences(tmp_path / "data")
        assert stored == list(range(len(stored)))
        assert len(stored) >= acknowledged
        assert all(int(line) <= len(stored) for line in reported[:-1])
        acknowledged = len(stored)
    assert acknowledged > KILLS


def stored_sequences(path: Path) -> list[int]:
    """The sequence numbers in the log, after recovery."""
    directory = LogDirectory(RealDisk(), str(path))
    directory.load(lambda _: CONFIG, NOW_MS)
    assert not directory.offline
    stored = [record.value for _, record in records(directory.logs["topic", 0])]
    directory.release()
    # The only record of each batch has the value b"1/<sequence>".
    return [int(value.removeprefix(b"1/")) for value in stored if value is not None]
