"""Random histories of a partition and its mirror: equal batches, transactions and starts."""

from __future__ import annotations

from random import Random

import pytest

from tests.log.batches import NOW_MS, from_producer, new_log, reopened
from tests.log.cleaning import batches_left, clean, records
from tests.manual_clock import ManualClock
from tests.repetitions import seeds
from tests.simulation.disk import Outcome, SimulatedDisk
from wirekafka.codec.batch import read_header
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.records.control import Marker, encode_marker
from wirekafka.replication.fetching.fetcher import FetchedPartition
from wirekafka.replication.fetching.fetcher_session import PartitionFetch
from wirekafka.replication.mirroring.mirror_fetcher import (
    CopiedPartition,
    CopyState,
    MirrorFetcher,
    wire_key,
)
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.reading import ReadRange, ReadResult
from wirekafka.replication.partition.replica import Leadership, PartitionIdentity

_SEEDS = seeds("WIREKAFKA_MIRROR_SEEDS", usual=40, thorough=2_000)
_STEPS = 120
_IDENTITY = PartitionIdentity("topic", bytes(16), 0)
_MIRROR = TopicConfig(
    segment_bytes=2_000,
    index_interval_bytes=100,
    retention_ms=-1,
    wirekafka_mirror_source="cluster/topic",
)


class History:
    """A partition of the source, its mirror, and what may happen to both."""

    def __init__(self, seed: int):
        self.random = Random(seed)
        self.clock = ManualClock()
        self.source_disk = SimulatedDisk(seed)
        log = new_log(self.source_disk, segment_bytes=1_000, cleanup_policy="compact,delete")
        self.source = Partition(_IDENTITY, log, 1, self.clock)
        self.source_epoch = 3
        self.elect()
        self.ever: set[bytes] = set()
        """All batches that the source ever had: compaction replaces some."""
        self.cleaned: int | None = None
        self.open: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.mirror_disk = SimulatedDisk(seed + 1)
        self.mirror_epoch = 0
        self.begin_mirror(Partition(_IDENTITY, self.new_mirror_log(), 1, self.clock))

    def new_mirror_log(self):  # type: ignore[no-untyped-def]
        log = new_log(self.mirror_disk)
        log.config = _MIRROR
        return log

    def begin_mirror(self, mirror: Partition) -> None:
        """The mirror's process begins: nothing is known of the session and the source."""
        self.mirror = mirror
        self.raise_epoch(self.mirror_epoch + 1)
        self.copied = CopiedPartition(mirror)
        self.fetcher = MirrorFetcher()
        self.fetcher.follow(self.copied)
        self.session: dict[bytes, PartitionFetch] = {}

    def raise_epoch(self, epoch: int) -> None:
        self.mirror_epoch = epoch
        self.mirror.lead(Leadership(leader_id=1, leader_epoch=epoch, isr=(1,), replicas=(1,)))

    def elect(self) -> None:
        self.source_epoch += self.random.randint(1, 3)
        self.source.lead(
            Leadership(leader_id=1, leader_epoch=self.source_epoch, isr=(1,), replicas=(1,))
        )

    # Events.

    def produce(self) -> None:
        producer = self.random.choice([-1, 1, 2, 3])
        leader = self.source.leading()
        transactional = producer > 0 and (producer in self.open or self.random.random() < 0.5)
        sequence = self.sequences.get(producer, 0)
        records = from_producer(producer, sequence, transactional=transactional)
        guard = None
        if transactional:
            guard = leader.begin_verification(read_header(records), supports_epoch_bump=False)
            self.open.setdefault(producer, self.source.log.end_offset)
        leader.append_from_client(records, 1, NOW_MS, guard)
        self.sequences[producer] = sequence + 1

    def end_transaction(self) -> None:
        if self.open:
            producer = self.random.choice(list(self.open))
            del self.open[producer]
            marker = Marker(self.random.random() < 0.5, 0, NOW_MS)
            self.source.leading().append_marker(encode_marker(producer, 0, marker), 0)

    def compact(self) -> None:
        self.note_batches()
        self.cleaned = clean(self.source_disk, self.source.log, self.cleaned)

    def delete(self) -> None:
        low, high = self.source.log.start_offset, self.source.last_stable_offset
        self.source.delete_records(self.random.randint(low, high))
        self.source.log.delete_old_segments(NOW_MS, self.source.high_watermark)

    def kill_mirror(self) -> None:
        """The mirror ends, and begins again, perhaps without its last bytes."""
        log = self.mirror.log
        start = log.start_offset
        if self.random.random() < 0.5:
            log.truncate_to(self.random.randint(max(start, log.end_offset - 10), log.end_offset), 0)
        self.mirror_disk = self.mirror_disk.after_crash(Outcome.ALL_KEPT, 0)
        log = reopened(self.mirror_disk, config=_MIRROR, start_offset=start)
        self.begin_mirror(Partition(_IDENTITY, log, 1, self.clock))

    def copy(self) -> None:
        """One request of the mirror, whose response may be lost, cut short or refused."""
        self.note_batches()
        self.clock.advance(1_000)
        now_ms = self.clock.now_ms()
        if self.copied.epoch >= self.mirror_epoch:
            self.raise_epoch(self.copied.epoch + 1)
        plan = self.fetcher.plan(now_ms)
        if plan is None:
            return
        key = wire_key(self.copied.key)
        self.session.update({name: at for (name, _), at in plan.wanted.items()})
        chance = self.random.random()
        if chance < 0.05:
            self.fetcher.interrupt()
            return
        if chance < 0.1:
            self.fetcher.refuse(Error.FETCH_SESSION_ID_NOT_FOUND)
            return
        position = self.session.get(key[0])
        if position is None:
            return
        response = self.response_to(position)
        self.fetcher.accept(7)
        for _ in self.fetcher.take(key, response, now_ms):
            pass
        self.fetcher.settle(has_records=len(response.records) > 0)
        log = self.source.log
        for each in self.fetcher.out_of_range():
            self.fetcher.found_range(each, log.start_offset, self.source.high_watermark, now_ms)

    def response_to(self, position: PartitionFetch) -> FetchedPartition:
        """What the source answers to a consumer that reads uncommitted records."""
        wanted = ReadRange(
            offset=position.fetch_offset,
            max_bytes=self.random.choice([50, 300, 2_000, 1 << 20]),
            last_fetched_epoch=position.last_fetched_epoch,
        )
        try:
            found = self.source.read(wanted)
        except KafkaError as error:
            return FetchedPartition(
                error=error.error, records=b"", high_watermark=-1, start_offset=-1
            )
        assert isinstance(found, ReadResult)
        records = b"" if found.records is None else b"".join(found.records.buffers())
        return FetchedPartition(
            error=0,
            records=records,
            high_watermark=found.high_watermark,
            start_offset=found.start_offset,
            diverging=found.diverging,
        )

    def note_batches(self) -> None:
        self.ever.update(batches_left(self.source.log))

    # Checks.

    def settle(self) -> None:
        """Copy until the mirror is at the source's end."""
        self.copied.is_at_end = False
        for _ in range(300):
            self.copy()
            assert self.copied.state is not CopyState.STOPPED, self.copied.reason
            if self.copied.is_at_end:
                break
        assert self.copied.lag == 0

    def check(self) -> None:
        log, source = self.mirror.log, self.source.log
        assert log.start_offset <= max(source.start_offset, log.end_offset)
        mirrored = batches_left(log)
        assert set(mirrored) <= self.ever, "only the source's batches"
        have = {read_header(each).base_offset: read_header(each) for each in mirrored}
        for each in batches_left(source):
            header = read_header(each)
            if header.end_offset <= log.start_offset:
                continue
            assert any(
                known.base_offset <= header.base_offset and header.end_offset <= known.end_offset
                for known in have.values()
            ), header
        assert self.mirror.high_watermark == log.end_offset
        unstable = source.first_unstable_offset
        if unstable is not None and unstable >= log.start_offset:
            assert log.first_unstable_offset == unstable
        start = max(log.start_offset, source.start_offset)
        present = {each.offset for _, each in records(source, committed=False)}
        expected = [each for _, each in records(source) if each.offset >= start]
        found = [each for _, each in records(log) if each.offset >= start]
        assert [each for each in found if each.offset in present] == expected


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_a_mirror_has_its_sources_batches_whatever_happens(seed: int) -> None:
    history = History(seed)
    events = [history.produce] * 8 + [history.end_transaction] * 3 + [history.copy] * 6
    events += [history.compact, history.delete, history.elect, history.kill_mirror]
    for _ in range(_STEPS):
        history.random.choice(events)()
    history.settle()
    history.check()
    for _ in range(5):
        history.produce()
    history.settle()
    history.check()


def test_a_source_that_has_lost_records_stops_the_copy() -> None:
    history = History(1)
    for _ in range(5):
        history.produce()
    history.settle()
    copy = batches_left(history.mirror.log)
    history.source.log.truncate_to(2, NOW_MS)
    history.elect()
    history.random = Random(4)
    for _ in range(10):
        history.copy()
    assert history.copied.state is CopyState.STOPPED
    assert "lost records" in (history.copied.reason or "")
    assert batches_left(history.mirror.log) == copy


def test_a_source_that_has_other_records_at_the_same_offsets_stops_the_copy() -> None:
    history = History(1)
    for _ in range(5):
        history.produce()
    history.settle()
    history.source.log.truncate_to(2, NOW_MS)
    history.source.set_high_watermark(2)
    history.elect()
    history.open, history.sequences = {}, {-1: 100}
    for number in range(10):
        records = from_producer(-1, number)
        history.source.leading().append_from_client(records, 1, NOW_MS)
    history.random = Random(4)
    for _ in range(10):
        history.copy()
    assert history.copied.state is CopyState.STOPPED
    assert "leader epoch" in (history.copied.reason or "")
