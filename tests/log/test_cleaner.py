"""Compaction: what Kafka's cleaner keeps, and that readers see the same before and after it."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from tests.log.batches import (
    NOW_MS,
    append,
    end_transaction,
    from_producer,
    new_log,
    read_all,
    reopened,
    with_config,
)
from tests.log.cleaning import clean, fold, job, records, swap_in
from tests.simulation.disk import SimulatedDisk
from wirekafka.codec.batch import is_intact, read_header
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.compaction.cleanable import CleaningProgress, cleanable, is_due
from wirekafka.log.compaction.cleaner import Cleaner
from wirekafka.log.compaction.cleaner_batches import RecordOutline, outlines
from wirekafka.log.compaction.offset_map import ENTRY_BYTES, OffsetMap
from wirekafka.log.log import Log
from wirekafka.log.scan import BadBatch

COMPACTED: dict[str, Any] = {
    "cleanup_policy": ("compact",),
    "segment_bytes": 1000,
    "index_interval_bytes": 200,
}
CONFIG = TopicConfig(**COMPACTED)
DAY_MS = 86_400_000


def put(log: Log, key: bytes, value: bytes | None, **options: Any) -> int:
    record = Record(timestamp=NOW_MS, key=key, value=value)
    return append(log, encode_batch([record], options=BatchOptions(**options))).base_offset


def sealed_log(disk: SimulatedDisk, count: int, keys: int, **config: Any) -> Log:
    log = new_log(disk, **{**COMPACTED, **config})
    for number in range(count):
        put(log, b"key%d" % (number % keys), b"value%d" % number)
    log.roll(NOW_MS)
    return log


def test_only_the_latest_record_of_each_key_is_kept() -> None:
    disk = SimulatedDisk()
    log = sealed_log(disk, 50, 7)
    before = fold(log)
    assert clean(disk, log) == 50
    assert [record.offset for _, record in records(log)] == list(range(43, 50))
    assert fold(log) == before
    assert log.start_offset == 0 and log.end_offset == 50


def test_many_small_segments_become_one_and_their_files_are_deleted() -> None:
    disk = SimulatedDisk()
    log = sealed_log(disk, 60, 3)
    assert len(log.segments) > 4
    log.config = with_config(CONFIG, segment_bytes=10_000)
    clean(disk, log)
    assert [segment.base_offset for segment in log.segments] == [0, 60]
    log.delete_retired(NOW_MS + 60_000)
    assert sorted(name.rpartition("/")[2] for name in disk.files() if "00000" in name) == [
        f"{base:020d}.{kind}"
        for base, kinds in ((0, ("index", "log", "timeindex")), (60, ("log", "snapshot")))
        for kind in kinds
    ], "the last segment's indexes follow when it is sealed"


def test_a_batch_without_dropped_records_is_kept_byte_for_byte() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, **COMPACTED)
    batches = [
        encode_batch(
            [Record(timestamp=NOW_MS, key=b"%d" % key, value=b"v" * 50)],
            options=BatchOptions(compression=codec),
        )
        for key, codec in enumerate(Codec)
    ]
    for batch in batches:
        append(log, batch)
    log.roll(NOW_MS)
    clean(disk, log)
    assert [stored[16:] for stored in read_all(log)] == [batch[16:] for batch in batches]


@pytest.mark.parametrize("codec", Codec)
def test_remaining_records_keep_codec_offsets_timestamps_and_headers(codec: Codec) -> None:
    disk = SimulatedDisk()
    log = new_log(disk, **COMPACTED)
    first = [
        Record(
            timestamp=NOW_MS + 10 * n,
            key=b"%d" % n,
            value=b"x" * n,
            headers=(("name", b"%d" % n), ("none", None)),
        )
        for n in range(9)
    ]
    append(log, encode_batch(first, options=BatchOptions(compression=codec)))
    for n in (0, 3, 8):
        put(log, b"%d" % n, b"new")
    log.roll(NOW_MS)
    clean(disk, log)
    stored = read_all(log)[0]
    header = read_header(stored)
    assert is_intact(stored) and header.compression == codec
    assert (header.base_offset, header.end_offset, header.count) == (0, 9, 6)
    assert header.max_timestamp == NOW_MS + 70
    assert decode_records(stored) == [
        record._replace(offset=n) for n, record in enumerate(first) if n not in (0, 3, 8)
    ]


def test_a_tombstone_gets_a_delete_horizon_and_is_removed_after_it() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, **COMPACTED)
    put(log, b"k", b"value")
    put(log, b"k", None)
    log.roll(NOW_MS)
    put(log, b"other", b"1")
    cleaned = clean(disk, log)
    found = [(header.delete_horizon, record) for header, record in records(log)]
    assert found[0] == (NOW_MS + DAY_MS, Record(1, NOW_MS, b"k", None, ()))
    log.roll(NOW_MS)
    cleaned = clean(disk, log, cleaned, NOW_MS + DAY_MS - 1)
    assert [record.key for _, record in records(log)] == [b"k", b"other"]
    put(log, b"another", b"1")
    log.roll(NOW_MS)
    clean(disk, log, cleaned, NOW_MS + DAY_MS)
    assert [record.key for _, record in records(log)] == [b"other", b"another"]


def test_records_without_a_key_are_removed() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, segment_bytes=1000)
    append(log, encode_batch([Record(timestamp=NOW_MS, value=b"keyless")]))
    put(log, b"k", b"v")
    log.config = CONFIG
    log.roll(NOW_MS)
    clean(disk, log)
    assert [record.value for _, record in records(log)] == [b"v"]


def test_a_duplicate_is_recognized_after_all_records_of_its_producer_were_removed() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, **COMPACTED)
    for sequence in range(6):
        append(log, from_producer(7, sequence))
    put(log, b"k", b"newest")
    log.roll(NOW_MS)
    clean(disk, log)
    assert [record.value for _, record in records(log)] == [b"newest"]
    disk.locks.clear()
    log.close()
    for again in (log, reopened(disk, config=CONFIG)):
        assert append(again, from_producer(7, 5)).duplicate
        assert again.producers.get(7).last_sequence == 5  # type: ignore[union-attr]


def test_markers_are_removed_one_retention_after_their_transactions_last_record() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, **COMPACTED)
    append(log, from_producer(1, 0, transactional=True))
    end_transaction(log, 1, commit=True)
    append(log, from_producer(2, 0, transactional=True))
    end_transaction(log, 2, commit=False)
    put(log, b"k", b"newest")
    log.roll(NOW_MS)
    log.producers.forget_stable(log.end_offset)
    log.producers.expire(NOW_MS * 2, 1)
    cleaned = clean(disk, log)
    assert [read_header(batch).base_offset for batch in read_all(log)] == [1, 3, 4]
    for later_ms, offsets in ((1, [1, 3, 4, 5]), (DAY_MS + 1, [4, 5, 6])):
        put(log, b"other%d" % later_ms, b"1")
        log.roll(NOW_MS)
        cleaned = clean(disk, log, cleaned, NOW_MS + later_ms)
        assert [read_header(batch).base_offset for batch in read_all(log)] == offsets


def test_an_aborted_value_replaces_no_earlier_value() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, **COMPACTED)
    put(log, b"k", b"committed")
    append(log, from_producer(2, 0, transactional=True))
    end_transaction(log, 2, commit=False)
    log.roll(NOW_MS)
    clean(disk, log)
    assert fold(log) == {b"k": (0, b"committed")}


def test_records_from_an_open_transaction_on_are_not_cleaned() -> None:
    disk = SimulatedDisk()
    log = sealed_log(disk, 30, 3)
    open_at = append(log, from_producer(2, 0, transactional=True)).base_offset
    for number in range(30):
        put(log, b"key%d" % (number % 3), b"late%d" % number)
    todo = job(log)
    assert todo is not None and todo.end_offset <= open_at
    before = [batch for batch in read_all(log) if read_header(batch).base_offset >= open_at]
    clean(disk, log)
    after = [batch for batch in read_all(log) if read_header(batch).base_offset >= open_at]
    assert after == before


def test_a_full_map_leaves_the_rest_to_the_next_cleaning() -> None:
    disk = SimulatedDisk()
    log = sealed_log(disk, 80, 40)
    before = fold(log)
    cleaned: int | None = None
    ends = []
    while cleaned != 80:
        todo = job(log, cleaned)
        assert todo is not None
        todo.map_bytes = 12 * ENTRY_BYTES
        cleaner = Cleaner(disk, todo)
        for new in cleaner.groups():
            assert swap_in(disk, log, todo, new)
        cleaned = cleaner.cleaned_end_offset
        ends.append(cleaned)
        assert fold(log) == before
    assert len(ends) > 6 and ends == sorted(ends)
    assert [record.offset for _, record in records(log)] == list(range(40, 80))


def test_dirty_ratio_and_lags_decide_what_is_cleaned_and_when() -> None:
    log = sealed_log(SimulatedDisk(), 50, 7)
    stable = log.end_offset
    found = cleanable(log, CleaningProgress(None, stable, NOW_MS))
    assert found is not None and found.ratio == 1 and is_due(found, log)
    half = cleanable(log, CleaningProgress(log.segments[3].base_offset, stable, NOW_MS))
    assert half is not None and 0 < half.ratio < 1
    log.config = with_config(CONFIG, min_cleanable_dirty_ratio=0.99)
    assert not is_due(half, log)
    log.config = with_config(CONFIG, min_cleanable_dirty_ratio=0.99, max_compaction_lag_ms=5)
    late = cleanable(log, CleaningProgress(log.segments[3].base_offset, stable, NOW_MS + 6))
    assert late is not None and is_due(late, log)
    log.config = with_config(CONFIG, min_compaction_lag_ms=1000)
    assert cleanable(log, CleaningProgress(None, stable, NOW_MS + 999)) is None
    assert cleanable(log, CleaningProgress(None, stable, NOW_MS + 1000)) is not None
    assert cleanable(log, CleaningProgress(50, stable, NOW_MS + 1000)) is None


def test_a_log_that_changed_meanwhile_keeps_its_segments() -> None:
    disk = SimulatedDisk()
    log = sealed_log(disk, 50, 7)
    todo = job(log)
    assert todo is not None
    cleaned = next(Cleaner(disk, todo).groups())
    log.advance_start(30)
    assert log.delete_old_segments(NOW_MS)
    assert not swap_in(disk, log, todo, cleaned)
    assert not [name for name in disk.files() if name.endswith((".cleaned", ".swap"))]
    assert [record.offset for _, record in records(log) if record.offset >= 30] == list(
        range(30, 50)
    )


def test_a_corrupt_batch_stops_the_cleaning_and_leaves_no_files() -> None:
    disk = SimulatedDisk()
    log = sealed_log(disk, 50, 7)
    path = log.segments[2].file.path
    disk.file(path).data[-1] ^= 1
    with pytest.raises(BadBatch):
        clean(disk, log)
    assert not [name for name in disk.files() if name.endswith(".cleaned")]


def test_a_fetch_begun_before_the_swap_can_be_read() -> None:
    disk = SimulatedDisk()
    log = sealed_log(disk, 50, 7)
    begun = log.read(0, 1 << 20, end_offset=50)
    before = b"".join(begun.buffers())
    clean(disk, log)
    log.delete_retired(NOW_MS + 60_000)
    assert b"".join(begun.buffers()) == before


def test_cleaning_twice_within_the_delay_of_deletion_loses_nothing() -> None:
    disk = SimulatedDisk()
    log = sealed_log(disk, 50, 7)
    cleaned = clean(disk, log)
    for number in range(20):
        put(log, b"key%d" % (number % 7), b"again%d" % number)
    log.roll(NOW_MS)
    before = fold(log)
    clean(disk, log, cleaned)
    log.delete_retired(NOW_MS + 60_000)
    assert fold(log) == before and len(list(records(log))) == 7


def test_the_map_takes_24_bytes_a_key_and_finds_each() -> None:
    latest = OffsetMap(1000, 0.9)
    keys: list[tuple[bytes | None, int]] = [(b"%d" % n, n) for n in range(890)]
    assert latest.put_all(keys[:450], 0) and latest.put_all(keys[450:], 0)
    assert len(latest) == 890 and len(latest._entries) == 24_000
    assert [latest.get(key) for key, _ in keys if key] == list(range(890))
    assert latest.get(b"890") == -1
    assert latest.put_all(keys[:10], 1000) and latest.get(b"3") == 1003
    more: list[tuple[bytes | None, int]] = [(b"new%d" % n, n) for n in range(11)]
    assert not latest.put_all(more, 5000)
    assert latest.get(b"new9") == 5009 and latest.get(b"new10") == -1
    assert latest.latest_offset == 5009


def test_outlines_agree_with_the_decoder() -> None:
    random = Random(5)
    entries = [
        Record(
            n,
            NOW_MS + random.randrange(-(10**6), 10**6),
            random.choice([None, b"", random.randbytes(random.randrange(300))]),
            random.choice([None, b"", random.randbytes(random.randrange(9000))]),
            tuple(("h", b"v") for _ in range(random.randrange(3))),
        )
        for n in range(200)
    ]
    batch = encode_batch(entries)
    header = read_header(batch)
    found: list[RecordOutline] = outlines(bytes(batch[61:]), header.count)
    assert [
        (each.key, each.offset_delta, each.has_value, header.base_timestamp + each.timestamp_delta)
        for each in found
    ] == [(entry.key, entry.offset, entry.value is not None, entry.timestamp) for entry in entries]


@dataclass
class History:
    """Random writers of one log, and the state that the log must have."""

    random: Random
    disk: SimulatedDisk
    log: Log
    cleaned: int | None = None
    now_ms: int = NOW_MS
    sequences: dict[int, int] = field(default_factory=dict)
    transactions: set[int] = field(default_factory=set)

    def step(self) -> None:
        """Do one random operation on the log."""
        random = self.random
        match random.randrange(12):
            case 0:
                self.log.roll(self.now_ms)
            case 1 if self.transactions:
                self._end()
            case 2:
                self.now_ms += random.choice((1, 1000, DAY_MS))
            case 3:
                self.clean()
            case _:
                self._append()

    def clean(self) -> None:
        """Clean the log, with appends during the cleaning."""
        before = fold(self.log)
        todo = job(self.log, self.cleaned, self.now_ms)
        if todo is None:
            return
        if self.random.random() < 0.3:
            todo.map_bytes = ENTRY_BYTES * self.random.randrange(8, 30)
        cleaner = Cleaner(self.disk, todo)
        for cleaned in cleaner.groups():
            assert swap_in(self.disk, self.log, todo, cleaned)
            assert fold(self.log) == before
            for _ in range(self.random.randrange(3)):
                self._append()
            before = fold(self.log)
        self.cleaned = cleaner.cleaned_end_offset
        self._at_most_once_each()

    def _at_most_once_each(self) -> None:
        keys = [
            record.key for _, record in records(self.log) if record.offset < (self.cleaned or 0)
        ]
        assert len(keys) == len(set(keys))

    def _append(self) -> None:
        random = self.random
        entries = [
            Record(
                timestamp=self.now_ms,
                key=b"%d" % random.randrange(15),
                value=random.choice((None, random.randbytes(random.randrange(40)))),
            )
            for _ in range(random.randrange(1, 8))
        ]
        codec = random.choice((Codec.NONE, Codec.NONE, *Codec))
        producer_id = random.choice((-1, 1, 2, 3))
        if producer_id < 0:
            append(
                self.log,
                encode_batch(entries, options=BatchOptions(compression=codec)),
                now_ms=self.now_ms,
            )
            return
        sequence = self.sequences.get(producer_id, 0)
        is_transactional = producer_id > 1
        append(
            self.log,
            encode_batch(
                entries,
                options=BatchOptions(
                    compression=codec,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=sequence,
                    is_transactional=is_transactional,
                ),
            ),
            now_ms=self.now_ms,
        )
        self.sequences[producer_id] = sequence + len(entries)
        if is_transactional:
            self.transactions.add(producer_id)

    def _end(self) -> None:
        producer_id = self.random.choice(sorted(self.transactions))
        self.transactions.discard(producer_id)
        end_transaction(self.log, producer_id, commit=self.random.random() < 0.5)
        self.log.producers.forget_stable(self.log.end_offset)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(16))
def test_readers_of_a_cleaned_log_get_the_expected_state(seed: int) -> None:
    disk = SimulatedDisk(seed)
    history = History(Random(seed), disk, new_log(disk, **COMPACTED))
    for _ in range(150):
        history.step()
    history.clean()
    log = history.log
    before, producers = fold(log), log.producers.encode_snapshot()
    log.close()
    assert fold(reopened(disk, clean=True, config=CONFIG)) == before
    for path in disk.files():
        if path.endswith((".index", ".timeindex", ".txnindex")):
            disk.unlink(path)
    again = reopened(disk, config=CONFIG)
    assert fold(again) == before
    assert again.producers.encode_snapshot() == producers
