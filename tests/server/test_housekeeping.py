"""Housekeeping under a manual clock: retention, deletion, checkpoints, syncing, a full disk."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from wirekafka.errors import Error, KafkaError
from wirekafka.log.checkpoints import offsets_from
from wirekafka.log.files import RealDisk
from wirekafka.metadata.topics import DeleteTopics, TopicReference
from wirekafka.server.housekeeping import Housekeeping

DAY_MS = 86_400_000


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    kafka = InProcessBroker(tmp_path / "data", manual_clock)
    yield kafka
    kafka.stop()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


async def advance(kafka: InProcessBroker, total_ms: int, step_ms: int = 1000) -> None:
    for _ in range(0, total_ms, step_ms):
        kafka.clock.advance(step_ms)
        await asyncio.sleep(0)


def append(kafka: InProcessBroker, *values: bytes, topic: str = "t") -> None:
    kafka.partition(topic).append_from_client(
        batch(*values, timestamp=kafka.clock.now_ms()), 1, kafka.clock.now_ms())


def test_retention_by_time_deletes_old_segments(kafka: InProcessBroker) -> None:
    kafka.create("t", retention_ms=str(DAY_MS), segment_ms=str(DAY_MS // 2))

    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, [])
        housekeeping.start()
        append(kafka, b"old")
        await advance(kafka, DAY_MS, 300_000)
        append(kafka, b"new")
        assert kafka.partition("t").log.start_offset == 0
        await advance(kafka, DAY_MS // 2, 300_000)
        assert kafka.partition("t").log.start_offset == 1
        housekeeping.stop()
    run(scenario())


def test_a_deleted_topics_files_go_after_the_delay(kafka: InProcessBroker,
                                                   tmp_path: Path) -> None:
    kafka.create("t", file_delete_delay_ms="60000")
    append(kafka, b"x")

    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, [])
        housekeeping.start()
        await kafka.broker.controller.submit(DeleteTopics([TopicReference(name="t")]))
        [aside] = (tmp_path / "data").glob("t-0*")
        assert aside.name.endswith("-delete")
        await advance(kafka, 59_000)
        assert aside.exists()
        await advance(kafka, 12_000)
        assert not aside.exists()
        housekeeping.stop()
    run(scenario())


def test_checkpoints_are_written_when_something_moved(kafka: InProcessBroker,
                                                      tmp_path: Path) -> None:
    kafka.create("t")
    path = tmp_path / "data" / "replication-offset-checkpoint"

    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, [])
        housekeeping.start()
        append(kafka, b"a", b"b")
        await advance(kafka, 61_000)
        assert offsets_from(path.read_bytes()) == {("t", 0): 2}
        written = path.stat().st_mtime_ns
        await advance(kafka, 180_000)
        assert path.stat().st_mtime_ns == written
        housekeeping.stop()
    run(scenario())


def test_sealed_segments_are_synced_soon(kafka: InProcessBroker) -> None:
    kafka.create("t", segment_ms="1000")

    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, [])
        housekeeping.start()
        append(kafka, b"a")
        await advance(kafka, 5000)
        append(kafka, b"b")
        assert kafka.partition("t").log.recovery_point == 0
        async with asyncio.timeout(10):
            while kafka.partition("t").log.recovery_point < 2:
                await advance(kafka, 1000)
                await asyncio.sleep(0.002)
        housekeeping.stop()
    run(scenario())


def test_flush_ms_syncs_in_time(kafka: InProcessBroker) -> None:
    kafka.create("t", flush_ms="5000")

    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, [])
        housekeeping.start()
        append(kafka, b"a")
        await advance(kafka, 4000)
        assert kafka.partition("t").log.recovery_point == 0
        async with asyncio.timeout(10):
            while kafka.partition("t").log.recovery_point < 1:
                await advance(kafka, 1000)
                await asyncio.sleep(0.002)
        housekeeping.stop()
    run(scenario())


def test_flush_messages_syncs_before_the_answer(kafka: InProcessBroker,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.create("t", flush_messages="2")
    append(kafka, b"a")
    assert kafka.partition("t").log.recovery_point == 0
    append(kafka, b"b")
    assert kafka.partition("t").log.recovery_point == 2

    def broken() -> None:
        raise OSError("the medium is gone")
    append(kafka, b"c")
    monkeypatch.setattr("wirekafka.log.flush.Flush.run", lambda self: broken())
    for _ in range(2):
        with pytest.raises(KafkaError) as caught:
            append(kafka, b"d")
        assert caught.value.error is Error.KAFKA_STORAGE_ERROR
    assert kafka.partition("t").high_watermark == 3
    monkeypatch.undo()


def test_a_full_disk_refuses_records_and_takes_them_again(
        kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.create("t")
    append(kafka, b"a")

    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, [])
        housekeeping.start()
        monkeypatch.setattr(RealDisk, "free_bytes", lambda self, path: 1000)
        await advance(kafka, 2000)
        with pytest.raises(KafkaError) as caught:
            append(kafka, b"b")
        assert caught.value.error is Error.KAFKA_STORAGE_ERROR
        kafka.create("made-meanwhile")
        monkeypatch.undo()
        await advance(kafka, 2000)
        append(kafka, b"b")
        assert kafka.partition("t").log.end_offset == 2
        housekeeping.stop()
    run(scenario())


def test_a_task_that_fails_is_told_once_and_done_again(
        kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, [])
        housekeeping.start()
        for _ in range(2):
            monkeypatch.setattr(RealDisk, "free_bytes", lambda self, path: 1 // 0)
            await advance(kafka, 3000)
            monkeypatch.undo()
            await advance(kafka, 3000)
        housekeeping.stop()
    run(scenario())
    assert caplog.text.count("check_space failed") == 2


def test_after_the_stop_nothing_is_done(kafka: InProcessBroker,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, [])
        housekeeping.start()
        housekeeping.stop()
        monkeypatch.setattr(RealDisk, "free_bytes", lambda self, path: 1000)
        await advance(kafka, 5000)
        monkeypatch.undo()
    run(scenario())
    kafka.create("t")
    append(kafka, b"a")
