"""Compaction in a running broker: in a worker process, during appends, and across restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL

import pytest

from tests.eventually import eventually_async
from tests.in_process import InProcessBroker, now
from tests.log.cleaning import fold, records
from tests.manual_clock import ManualClock
from wirekafka.codec.record import Record, encode_batch
from wirekafka.log.checkpoints import CLEANER_OFFSETS, offsets_from
from wirekafka.log.files import RealDisk, RealLock
from wirekafka.metadata.topics import DeleteTopics, TopicReference
from wirekafka.server.cleaner_process import CleanerProcess, InlineCleaner
from wirekafka.server.cleaning import Cleaning

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


def put(kafka: InProcessBroker, count: int, keys: int = 10) -> None:
    now_ms = kafka.clock.now_ms()
    for number in range(count):
        record = Record(timestamp=now_ms, key=b"%d" % (number % keys), value=b"v%d" % number)
        kafka.partition("t").leader.append_from_client(encode_batch([record]), 1, now_ms)


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
        cleaning.stop()
        await eventually_async(lambda: cleaning._task is None)
        assert process.returncode == -SIGKILL

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
    monkeypatch.setattr("wirekafka.server.cleaning._INTERNAL_ROLL_BYTES", 10_000)
    asyncio.run(finished(Cleaning(kafka.broker)))
    assert [record.offset for _, record in records(partition.log)] == [299]
