"""Damaged files: the error names the place, or the log ends; no record is ever wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.reader.generated_log import NOW_MS, TOPIC, GeneratedLog, Row
from tests.reader.memory_files import MemoryFiles
from tests.reader.rows_read import each_row
from tests.repetitions import repetitions
from wirekafka.codec.batch import batches
from wirekafka.errors import KafkaError
from wirekafka.reader import DamagedLog, DataLost, Log, ReaderError
from wirekafka.reader.directory_source import DirectorySource

CASES = repetitions("WIREKAFKA_DAMAGED_FILES", usual=120, thorough=2_000)
LOGS = 20


@pytest.mark.parametrize("number", range(LOGS))
@pytest.mark.timeout(300)
def test_no_record_of_a_damaged_log_is_wrong(tmp_path: Path, number: int) -> None:
    generated = _untiered(tmp_path, number)
    expected, decided = generated.committed_rows(), generated.decided_rows()
    whole = MemoryFiles(generated.root)
    names = sorted(name for name in whole.files if name.endswith((".log", ".index")))
    for case in range(CASES // LOGS):
        rng = random.Random(f"{number} {case}")
        files = MemoryFiles(generated.root)
        name = rng.choice(names)
        files.files[name] = rng.choice(DAMAGES)(rng, files.files[name])
        found = _check(files, expected, name, case)
        _check_skipping(files, found, decided, f"case {case}: {name}")


@pytest.mark.parametrize("number", range(LOGS))
def test_damaged_side_files_raise_no_other_errors(tmp_path: Path, number: int) -> None:
    generated = _untiered(tmp_path, number)
    names = sorted(
        name for name in MemoryFiles(generated.root).files if not name.endswith((".log", ".index"))
    )
    for case in range(CASES // LOGS):
        rng = random.Random(f"side {number} {case}")
        files = MemoryFiles(generated.root)
        name = rng.choice(names)
        files.files[name] = rng.choice(DAMAGES)(rng, files.files[name])
        uses: list[Callable[[Log], object]] = [
            lambda log: list(log.batches(TOPIC)),
            lambda log: log.offset_for_time(TOPIC, 0, NOW_MS + 5),
            lambda log: log.splits(TOPIC, 0, *log.offsets(TOPIC, 0)),
            lambda log: log.splits(TOPIC, 0, 0, 1 << 40, target_bytes=1),
        ]
        for use in uses:
            with suppress(ReaderError), Log(DirectorySource(files, [files.root])) as log:
                use(log)


def _untiered(root: Path, number: int) -> GeneratedLog:
    seed = number * 1_000
    while True:
        generated = GeneratedLog(root / str(seed), seed, operations=40)
        if not generated.is_tiered:
            break
        seed += 1
    generated.checkpoint()
    generated.close()
    return generated


def _check(files: MemoryFiles, expected: list[Row], name: str, case: int) -> set[int]:
    """Check the rows up to the first problem; returns their offsets."""
    found, problem = _read(files, "raise")
    offsets = {row.offset for row in found}
    place = f"case {case}: {name}"
    if name.endswith(".log") and _is_whole(files.files[name]):
        # Cut between two batches, it is like the segment of a log that was compacted.
        expected = [row for row in expected if row.offset in offsets]
    assert found == expected[: len(found)], place
    if name.endswith(".index"):
        assert problem is None and len(found) == len(expected), place
    if isinstance(problem, DamagedLog):
        assert problem.file and problem.position >= 0, place
    return offsets


def _check_skipping(files: MemoryFiles, found: set[int], decided: list[Row], place: str) -> None:
    skipped, problem = _read(files, "skip")
    assert problem is None, place
    # Where the records of an open transaction are damaged, nothing shows that it was begun.
    by_offset = {row.offset: row for row in decided}
    assert all(by_offset.get(row.offset) == row for row in skipped), place
    offsets = [row.offset for row in skipped]
    assert offsets == sorted(set(offsets)), place
    assert found <= set(offsets), place


def _read(files: MemoryFiles, on_error: str) -> tuple[list[Row], Exception | None]:
    found: list[Row] = []
    root = files.root
    try:
        with Log(DirectorySource(files, [root])) as log:
            for row in each_row(log.batches(TOPIC, headers=True, on_error=on_error)):  # type: ignore[arg-type]
                found.append(row)
    except (DamagedLog, DataLost) as error:
        return found, error
    return found, None


def _is_whole(data: bytes) -> bool:
    """Whether a file consists of whole batches."""
    try:
        return sum(header.size_bytes for _, header in batches(data)) == len(data)
    except KafkaError:
        return False


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 3, 20])):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _flip_header(rng: random.Random, data: bytes) -> bytes:
    """A bit of the first bytes of a batch, which no checksum covers."""
    starts = [0]
    while starts[-1] + 61 < len(data):
        size = int.from_bytes(data[starts[-1] + 8 : starts[-1] + 12]) + 12
        if not 61 <= size <= len(data) - starts[-1]:
            break
        starts.append(starts[-1] + size)
    changed = bytearray(data)
    at = rng.choice(starts) + rng.randrange(23)
    if at < len(changed):
        changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _zero_tail(rng: random.Random, data: bytes) -> bytes:
    kept = _cut(rng, data)
    return kept + bytes(len(data) - len(kept))


def _reserve(rng: random.Random, data: bytes) -> bytes:
    return data + bytes(rng.randrange(1, 5_000))


def _drop_middle(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.randrange(100) :]


DAMAGES: list[Callable[[random.Random, bytes], bytes]] = [
    _flip,
    _flip_header,
    _cut,
    _zero_tail,
    _reserve,
    _drop_middle,
]
