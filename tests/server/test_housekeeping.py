"""Housekeeping under a manual clock: retention, deletion, checkpoints, syncing, a full disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually_async
from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from tests.replication.replicas import FakeBrokers
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log.checkpoints import offsets_from
from wirekafka.log.files import RealDisk
from wirekafka.log.log import Log
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.replication.partition.replica import Leadership
from wirekafka.server.background.housekeeping import Housekeeping
from wirekafka.server.node import Node

HOUR_MS = 3_600_000


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


async def synced(kafka: InProcessBroker, offset: int) -> None:
    """Let time pass until the log is synced up to an offset."""

    async def is_synced() -> bool:
        await advance(kafka, 1000)
        return kafka.partition("t").log.recovery_point >= offset

    await eventually_async(is_synced)


def append(kafka: InProcessBroker, *values: bytes, topic: str = "t") -> None:
    kafka.partition(topic).leader.append_from_client(
        batch(*values, timestamp=kafka.clock.now_ms()), 1, kafka.clock.now_ms()
    )


def test_retention_by_time_deletes_old_segments(kafka: InProcessBroker) -> None:
    kafka.create("t", retention_ms=str(HOUR_MS), segment_ms=str(HOUR_MS // 2))

    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, list)
        housekeeping.start()
        append(kafka, b"old")
        await advance(kafka, HOUR_MS, 300_000)
        append(kafka, b"new")
        assert kafka.partition("t").log.start_offset == 0
        await advance(kafka, HOUR_MS // 2, 300_000)
        assert kafka.partition("t").log.start_offset == 1
        housekeeping.stop()

    run(scenario())


def test_retention_yields_to_requests_after_a_few_partitions(
    kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcde":
        kafka.create(name)
    looked_at = []

    def look(log: Log, now_ms: int, high_watermark: int) -> int:
        looked_at.append(log.name)
        kafka.clock.sleep(1)
        return 0

    monkeypatch.setattr(Log, "delete_old_segments", look)
    housekeeping = Housekeeping(kafka.broker, list)
    housekeeping.start()
    kafka.clock.advance(kafka.broker.config.log_retention_check_interval_ms)
    first = len(looked_at)
    kafka.clock.advance(100)
    housekeeping.stop()
    assert 0 < first < 5
    assert sorted(looked_at) == ["a-0", "b-0", "c-0", "d-0", "e-0"]


class Crowd:
    """Stands in for a listener whose connections are checked in five steps."""

    def __init__(self) -> None:
        self.checked: list[int] = []
        self.fails_at: int | None = None

    def sweep_in_steps(self, now_ms: int) -> Iterator[None]:
        for number in range(5):
            if number == self.fails_at:
                raise ValueError(number)
            self.checked.append(number)
            yield

    def review(self) -> None:
        pass


def test_connections_are_checked_a_few_at_a_time(kafka: InProcessBroker) -> None:
    listeners: list[Any] = [Crowd(), Crowd()]
    housekeeping = Housekeeping(kafka.broker, lambda: listeners)
    housekeeping.start()
    kafka.clock.advance(5_000)
    assert listeners[0].checked == [0]
    kafka.clock.advance(1_000)
    assert [each.checked for each in listeners] == [[0, 1, 2, 3, 4]] * 2
    kafka.clock.advance(5_000)
    housekeeping.stop()
    assert [each.checked for each in listeners] == [[0, 1, 2, 3, 4] * 2] * 2


def test_a_check_of_connections_that_fails_begins_anew(kafka: InProcessBroker) -> None:
    crowd: Any = Crowd()
    housekeeping = Housekeeping(kafka.broker, lambda: [crowd])
    housekeeping.start()
    crowd.fails_at = 2
    kafka.clock.advance(6_000)
    crowd.fails_at = None
    kafka.clock.advance(5_000)
    housekeeping.stop()
    assert crowd.checked == [0, 1, 0, 1, 2, 3, 4]


def test_a_deleted_topics_files_are_removed_after_the_delay(
    kafka: InProcessBroker, tmp_path: Path
) -> None:
    kafka.create("t", file_delete_delay_ms="60000")
    append(kafka, b"x")

    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, list)
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


def test_many_deleted_partitions_are_removed_a_few_files_at_a_time(
    kafka: InProcessBroker, tmp_path: Path
) -> None:
    kafka.create("t", 60, file_delete_delay_ms="1000")

    def files_left() -> int:
        return len(list((tmp_path / "data").glob("t-*/*")))

    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, list)
        housekeeping.start()
        await kafka.broker.controller.submit(DeleteTopics([TopicReference(name="t")]))
        await advance(kafka, 9_999, 9_999)
        left = [files_left()]
        assert left == [120]
        while left[-1] and len(left) < 100:
            await advance(kafka, 1, 1)
            left.append(files_left())
        assert max(before - after for before, after in pairwise(left)) == 40
        await advance(kafka, 100, 1)
        assert not list((tmp_path / "data").glob("t-*"))
        housekeeping.stop()

    run(scenario())


def test_checkpoints_are_written_when_an_offset_has_changed(
    kafka: InProcessBroker, tmp_path: Path
) -> None:
    kafka.create("t")
    path = tmp_path / "data" / "replication-offset-checkpoint"

    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, list)
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
        housekeeping = Housekeeping(kafka.broker, list)
        housekeeping.start()
        append(kafka, b"a")
        await advance(kafka, 5000)
        append(kafka, b"b")
        assert kafka.partition("t").log.recovery_point == 0
        await synced(kafka, 2)
        housekeeping.stop()

    run(scenario())


def test_flush_ms_syncs_in_time(kafka: InProcessBroker) -> None:
    kafka.create("t", flush_ms="5000")

    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, list)
        housekeeping.start()
        append(kafka, b"a")
        await advance(kafka, 4000)
        assert kafka.partition("t").log.recovery_point == 0
        await synced(kafka, 1)
        housekeeping.stop()

    run(scenario())


def test_flush_messages_syncs_before_the_response(
    kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_full_disk_refuses_records_until_there_is_room(
    kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create("t")
    append(kafka, b"a")

    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, list)
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


@pytest.mark.parametrize(
    ("free_mib", "checks"), [(32, 100), (32 + 100, 10), (32 + 500, 2), (1 << 20, 1), (31, 1)]
)
def test_the_free_space_is_checked_the_sooner_the_less_is_free(
    kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch, free_mib: int, checks: int
) -> None:
    asked: list[str] = []

    def free_bytes(disk: RealDisk, path: str) -> int:
        asked.append(path)
        return free_mib << 20

    async def scenario() -> None:
        monkeypatch.setattr(RealDisk, "free_bytes", free_bytes)
        housekeeping = Housekeeping(kafka.broker, list)
        housekeeping.start()
        await advance(kafka, 1000)
        asked.clear()
        await advance(kafka, 1000, step_ms=10)
        housekeeping.stop()

    run(scenario())
    assert len(asked) == checks


def test_a_task_that_fails_is_logged_once_and_run_again(
    kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, list)
        housekeeping.start()
        for _ in range(2):
            monkeypatch.setattr(RealDisk, "free_bytes", lambda self, path: 1 // 0)
            await advance(kafka, 3000)
            monkeypatch.undo()
            await advance(kafka, 3000)
        housekeeping.stop()

    run(scenario())
    assert caplog.text.count("check_space failed") == 2


def test_no_task_runs_after_the_stop(
    kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, list)
        housekeeping.start()
        housekeeping.stop()
        monkeypatch.setattr(RealDisk, "free_bytes", lambda self, path: 1000)
        await advance(kafka, 5000)
        monkeypatch.undo()

    run(scenario())
    kafka.create("t")
    append(kafka, b"a")


def test_high_watermarks_are_checkpointed_every_five_seconds_with_followers_or_without(
    kafka: InProcessBroker, tmp_path: Path
) -> None:
    path = tmp_path / "data" / "replication-offset-checkpoint"
    for name in ("t", "alone"):
        kafka.create(name)
    kafka.partition("t").brokers = FakeBrokers(1, 2)

    def checkpointed() -> dict[tuple[str, int], int]:
        return offsets_from(path.read_bytes()) if path.exists() else {}

    async def becomes(expected: dict[tuple[str, int], int]) -> None:
        async def is_written() -> bool:
            await advance(kafka, 1_000)
            return checkpointed() == expected

        await eventually_async(is_written)

    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, list)
        housekeeping.start()
        append(kafka, b"x", topic="alone")
        await becomes({("t", 0): 0, ("alone", 0): 1})
        partition = kafka.partition("t")
        partition.lead(Leadership(leader_id=1, leader_epoch=1, isr=(1, 2), replicas=(1, 2)))
        append(kafka, b"a")
        append(kafka, b"b")
        partition.leading().follower_fetched(2, 1, 0, -1, kafka.clock.now_ms())

        await becomes({("t", 0): 1, ("alone", 0): 1})
        housekeeping.stop()

    run(scenario())


def test_batches_are_checked_while_a_file_of_a_config_provider_is_read(tmp_path: Path) -> None:
    settings = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
    is_read = threading.Event()

    def read() -> None:
        is_read.wait()

    async def scenario() -> None:
        node = Node(BrokerConfig.of(settings))
        await node.start()
        is_checked = asyncio.Event()
        node.broker.run_apart(read, lambda error: None)
        node.broker.check_apart(lambda: None, lambda error: is_checked.set())
        async with asyncio.timeout(30):
            await is_checked.wait()
        is_read.set()
        await node.stop()

    try:
        run(scenario())
    finally:
        is_read.set()
