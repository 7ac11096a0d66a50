"""Tiered storage of a node: copies, reads and deletions, while the store or the node fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.apis.test_fetch import fetch_request, only
from tests.eventually import eventually_async
from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from tests.tiered.tiered_log import MemoryStore
from wirekafka.codec.batch import Buffer, batches
from wirekafka.codec.record import Record, decode_records, encode_batch
from wirekafka.errors import Error, KafkaError
from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.log.log import Log
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.reading import ReadRange
from wirekafka.server.background.housekeeping import Housekeeping
from wirekafka.server.tiering.partition_tier import PartitionTier
from wirekafka.server.tiering.settings import LOCAL_CLASS
from wirekafka.server.tiering.tiering import Tiering
from wirekafka.server.tiering.work import Job, run_in_own_thread
from wirekafka.tiered.copying import CopyJob, candidates
from wirekafka.tiered.metadata_record import REMOTE_LOG_METADATA_TOPIC, decode, encode
from wirekafka.tiered.remote_segment import (
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
    TieredPartition,
)
from wirekafka.tiered.segment_states import SegmentStates

_VALUE = bytes(69_800)
_BATCHES = 60
_SETTLED_MS = 120_001
"""After which nothing that was sent to the metadata topic before can arrive any more."""
_ABANDONED_MS = _SETTLED_MS + 120_000 + 120_000 + 600_000
"""After which another broker's copy of a small segment counts as given up."""


class TieredNode:
    """A node whose topic t has segments of 15 records, at most one of them local once copied."""

    def __init__(self, directory: Path):
        self._directory = directory
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.topic_id = b""

    def start(self) -> None:
        """Start the node, on its data if it has any. An event loop must be running."""
        self.kafka = InProcessBroker(
            self._directory,
            self.clock,
            store=self.store,
            remote_log_storage_system_enable="true",
            remote_log_storage_manager_class_name=LOCAL_CLASS,
            **{
                "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
                "rsm.config.dir": "/not/used",
            },
        )

    async def create(self) -> None:
        self.topic_id = self.kafka.create(
            "t",
            remote_storage_enable="true",
            segment_bytes="1048576",
            local_retention_bytes="1",
            retention_ms="-1",
            local_retention_ms="-1",
        )
        await eventually_async(lambda: self.tier_states() is not None)

    @property
    def tiering(self) -> Tiering:
        found = self.kafka.node.tiering
        assert found is not None
        return found

    @property
    def partition(self) -> Partition:
        return self.kafka.partition("t")

    @property
    def log(self) -> Log:
        return self.partition.log

    def tier_states(self) -> Any:
        return self.tiering.tiers["t", 0].states

    def append(self, count: int = _BATCHES) -> None:
        for _ in range(count):
            self.partition.leading().append_from_client(
                batch(_VALUE, timestamp=self.clock.now_ms()), 1, self.clock.now_ms()
            )

    async def work(self) -> None:
        """Run the periodic work once, and wait until it has ended."""
        self.tiering.work()
        await eventually_async(lambda: not self.tiering.is_busy)
        self.tiering.work()
        await eventually_async(lambda: not self.tiering.is_busy)
        self.log.delete_old_segments(self.clock.now_ms(), self.partition.high_watermark)

    async def fetch(self, offset: int) -> Any:
        exchange = self.kafka.begin(fetch_request(("t", 0, offset)), 11)
        await eventually_async(lambda: exchange.is_done)
        return only(exchange.response)

    async def read_all(self) -> int:
        """Read all records; how many there are."""
        offset = 0
        while offset < self.log.end_offset:
            found = await self.fetch(offset)
            assert found.error_code == 0
            for _, header in batches(memoryview(bytes(found.records))):
                assert header.base_offset == offset
                offset = header.end_offset
        return offset

    def segments(self) -> set[str]:
        """The segments that have objects, by their name."""
        return {key.rpartition("/")[2].partition(".")[0] for key in self.store.objects}


def run(directory: Path, scenario: Callable[[TieredNode], Awaitable[None]]) -> None:
    """Run a scenario with a started node that has the topic."""

    async def whole() -> None:
        node = TieredNode(directory)
        node.start()
        await node.create()
        await scenario(node)
        node.kafka.node.abort()

    asyncio.run(whole())


def test_closed_segments_are_read_from_the_tier_after_they_have_gone(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        await node.work()
        assert len(node.segments()) == 4 - 1
        assert (node.log.first_offset, node.log.start_offset) == (0, 45)
        assert await node.read_all() == _BATCHES

    run(tmp_path, scenario)


def test_the_tier_keeps_what_is_not_in_the_table_of_the_topic(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        await node.work()
        config = node.log.config.changed(
            retention_ms=0, wirekafka_table_mode="key_value", wirekafka_table_hold=True
        )
        node.partition.configure(config)
        node.clock.sleep(1_000)
        await node.work()
        assert (node.log.first_offset, len(node.segments())) == (0, 3), "nothing is known of it"
        node.log.released_offset = 31
        await node.work()
        assert (node.log.first_offset, len(node.segments())) == (30, 1)
        assert node.log.start_offset == 45, "the tier has what is not here any more"

    run(tmp_path, scenario)


def test_a_store_that_fails_is_never_out_of_range(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        await node.work()
        node.store.failures = 1
        found = await node.fetch(3)
        assert (found.error_code, found.records or b"") == (Error.UNKNOWN_SERVER_ERROR, b"")
        assert await node.read_all() == _BATCHES

    run(tmp_path, scenario)


def test_what_a_failed_copy_leaves_is_deleted_and_the_copy_repeated(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        for failing in range(1, 9):
            requests = len(node.store.requests)
            node.store.fail_at = requests + failing
            await node.work()
        assert len(node.segments()) == 3
        assert {each.state for each in node.tier_states()} == {SegmentState.COPY_FINISHED}
        assert await node.read_all() == _BATCHES

    run(tmp_path, scenario)


def test_a_node_that_was_killed_while_it_copied_begins_again(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        log = node.log
        [first, *_] = candidates(log, log.config, -1, log.end_offset, node.clock.now_ms())
        tier = node.tiering.tiers["t", 0]
        job = CopyJob.of(
            log,
            first,
            tier.identity,
            segment_id=b"0123456789abcdef",
            broker_id=1,
            now_ms=node.clock.now_ms(),
        )
        await node.tiering.metadata.publish(job.segment)
        node.store.put(f"t-0-{'x' * 22}/left.log", [b"left"])
        job.run(node.tiering.layout, node.kafka.broker.disk, Event())
        node.kafka.node.abort()

        node.start()
        await eventually_async(lambda: node.tier_states() is not None)
        node.clock.advance(_SETTLED_MS)
        await node.work()
        assert len(node.segments()) == 3 + 1, "the one with an unknown name is not ours"
        assert not any("MDEyMzQ1Njc4OWFiY2RlZg" in key for key in node.store.objects)
        assert await node.read_all() == _BATCHES

    run(tmp_path, scenario)


def test_a_restarted_node_reads_what_it_has_copied_before(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        await node.work()
        node.partition.delete_records(20)
        node.kafka.broker.directories[0].checkpoint(node.kafka.broker.high_watermarks())
        node.kafka.node.abort()

        node.start()
        await eventually_async(lambda: node.tier_states() is not None)
        assert (node.log.first_offset, node.log.start_offset) == (20, 45)
        assert (await node.fetch(19)).error_code == Error.OFFSET_OUT_OF_RANGE
        found = await node.fetch(20)
        assert next(batches(memoryview(bytes(found.records))))[1].base_offset == 20

    run(tmp_path, scenario)


def test_indexes_are_kept_beside_the_logs_until_their_segments_are_deleted(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        await node.work()
        await node.read_all()
        folder = tmp_path / "remote-log-index-cache"
        assert len(list(folder.glob("*.index"))) == len(node.segments())
        node.kafka.node.abort()
        node.start()
        await eventually_async(lambda: bool(node.tier_states()))
        before = len([each for each in node.store.requests if each.endswith(".index")])
        await node.read_all()
        assert len([each for each in node.store.requests if each.endswith(".index")]) == before
        await node.kafka.broker.controller.submit(DeleteTopics([TopicReference(name="t")]))
        await eventually_async(lambda: not list(folder.iterdir()))

    run(tmp_path, scenario)


def test_a_log_whose_start_was_lost_begins_with_the_oldest_segment_that_is_left(
    tmp_path: Path,
) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        await node.work()
        node.partition.delete_records(20)
        await node.work()
        assert len(node.segments()) == 2
        node.kafka.node.abort()  # Before the start offset was written.

        node.start()
        await eventually_async(lambda: node.tier_states() is not None)
        assert (await node.fetch(14)).error_code == Error.REPLICA_NOT_AVAILABLE, "consumers wait"
        await node.work()
        assert (await node.fetch(14)).error_code == Error.OFFSET_OUT_OF_RANGE
        assert node.log.first_offset == 20
        assert (await node.fetch(20)).error_code == 0

    run(tmp_path, scenario)


def test_a_log_keeps_its_start_while_the_metadata_of_its_segments_is_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        await node.work()
        known, catch_up = node.tier_states(), node.tiering.metadata.catch_up
        read: list[SegmentStates] = []

        async def read_on(partition: TieredPartition) -> None:
            await catch_up(partition)
            read.append(known)

        def states(partition: TieredPartition) -> SegmentStates:
            return known if read else SegmentStates()

        monkeypatch.setattr(node.tiering.metadata, "states", states)
        monkeypatch.setattr(node.tiering.metadata, "catch_up", read_on)
        assert node.log.start_offset > 0
        assert (await node.fetch(0)).error_code == Error.REPLICA_NOT_AVAILABLE
        await node.work()
        assert read and node.log.first_offset == 0
        assert await node.read_all() == _BATCHES

    run(tmp_path, scenario)


def test_the_log_start_is_written_when_only_the_remote_part_has_changed(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        await node.work()
        housekeeping = Housekeeping(node.kafka.broker, list)
        housekeeping._checkpoint()
        node.partition.delete_records(20)
        housekeeping._checkpoint()
        node.kafka.node.abort()

        node.start()
        assert node.log.first_offset == 20

    run(tmp_path, scenario)


def test_unreadable_metadata_is_skipped(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        await node.work()
        topic = node.kafka.partition(REMOTE_LOG_METADATA_TOPIC)
        for value in (None, b"\x01\x07\x00", b"nonsense"):
            topic.append(encode_batch([Record(timestamp=1, value=value)]))
        node.append()
        await node.work()
        assert len(node.segments()) == 2 * 4 - 1
        assert node.tiering.metadata.skipped == 3
        assert await node.read_all() == 2 * _BATCHES

    run(tmp_path, scenario)


def test_the_segments_of_a_deleted_topic_are_deleted_though_the_store_fails(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        await node.work()
        node.store.failures = 1
        await node.kafka.broker.controller.submit(DeleteTopics([TopicReference(name="t")]))
        await eventually_async(lambda: not node.tiering.is_busy)
        assert node.segments()

        # The leader of the metadata completes it, also after a restart.
        node.kafka.node.abort()
        node.start()
        node.tiering.work()
        await eventually_async(lambda: list(node.tiering.metadata.led_here()))
        node.tiering.work()
        node.clock.advance(60_001)
        node.tiering.work()
        await eventually_async(lambda: not node.segments())

    run(tmp_path, scenario)


def test_an_upload_that_was_given_up_leaves_nothing_when_it_ends(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        node.tiering.copier._run = run_in_own_thread
        put, starts, goes_on = node.store.put, Event(), Event()

        def slow(key: str, pieces: Iterable[Buffer]) -> None:
            starts.set()
            assert goes_on.wait(30)
            put(key, pieces)

        node.store.put = slow  # type: ignore[method-assign]
        node.tiering.work()
        await eventually_async(starts.is_set)
        node.clock.advance(130_000)
        await eventually_async(lambda: not node.tiering.is_busy)
        assert [kind for kind, _ in node.tiering.failing()] == ["copy"]
        node.store.put = put  # type: ignore[method-assign]
        await node.work()
        # What it may still store is known to the metadata, so that another process deletes it.
        [given_up, *_] = node.tier_states()
        assert given_up.state is SegmentState.DELETE_STARTED
        goes_on.set()
        await eventually_async(lambda: not copied_objects(node, given_up))
        await node.work()
        assert {each.state for each in node.tier_states()} == {SegmentState.COPY_FINISHED}
        assert not copied_objects(node, given_up)

    run(tmp_path, scenario)


def copied_objects(node: TieredNode, segment: RemoteSegment) -> set[str]:
    """The keys of a segment's objects that are stored."""
    return node.store.objects.keys() & set(node.tiering.layout.keys_if_any(segment))


def held_back(node: TieredNode, state: SegmentState) -> list[bytes]:
    """The batches of the next changes to a state: they are lost on their way, or just late."""
    metadata, held = node.tiering.metadata, []
    append = metadata._append

    async def hold(index: int, batch: bytes) -> None:
        [record] = decode_records(batch)
        if decode(record.value).state is state:
            held.append(batch)
            raise KafkaError(Error.REQUEST_TIMED_OUT)
        await append(index, batch)

    metadata._append = hold  # type: ignore[method-assign]
    return held


def test_a_copy_whose_finish_is_uncertain_is_kept_until_it_cannot_become_finished(
    tmp_path: Path,
) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        held = held_back(node, SegmentState.COPY_FINISHED)
        await node.work()
        assert len(held) == 2, "two runs, and two copies of the first segment"
        assert {each.state for each in node.tier_states()} == {SegmentState.COPY_STARTED}
        late, _ = held
        node.kafka.partition(REMOTE_LOG_METADATA_TOPIC).append(late)
        await eventually_async(
            lambda: SegmentState.COPY_FINISHED in {each.state for each in node.tier_states()}
        )
        del node.tiering.metadata._append  # type: ignore[method-assign]
        await node.work()
        assert await node.read_all() == _BATCHES
        node.clock.advance(_SETTLED_MS)
        await node.work()
        assert {each.state for each in node.tier_states()} == {SegmentState.COPY_FINISHED}
        assert len(node.segments()) == 3
        assert await node.read_all() == _BATCHES

    run(tmp_path, scenario)


async def begin_elsewhere(node: TieredNode, size_bytes: int) -> RemoteSegment:
    """A copy of the first segment that another broker has begun."""
    log = node.log
    [first, *_] = candidates(log, log.config, -1, log.end_offset, node.clock.now_ms())
    job = CopyJob.of(
        log,
        first,
        node.tiering.tiers["t", 0].identity,
        segment_id=b"0123456789abcdef",
        broker_id=2,
        now_ms=node.clock.now_ms(),
    )
    job.run(node.tiering.layout, node.kafka.broker.disk, Event())
    segment = replace(job.segment, size_bytes=size_bytes)
    await node.tiering.metadata.publish(segment)
    return segment


def test_another_brokers_copy_counts_as_given_up_after_a_time_by_its_size(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        segment = await begin_elsewhere(node, size_bytes=(2 << 30) - 1)
        node.clock.advance(_ABANDONED_MS)
        await node.work()
        assert copied_objects(node, segment)
        node.clock.advance(2_048_000)
        await node.work()
        assert not copied_objects(node, segment)
        assert node.tier_states().get(segment.id) is None

    run(tmp_path, scenario)


def test_what_has_become_finished_unnoticed_is_not_left_over(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        segment = await begin_elsewhere(node, size_bytes=1_000)
        node.clock.advance(_ABANDONED_MS)
        [followed] = node.tiering.metadata._followed.values()
        may_read = asyncio.Event()

        async def read_here() -> None:
            await may_read.wait()
            await original()

        original, followed._read_here = followed._read_here, read_here  # type: ignore[method-assign]
        finished = SegmentUpdate(
            partition=segment.partition,
            id=segment.id,
            broker_id=2,
            event_ms=node.clock.now_ms(),
            state=SegmentState.COPY_FINISHED,
        )
        record = Record(timestamp=1, value=encode(finished))
        node.kafka.partition(REMOTE_LOG_METADATA_TOPIC).append(encode_batch([record]))
        node.tiering.work()
        await asyncio.sleep(0.01)
        may_read.set()
        await eventually_async(lambda: not node.tiering.is_busy)
        assert copied_objects(node, segment)
        assert node.tier_states().get(segment.id).state is SegmentState.COPY_FINISHED

    run(tmp_path, scenario)


def test_only_the_tasks_of_partitions_that_are_led_here_fail(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        node.store.failures = 1
        node.tiering.work()
        await eventually_async(lambda: not node.tiering.is_busy)
        assert [kind for kind, _ in node.tiering.failing()] == ["copy"]
        node.partition.leader = None
        node.tiering.work()
        assert not list(node.tiering.failing())

    run(tmp_path, scenario)


def test_the_counters_of_deleted_topics_are_added_up(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        await node.work()
        copies = node.tiering.counters["t"].copies
        assert copies == 3
        await node.kafka.broker.controller.submit(DeleteTopics([TopicReference(name="t")]))
        await eventually_async(lambda: not node.segments())
        await eventually_async(lambda: not node.tiering.is_busy)
        node.tiering.work()
        assert not node.tiering.counters
        assert node.tiering.past_counters.copies == copies

    run(tmp_path, scenario)


def test_a_partition_that_is_placed_again_is_worked_on_once(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        most = running = 0
        original = node.tiering.copier.copy

        async def copy(tier: PartitionTier) -> None:
            nonlocal most, running
            running += 1
            most = max(most, running)
            try:
                await asyncio.Event().wait()
            finally:
                running -= 1

        node.tiering.copier.copy = copy  # type: ignore[method-assign]
        node.tiering.work()
        await eventually_async(lambda: running == 1)
        for _ in range(3):
            node.tiering.forget(node.partition)
            node.tiering.placed(node.partition)
            node.tiering.work()
            await asyncio.sleep(0)
            node.tiering.work()
            await asyncio.sleep(0)
            node.tiering.work()
        assert most == 1
        node.tiering.copier.copy = original  # type: ignore[method-assign]

    run(tmp_path, scenario)


def test_a_read_whose_transactions_are_slow_answers_with_nothing_for_now(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        await node.work()
        tier = node.tiering.tiers["t", 0]
        is_slow = asyncio.Event()

        async def slow(*_: object) -> list[AbortedTransaction]:
            is_slow.set()
            await asyncio.Event().wait()
            return []

        tier._aborted = slow  # type: ignore[method-assign]
        wanted = ReadRange(offset=3, max_bytes=1_000_000, committed=True)
        pending = node.partition.read(wanted)
        assert isinstance(pending, asyncio.Task)
        await is_slow.wait()
        node.clock.advance(501)
        await eventually_async(pending.done)
        assert pending.result().records is None

    run(tmp_path, scenario)


def test_a_follower_does_not_wait_for_ever_for_what_it_begins_with(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        node.append()
        await node.work()
        tier = node.tiering.tiers["t", 0]
        hangs = asyncio.Event()

        async def hang(job: Job) -> None:
            hangs.set()
            await asyncio.Event().wait()

        tier._run = hang
        start = asyncio.create_task(tier.local_start(node.log.epochs.entries[0].epoch, 44))
        await hangs.wait()
        node.clock.advance(10_001)
        await eventually_async(start.done)
        with pytest.raises(KafkaError) as caught:
            start.result()
        assert caught.value.error is Error.REQUEST_TIMED_OUT

    run(tmp_path, scenario)


def test_an_unexpected_error_does_not_end_the_reading_of_the_metadata(tmp_path: Path) -> None:
    async def scenario(node: TieredNode) -> None:
        [followed] = node.tiering.metadata._followed.values()
        fold, failures = followed._fold, []

        def failing(data: Buffer) -> bool:
            if not failures:
                failures.append("damaged")
                raise IndexError("damaged")
            return fold(data)

        followed._fold = failing  # type: ignore[method-assign]
        node.append()
        node.tiering.work()
        await eventually_async(lambda: failures)
        node.clock.advance(1_000)
        await eventually_async(lambda: not node.tiering.is_busy)
        assert len(list(node.tier_states())) == 3

    run(tmp_path, scenario)
