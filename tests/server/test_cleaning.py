"""Compaction in a running broker: in a worker process, during appends, and across restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any
from unittest.mock import patch

import pytest

from tests.eventually import eventually_async
from tests.in_process import InProcessBroker, now
from tests.log.cleaning import fold, records
from tests.manual_clock import ManualClock
from wirekafka.codec.record import Record, encode_batch
from wirekafka.log.checkpoints import CLEANER_OFFSETS, offsets_from
from wirekafka.log.compaction.cleaner import Cleaned, CleaningJob
from wirekafka.log.compaction.swap import Swap
from wirekafka.log.files import RealDisk, RealLock
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.metrics.measures import Measures
from wirekafka.server.background.cleaner_process import CleanerProcess, InlineCleaner
from wirekafka.server.background.cleaning import Cleaning
from wirekafka.server.monitoring.cleaner import CleanerCollector

COMPACTED = {
    "cleanup_policy": "compact",
    "segment_bytes": "1048576",
    "internal_segment_bytes": "2000",
    "min_cleanable_dirty_ratio": "0.01",
}


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    kafka = InProcessBroker(tmp_path / "data", manual_clock)
    kafka.create("t", **COMPACTED)
    yield kafka
    if any(path.startswith(str(tmp_path.resolve())) for path in RealLock._held):
        kafka.stop()


def put(kafka: InProcessBroker, count: int, keys: int = 10, topic: str = "t") -> None:
    now_ms = kafka.clock.now_ms()
    for number in range(count):
        record = Record(timestamp=now_ms, key=b"%d" % (number % keys), value=b"v%d" % number)
        kafka.partition(topic).leader.append_from_client(encode_batch([record]), 1, now_ms)


async def finished(cleaning: Cleaning) -> None:
    """Compact until no log is dirty enough to be compacted."""
    cleaning.start_if_due()
    await eventually_async(lambda: cleaning._task is None)


def test_a_dirty_topic_is_compacted_in_another_process(
    kafka: InProcessBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(kafka, 500)
    log = kafka.partition("t").log
    before, active = fold(log), log.segments.active.base_offset
    asyncio.run(finished(Cleaning(kafka.broker)))
    assert not caplog.records
    assert fold(log) == before
    survivors = [record.offset for _, record in records(log) if record.offset < active]
    assert survivors == list(range(active - 10, active))
    noted = offsets_from((tmp_path / "data" / CLEANER_OFFSETS).read_bytes())
    assert noted == {("t", 0): active}
    asyncio.run(finished(Cleaning(kafka.broker)))


def test_compactions_are_counted_while_there_are_metrics(
    tmp_path: Path, manual_clock: ManualClock
) -> None:
    measures = Measures()
    kafka = InProcessBroker(tmp_path / "data", manual_clock, measures=measures)
    kafka.create("t", **COMPACTED)
    put(kafka, 500)
    before_bytes = kafka.partition("t").log.size_bytes
    asyncio.run(finished(Cleaning(kafka.broker)))
    assert measures.compactions.count == 1
    assert measures.compacted_bytes == before_bytes - kafka.partition("t").log.size_bytes > 0
    kafka.stop()


def test_what_the_cleaner_has_found_is_reported(tmp_path: Path, manual_clock: ManualClock) -> None:
    measures = Measures()
    kafka = InProcessBroker(tmp_path / "data", manual_clock, measures=measures)
    for topic in ("t", "bad"):
        kafka.create(topic, **COMPACTED)
        put(kafka, 500, topic=topic)
    path = Path(kafka.partition("bad").log.segments[1].file.path)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    cleaning, collector = Cleaning(kafka.broker), CleanerCollector(measures, kafka.broker)

    def reported() -> dict[str, str]:
        for _ in collector.collect():
            pass
        text = "".join(part for table in collector.tables for part in table.texts())
        lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {
            name.partition("{")[0].removeprefix("kafka_log_logcleaner"): v for name, _, v in lines
        }

    assert "manager_time_since_last_run_ms" not in reported()
    assert cleaning._dirtiest() is not None
    assert reported()["manager_max_dirty_percent"] == "100"
    asyncio.run(finished(cleaning))
    manual_clock.advance(7_000)
    assert reported() == {
        "manager_time_since_last_run_ms": "7000",
        "manager_max_dirty_percent": "0",
        "manager_uncleanable_partitions_count": "1",
        "_max_clean_time_secs": "0",
        "_deadthreadcount": "0",
    }
    measures.cleaner.last_s = 90.5
    assert reported()["_max_clean_time_secs"] == "90"
    kafka.stop()


def test_the_rest_of_a_running_compaction_is_known(
    tmp_path: Path, manual_clock: ManualClock
) -> None:
    measures = Measures()
    kafka = InProcessBroker(tmp_path / "data", manual_clock, measures=measures)
    kafka.create("t", **COMPACTED | {"internal_segment_bytes": "300"})
    put(kafka, 500, keys=500)  # More segments than are merged into one.
    log = kafka.partition("t").log
    sealed_bytes = log.size_bytes - log.segments.active.size_bytes
    seen: list[int] = []

    class Observed(Cleaning):
        async def _swap_in(self, *swap: Any) -> None:
            seen.append(measures.compacting_bytes)
            await super()._swap_in(*swap)

    asyncio.run(finished(Observed(kafka.broker)))
    assert seen[0] == sealed_bytes and len(seen) > 1
    assert seen == sorted(set(seen), reverse=True) and seen[-1] > measures.compacting_bytes == 0
    kafka.stop()


def test_records_appended_during_a_compaction_are_kept(kafka: InProcessBroker) -> None:
    put(kafka, 500)

    async def scenario() -> int:
        cleaning = Cleaning(kafka.broker)
        cleaning.start_if_due()
        rounds = 0
        while cleaning._task is not None:
            put(kafka, 3)
            rounds += 1
            await asyncio.sleep(0.005)
        return rounds

    rounds = asyncio.run(scenario())
    log = kafka.partition("t").log
    assert rounds and log.end_offset == 500 + 3 * rounds
    assert {key: value for key, (_, value) in fold(log).items()} == {
        b"%d" % key: b"v%d" % (key if key < 3 else 490 + key) for key in range(10)
    }


def test_a_stop_during_a_compaction_ends_its_process_and_leaves_the_log_as_it_was(
    tmp_path: Path, manual_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    # At a byte per second, the worker process cannot finish before the stop.
    slow = {"log_cleaner_io_max_bytes_per_second": "1"}
    kafka = InProcessBroker(tmp_path / "data", manual_clock, **slow)
    kafka.create("t", **COMPACTED)
    put(kafka, 500)
    before = list(records(kafka.partition("t").log))

    async def scenario() -> None:
        cleaning = Cleaning(kafka.broker)
        cleaning.start_if_due()
        backend = cleaning._backend
        assert isinstance(backend, CleanerProcess)
        process = await eventually_async(lambda: backend._process)
        assert process is not None and process.returncode is None
        with patch.object(process, "kill", side_effect=process.kill) as kill:
            cleaning.stop()
            await eventually_async(lambda: cleaning._task is None)
        assert kill.call_count == 1 and process.returncode == -SIGKILL

    asyncio.run(scenario())
    assert not caplog.records
    kafka.stop()
    again = InProcessBroker(tmp_path / "data", manual_clock)
    assert list(records(again.partition("t").log)) == before
    again.stop()


def test_a_log_that_cannot_be_read_is_logged_once_and_skipped(
    kafka: InProcessBroker, caplog: pytest.LogCaptureFixture
) -> None:
    put(kafka, 500)
    path = Path(kafka.partition("t").log.segments[1].file.path)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    cleaning = Cleaning(kafka.broker)
    asyncio.run(finished(cleaning))
    assert "t-0 could not be compacted: BadBatch: checksum mismatch" in caplog.text
    caplog.clear()
    asyncio.run(finished(cleaning))
    assert not caplog.records


def test_after_a_failed_swap_the_next_log_is_compacted_by_its_own_job(
    kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create("u", **COMPACTED)
    put(kafka, 500)
    put(kafka, 300, topic="u")
    refused: list[str] = []
    is_possible = Swap.is_possible

    def once_refused(swap: Swap) -> bool:
        if not refused:
            refused.append(swap._log.name)
        return swap._log.name not in refused and is_possible(swap)

    monkeypatch.setattr(Swap, "is_possible", once_refused)
    asyncio.run(finished(Cleaning(kafka.broker)))
    assert f"{refused[0]} could not be compacted: its segments changed" in caplog.text
    [other] = {"t-0", "u-0"} - set(refused)
    log = kafka.partition(other[0]).log
    active = log.segments.active.base_offset
    survivors = [record.offset for _, record in records(log) if record.offset < active]
    assert survivors == list(range(active - 10, active))
    assert kafka.broker.directory_of(other[0], 0).cleaner_offsets == {(other[0], 0): active}


def test_a_failure_that_nobody_expected_delays_one_log_only(
    kafka: InProcessBroker, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create("u", **COMPACTED)
    put(kafka, 500)
    put(kafka, 500, topic="u")

    class Broken(InlineCleaner):
        failures = 0

        async def clean(self, job: CleaningJob) -> AsyncGenerator[Cleaned | int]:
            if not self.failures:
                self.failures += 1
                raise ValueError("surprise")
            async for progress in super().clean(job):
                yield progress

    cleaning = Cleaning(kafka.broker)
    cleaning._backend = Broken(RealDisk())
    asyncio.run(finished(cleaning))
    [report] = caplog.records
    assert "could not be compacted: surprise" in report.getMessage() and report.exc_info
    assert len(kafka.broker.directory_of("t", 0).cleaner_offsets) == 1


def test_a_deleted_topic_ends_its_compaction(
    kafka: InProcessBroker, caplog: pytest.LogCaptureFixture
) -> None:
    put(kafka, 500)

    async def scenario() -> None:
        cleaning = Cleaning(kafka.broker)
        cleaning._backend = InlineCleaner(RealDisk())
        cleaning.start_if_due()
        await asyncio.sleep(0)
        now(kafka.broker.controller.submit(DeleteTopics([TopicReference(name="t")])))
        await eventually_async(lambda: cleaning._task is None)

    asyncio.run(scenario())
    assert "t-0 could not be compacted" in caplog.text


def test_internal_topics_are_rolled_early_so_that_they_are_compacted(
    kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create("__consumer_offsets", cleanup_policy="compact", segment_bytes="104857600")
    partition = kafka.partition("__consumer_offsets")
    for number in range(300):
        record = Record(timestamp=kafka.clock.now_ms(), key=b"\0\x01key", value=b"%d" % number)
        partition.leader.append_from_coordinator(encode_batch([record]))
    monkeypatch.setattr("wirekafka.server.background.cleaning._INTERNAL_ROLL_BYTES", 10_000)
    asyncio.run(finished(Cleaning(kafka.broker)))
    assert [record.offset for _, record in records(partition.log)] == [299]


def test_no_segment_is_replaced_while_a_snapshot_takes_files(
    kafka: InProcessBroker, tmp_path: Path
) -> None:
    put(kafka, 500)
    log = kafka.partition("t").log
    segments, cleaning = log.segments[:], Cleaning(kafka.broker)

    async def compacted() -> None:
        kafka.broker.disk.holds += 1
        cleaning.start_if_due()
        await eventually_async(lambda: [*Path(log.directory).glob("*.cleaned")])
        await eventually_async(lambda: cleaning._task is not None and is_waiting(cleaning._task))
        assert log.segments[:] == segments
        kafka.broker.disk.holds -= 1
        await eventually_async(lambda: cleaning._task is None)

    asyncio.run(compacted())
    assert log.segments[:] != segments


def is_waiting(task: asyncio.Task[None]) -> bool:
    frames = []
    coroutine: Any = task.get_coro()
    while coroutine is not None and hasattr(coroutine, "cr_code"):
        frames.append(coroutine.cr_code.co_name)
        coroutine = coroutine.cr_await
    return "_until_released" in frames
