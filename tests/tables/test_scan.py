"""Finding whole batches in a buffer: framing, checksums, damage and the places to go on."""

from __future__ import annotations

import pickle
from random import Random

import pytest

from tests.tables.generated import log_of
from wirekafka.codec.batch import batches
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.tables.scan import Batches, DamagedBatch, scan

ONE = encode_batch([Record(value=b"departed")])
THREE = encode_batch(
    [Record(timestamp=9, value=b"%d" % index) for index in range(3)],
    options=BatchOptions(
        base_offset=1,
        leader_epoch=4,
        producer_id=8,
        producer_epoch=2,
        base_sequence=6,
        is_transactional=True,
    ),
)
LOG = ONE + THREE


def test_each_batch_is_found_with_the_fields_of_its_header() -> None:
    for seed in range(10):
        log = log_of(Random(seed))
        found = scan(log)
        expected = list(batches(log))
        assert found["position"].tolist() == [at for at, _ in expected]
        assert found["end_offset"].tolist() == [header.end_offset for _, header in expected]
        assert found["size_bytes"].tolist() == [header.size_bytes for _, header in expected]
        for name in ("base_offset", "leader_epoch", "attributes", "base_timestamp", "count"):
            assert found[name].tolist() == [getattr(header, name) for _, header in expected]
        assert found.control.tolist() == [header.is_control for _, header in expected]
        assert [found.header(index) for index in range(len(found))] == [
            header for _, header in expected
        ]
        assert found.end == len(log)


def test_a_scan_may_begin_at_any_batch_and_select_some() -> None:
    found = scan(b"?" * 5 + LOG, 5 + len(ONE))
    assert len(found) == 1 and found.bytes_of(0) == THREE
    row = {name: found[name].item() for name in found.table.dtype.names}
    assert row == {
        "position": 5 + len(ONE),
        "size_bytes": len(THREE),
        "base_offset": 1,
        "end_offset": 4,
        "leader_epoch": 4,
        "magic": 2,
        "attributes": 0x10,
        "base_timestamp": 9,
        "max_timestamp": 9,
        "producer_id": 8,
        "producer_epoch": 2,
        "base_sequence": 6,
        "count": 3,
    }
    both = scan(LOG)
    assert both.transactional.tolist() == [False, True]
    only = both.where(both.transactional)
    assert only["base_offset"].tolist() == [1] and only.bytes_of(0) == THREE
    assert [both.index_at(position) for position in (0, 1, len(ONE), len(LOG))] == [0, 1, 1, 2]


def test_an_incomplete_batch_is_left_out_and_says_how_many_bytes_it_needs() -> None:
    for cut in range(len(ONE), len(LOG)):
        found = scan(LOG[:cut])
        assert (len(found), found.end) == (1, len(ONE))
        left = cut - len(ONE)
        expected = 0 if not left else 61 if left < 21 else len(THREE)
        assert found.wanted_bytes == expected
    nothing = scan(b"")
    assert (len(nothing), nothing.end, nothing.wanted_bytes) == (0, 0, 0)


def test_damage_is_reported_once_the_batches_before_it_are_found() -> None:
    damaged = bytearray(LOG + ONE)
    damaged[len(ONE) + 70] ^= 1
    found = scan(damaged)
    assert (len(found), found.end) == (1, len(ONE))
    with pytest.raises(DamagedBatch, match=f"checksum mismatch at position {len(ONE)}") as raised:
        scan(damaged, found.end)
    assert raised.value.resume_at == len(LOG)
    assert len(scan(damaged, len(LOG))) == 1
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (copy.position, copy.reason, copy.resume_at) == (len(ONE), "checksum mismatch", len(LOG))


@pytest.mark.parametrize(
    "tail, reason",
    [
        (bytes(100), "no batch (magic 0, length 0)"),
        (b"\xff" * 100, "no batch (magic -1, length -1)"),
        (ONE[:8] + b"\0\0\0\x30" + ONE[12:], "no batch (magic 2, length 48)"),
        (ONE[:16] + b"\3" + ONE[17:], "no batch (magic 3, length 64)"),
    ],
    ids=["zeros", "ones", "too short", "unknown magic"],
)
def test_bytes_that_are_no_batch_are_damage_without_a_place_to_go_on(
    tail: bytes, reason: str
) -> None:
    assert len(scan(ONE + tail)) == 1
    with pytest.raises(DamagedBatch) as raised:
        scan(ONE + tail, len(ONE))
    assert (raised.value.position, raised.value.reason) == (len(ONE), reason)
    assert raised.value.resume_at is None


def test_each_flipped_bit_is_damage_or_an_incomplete_batch_or_in_the_prefix() -> None:
    for bit in range(8 * len(ONE)):
        damaged = bytearray(ONE)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            found: Batches | None = scan(damaged)
        except DamagedBatch as error:
            assert error.position == 0
            continue
        # No checksum covers the offset and the epoch; a larger length wants more bytes.
        assert bit // 8 in {*range(8), *range(12, 16)} or found.wanted_bytes > len(ONE)
