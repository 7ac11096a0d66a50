"""The sparse indexes, compared with plain lists of the same entries."""

from __future__ import annotations

import errno
from bisect import bisect_right
from random import Random

from tests.simulation.disk import SimulatedDisk
from wirekafka.log.index import ABSENT, OffsetIndex, TimeIndex

BASE = 1000


def offset_index(disk: SimulatedDisk | None = None, size_bytes: int = 0) -> OffsetIndex:
    disk = disk or SimulatedDisk()
    index = OffsetIndex(disk, "", BASE, size_bytes)
    if not disk.exists(index.path):
        disk.write(index.path, b"")
    return index


def test_a_lookup_gives_the_last_position_at_or_before_the_offset() -> None:
    random = Random(1)
    index = offset_index()
    entries = []
    offset = position = 0
    for _ in range(3000):
        offset += random.randrange(1, 20)
        position += random.randrange(1, 5000)
        entries.append((BASE + offset, position))
        index.add(BASE + offset, position)
    for wanted in range(BASE - 5, BASE + offset + 5, 37):
        expected = [position for entry, position in entries if entry <= wanted][-1:] or [0]
        assert index.position_before(wanted) == expected[0]


def test_entries_are_eight_bytes_relative_to_the_base() -> None:
    disk = SimulatedDisk()
    index = offset_index(disk)
    index.add(BASE + 3, 70)
    index.write()
    assert disk.read(index.path).hex() == "0000000300000046"


def test_time_entries_are_twelve_bytes_and_only_grow() -> None:
    disk = SimulatedDisk()
    index = TimeIndex(disk, "", BASE, 0)
    disk.write(index.path, b"")
    for timestamp, offset in ((500, BASE), (400, BASE + 1), (500, BASE + 2), (501, BASE + 3)):
        index.add(timestamp, offset)
    index.write()
    assert disk.read(index.path).hex() == ("00000000000001f40000000000000000000001f500000003")
    assert index.before(500) == (500, BASE)
    assert index.before(499) is None
    assert index.last_entry() == (501, BASE + 3)


def test_an_index_continues_from_its_file() -> None:
    disk = SimulatedDisk()
    index = offset_index(disk)
    for number in range(1, 700):
        index.add(BASE + number, number * 10)
    index.close()
    again = offset_index(disk, len(disk.read(index.path)))
    again.add(BASE + 700, 7000)
    assert again.position_before(BASE + 699) == 6990
    assert again.position_before(BASE + 701) == 7000
    assert len(again) == 700


def test_truncation_removes_entries_in_memory_and_in_the_file() -> None:
    for cut in (1, 100, 511, 512, 513, 650, 699):
        disk = SimulatedDisk()
        index = offset_index(disk)
        for number in range(1, 700):
            index.add(BASE + number, number * 10)
        index.cut(BASE + cut)
        assert len(index) == cut - 1
        assert index.position_before(BASE + 5000) == (cut - 1) * 10
        index.add(BASE + cut, 77_777)
        index.close()
        assert len(disk.read(index.path)) == cut * 8


def test_entries_that_cannot_be_written_are_kept_and_written_later() -> None:
    disk = SimulatedDisk()
    index = offset_index(disk)
    disk.capacity_bytes = 0
    for number in range(1, 1200):
        index.add(BASE + number, number * 10)
    assert index.position_before(BASE + 5) == 50
    disk.capacity_bytes = 1 << 20
    disk.failures[disk.operations] = errno.EIO
    index.add(BASE + 1200, 12_000)
    index.close()
    assert len(disk.read(index.path)) == 1200 * 8


def test_both_neighbours_of_an_offset_are_found_however_the_entries_are_spread() -> None:
    random = Random(3)
    for count in (0, 1, 2, 600):
        for spread in (3, 30_000):
            disk = SimulatedDisk()
            index = offset_index(disk)
            offsets = sorted(random.sample(range(1, spread + count), count))
            for offset in offsets:
                index.add(BASE + offset, offset * 10)
            for wanted in random.sample(range(spread + count), 3):
                number = bisect_right(offsets, wanted)
                before = offsets[number - 1] * 10 if number else 0
                after = offsets[number] * 10 if number < count else -1
                assert index.positions_around(BASE + wanted) == (before, after)


def test_a_new_index_gets_its_file_when_it_is_finished() -> None:
    disk = SimulatedDisk()
    index = OffsetIndex(disk, "", BASE, ABSENT)
    index.add(BASE + 3, 70)
    assert not disk.exists(index.path)
    assert index.position_before(BASE + 3) == 70
    index.finish()
    assert disk.read(index.path).hex() == "0000000300000046"


def test_a_new_index_gets_its_file_with_the_first_page() -> None:
    disk = SimulatedDisk()
    index = TimeIndex(disk, "", BASE, ABSENT)
    for number in range(342):
        index.add(number, BASE + number)
    assert len(disk.read(index.path)) == 4104
    assert index.before(100) == (100, BASE + 100)


def test_a_new_index_can_be_truncated_and_closed_without_a_file() -> None:
    disk = SimulatedDisk()
    index = OffsetIndex(disk, "", BASE, ABSENT)
    index.add(BASE + 3, 70)
    index.cut(BASE)
    index.close()
    assert not disk.exists(index.path)
    assert index.last_entry() is None


def test_a_file_left_by_a_crash_is_not_part_of_a_new_index() -> None:
    disk = SimulatedDisk()
    index = OffsetIndex(disk, "", BASE, ABSENT)
    disk.write(index.path, b"left over")
    index.add(BASE + 3, 70)
    index.finish()
    assert disk.read(index.path).hex() == "0000000300000046"
