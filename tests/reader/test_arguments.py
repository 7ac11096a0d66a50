"""Arguments of a reading that mean nothing are refused before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reader.contradictory_batches import WHOLE_BATCH
from tests.reader.memory_files import MemoryFiles
from wirekafka.reader import Log, ReaderError, Split
from wirekafka.reader.directory_source import DirectorySource


@pytest.fixture
def log(tmp_path: Path) -> Log:
    files = MemoryFiles(tmp_path)
    files.files[f"{tmp_path}/t-0/{0:020d}.log"] = WHOLE_BATCH
    return Log(DirectorySource(files, [files.root], reads_uncommitted_tail=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["vaule"]}, "no column vaule"),
        ({"columns": []}, "no column is chosen"),
        ({"isolation": "commited"}, "isolation='commited': read_committed or read_uncommitted"),
        ({"on_error": "ignore"}, "on_error='ignore': raise or skip"),
        ({"max_rows": 0}, "max_rows=0: at least 1"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(
    log: Log, arguments: dict[str, object], message: str
) -> None:
    assert [batch.num_rows for batch in log.batches("t")] == [2]
    with pytest.raises(ValueError, match=message):
        log.batches("t", **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        log.read(Split("t", 0, 0, 2), **arguments)  # type: ignore[arg-type]


def test_a_bound_that_is_one_offset_for_all_partitions_is_refused(log: Log) -> None:
    with pytest.raises(ReaderError, match="neither offsets by partition"):
        log.batches("t", start=5)  # type: ignore[arg-type]
