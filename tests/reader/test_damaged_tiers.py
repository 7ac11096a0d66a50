"""Objects of a tier that are damaged or deleted: reported with name and position, or left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reader.generated_log import TOPIC, GeneratedLog, Row
from tests.reader.rows_read import each_row
from wirekafka.reader import DamagedLog, DataLost, Log, ReaderError
from wirekafka.reader.tier_source import TierSource
from wirekafka.tiered.local_layout import LocalLayout


@pytest.fixture(params=["files", "chunks"])
def generated(request: pytest.FixtureRequest, tmp_path: Path) -> GeneratedLog:
    """A log with several segments in a store, in either layout."""
    for seed in range(200):
        found = GeneratedLog(tmp_path / str(seed), seed, operations=40)
        is_wanted = isinstance(found.layout, LocalLayout) == (request.param == "files")
        if found.is_tiered and is_wanted and len(logs_of(found)) >= 3:
            found.close()
            return found
        found.close()
    raise AssertionError("no seed has three segments in a store")


def logs_of(generated: GeneratedLog) -> list[str]:
    """The names of the log objects, oldest first."""
    return sorted(key for key in generated.store.objects if key.endswith(".log"))


def read(log: Log) -> tuple[list[Row], ReaderError | None]:
    """The rows up to the first problem."""
    found: list[Row] = []
    try:
        for row in each_row(log.batches(TOPIC, headers=True, isolation="read_uncommitted")):
            found.append(row)
    except ReaderError as error:
        return found, error
    return found, None


def test_a_damaged_object_is_reported_with_its_name_after_the_rows_in_front(
    generated: GeneratedLog,
) -> None:
    with Log(TierSource(generated.store)) as log:
        whole, problem = read(log)
        assert problem is None
        damaged = logs_of(generated)[1]
        data = bytearray(generated.store.objects[damaged])
        data[-1] ^= 1
        generated.store.objects[damaged] = bytes(data)
        found, problem = read(log)
    assert isinstance(problem, DamagedLog) and problem.file == damaged
    assert problem.position >= 0
    assert 0 < len(found) < len(whole) and found == whole[: len(found)]


def test_an_object_that_is_deleted_while_it_is_read_is_a_loss_of_its_offsets(
    generated: GeneratedLog,
) -> None:
    deleted = logs_of(generated)[1]
    start_offset = int(deleted.rpartition("/")[2][:20])
    with Log(TierSource(generated.store)) as log:
        rows = log.batches(TOPIC, isolation="read_uncommitted")
        del generated.store.objects[deleted]
        with pytest.raises(DataLost, match="the object has been deleted") as raised:
            list(rows)
    assert raised.value.log == deleted
    assert raised.value.start_offset == start_offset < raised.value.end_offset
