"""What is read of logs made from seeds is what a client reads of them, in whatever parts."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tests.reader.generated_log import TOPIC, GeneratedLog, Row
from tests.reader.rows_read import rows_of
from tests.repetitions import seeds
from wirekafka.log.files import RealDisk
from wirekafka.reader import Log, Timestamp
from wirekafka.reader.directory_source import DirectorySource
from wirekafka.reader.joined_source import JoinedSource
from wirekafka.reader.tier_source import TierSource

SEEDS = range(seeds("WIREKAFKA_READER_SEEDS", usual=12, thorough=300))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_seed_is_read_as_a_client_reads_it(tmp_path: Path, seed: int) -> None:
    generated = GeneratedLog(tmp_path, seed)
    generated.checkpoint()
    if generated.random.random() < 0.5:
        generated.close()
    local = DirectorySource(RealDisk(), [str(tmp_path)])
    with Log(_source(generated, local)) as log:
        committed = generated.committed_rows()
        _check_whole(generated, log, committed)
        _check_parts(generated, log, committed)
        _check_splits(generated, log, committed)
        _check_times(generated, log)
    if generated.is_tiered and generated.store.objects:
        _check_tier_alone(generated, committed)


def _source(generated: GeneratedLog, local: DirectorySource) -> DirectorySource | JoinedSource:
    if not generated.is_tiered or not generated.store.objects:
        return local
    return JoinedSource(local, TierSource(generated.store))


def _check_whole(generated: GeneratedLog, log: Log, committed: list[Row]) -> None:
    start = generated.log_start
    assert log.offsets(TOPIC, 0) == (start, max(generated.stable_end(), start))
    everything = log.offsets(TOPIC, 0, isolation="read_uncommitted")
    assert everything == (start, generated.high_watermark)
    assert rows_of(log.batches(TOPIC, headers=True)) == committed
    found = rows_of(log.batches(TOPIC, headers=True, isolation="read_uncommitted", max_rows=100))
    assert found == generated.rows()


def _check_parts(generated: GeneratedLog, log: Log, committed: list[Row]) -> None:
    for _ in range(3):
        bounds = [generated.random.randint(*log.offsets(TOPIC, 0)) for _ in "se"]
        start, end = min(bounds), max(bounds)
        found = rows_of(log.batches(TOPIC, [0], start={0: start}, end={0: end}, headers=True))
        assert found == [row for row in committed if start <= row.offset < end]


def _check_splits(generated: GeneratedLog, log: Log, committed: list[Row]) -> None:
    target_bytes = generated.random.choice([1, 1_000, 100_000])
    splits = log.splits(TOPIC, 0, *log.offsets(TOPIC, 0), target_bytes=target_bytes)
    splits = pickle.loads(pickle.dumps(splits))
    parts = [rows_of(log.read(split, headers=True)) for split in splits]
    assert [row for part in parts for row in part] == committed
    for split, part in zip(splits, parts, strict=True):
        assert all(split.start_offset <= row.offset < split.end_offset for row in part)


def _check_times(generated: GeneratedLog, log: Log) -> None:
    rows = generated.rows()
    for row in generated.random.sample(rows, min(3, len(rows))):
        found = log.offset_for_time(TOPIC, 0, row.timestamp_ms)
        # A marker may be the first, or a record after the first that has the time.
        assert found is not None and found <= row.offset
        late = next(each for each in rows if each.timestamp_ms >= row.timestamp_ms)
        assert found <= late.offset
        assert all(each.timestamp_ms < row.timestamp_ms for each in rows if each.offset < found)
        chosen = rows_of(log.batches(TOPIC, start=Timestamp(row.timestamp_ms), headers=True))
        assert chosen == [each for each in generated.committed_rows() if each.offset >= found]
    late_ms = max((row.timestamp_ms for row in rows), default=0) + 1_000_000
    assert log.offset_for_time(TOPIC, 0, late_ms) is None


def _check_tier_alone(generated: GeneratedLog, committed: list[Row]) -> None:
    with Log(TierSource(generated.store)) as log:
        assert log.topics() == [TOPIC] and log.partitions(TOPIC) == [0]
        offsets = log.offsets(TOPIC, 0)
        assert offsets.end_offset <= generated.log.end_offset
        found = rows_of(log.batches(TOPIC, headers=True))
        assert found == [row for row in committed if row.offset < offsets.end_offset]
