"""Share partitions acquire from the first batches of a read what they acquire from all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.in_process import batch
from wirekafka.codec.batch import Buffer, batches, with_prefix
from wirekafka.log.files import RealDisk
from wirekafka.log.slice import LogSlice, MemorySlice
from wirekafka.replication.share.acknowledgement import Acknowledgement, acknowledge
from wirekafka.replication.share.acquisition import Acquisition, FetchedBatches, acquire
from wirekafka.replication.share.limits import ShareLimits
from wirekafka.replication.share.partition import SharePartition

_STEPS = 60
_MAX_LOCKED = 30


class _SmallPieces(MemorySlice):
    """A slice that is read in pieces of 100 bytes, and counts them."""

    count = 0

    def pieces(self) -> Iterator[Buffer]:
        data = self.buffers()[0]
        for at in range(0, len(data), 100):
            self.count += 1
            yield data[at : at + 100]


def _log_with_gaps(random: Random) -> bytes:
    data, first = b"", 0
    for _ in range(40):
        size = random.randint(1, 6)
        data += b"".join(with_prefix(batch(*[b"v"] * size), first, 0))
        first += size + random.choice((0, 0, 0, 1, 25))
    return data


def _read_from(log: bytes, offset: int, random: Random) -> bytes:
    """The log from the batch with an offset on, cut anywhere, as a read with a limit is."""
    for position, header in batches(log):
        if offset < header.end_offset:
            rest = log[position:]
            return rest if random.random() < 0.5 else rest[: random.randint(100, len(rest))]
    return b""


@pytest.mark.parametrize("seed", range(60))
def test_as_much_is_read_as_decides_what_is_acquired(seed: int) -> None:
    random = Random(seed)
    log = _log_with_gaps(random)
    limits = ShareLimits(max_locked_records=_MAX_LOCKED)
    whole, in_pieces = SharePartition(limits), SharePartition(limits)
    for partition in (whole, in_pieces):
        partition.load(1, 0, ())
    acquired_before: list[tuple[int, int]] = []
    for now_ms in range(_STEPS):
        if random.random() < 0.5 and acquired_before:
            first, last = acquired_before.pop(random.randrange(len(acquired_before)))
            wanted = [Acknowledgement(first, last, [random.choice((1, 2, 2))])]
            for partition in (whole, in_pieces):
                partition.commit(acknowledge(partition, "member", wanted, now_ms))
        offset = whole.next_fetch_offset()
        assert in_pieces.next_fetch_offset() == offset
        data = _read_from(log, offset, random)
        request = Acquisition(
            "member",
            random.randint(1, 12),
            random.randint(1, 12),
            is_exact=random.random() < 0.3,
            fetch_offset=offset,
        )
        all_of_it = FetchedBatches(data)
        part = FetchedBatches.read(_SmallPieces(data), in_pieces, request.max_records)
        found = acquire(whole, all_of_it, request, now_ms)
        assert acquire(in_pieces, part, request, now_ms) == found
        assert all(run.first <= run.last for run in found)
        if found:
            first, last = found[0].first, found[-1].last
            assert bytes(part.slice(first, last)) == bytes(all_of_it.slice(first, last))
            acquired_before += [(run.first, run.last) for run in found]


def test_the_log_behind_the_acquired_records_is_not_read() -> None:
    log = b"".join(b"".join(with_prefix(batch(b"v", b"v"), at, 0)) for at in range(0, 2_000, 2))
    records = _SmallPieces(log)
    partition = SharePartition(ShareLimits())
    partition.load(1, 0, ())
    read = FetchedBatches.read(records, partition, 10)
    wanted = Acquisition("member", 10, 10)
    assert [tuple(run) for run in acquire(partition, read, wanted, 0)] == [(0, 9, 1)]
    assert records.count * 100 < len(log) / 50


def test_a_region_of_a_file_is_read_in_pieces(tmp_path: Path) -> None:
    content = bytes(range(256)) * 2_000
    (tmp_path / "log").write_bytes(content)
    file = RealDisk().open(str(tmp_path / "log"), len(content))
    pieces = list(LogSlice(file, 100, 300_000).pieces())
    file.close()
    assert b"".join(pieces) == content[100:300_100]
    assert [len(piece) for piece in pieces] == [131_072, 131_072, 37_856]
