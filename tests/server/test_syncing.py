"""flush.messages: acknowledged records are synced, and waiting requests share one sync."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.eventually import eventually_async
from tests.in_process import Exchange, InProcessBroker, batch
from tests.manual_clock import ManualClock
from wirekafka.errors import Error, KafkaError
from wirekafka.log.flush import Flush
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.protocol.write_txn_markers import WriteTxnMarkersRequest
from wirekafka.server.background.housekeeping import Housekeeping
from wirekafka.server.background.syncing import Syncing

TopicData = ProduceRequest.TopicProduceData


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    kafka = InProcessBroker(tmp_path / "data", manual_clock)
    kafka.create("t", flush_messages="1")
    kafka.create("pairs", flush_messages="2")
    kafka.create("other")
    yield kafka
    with suppress(KafkaError):  # The simulated disk may refuse the stop's sync.
        kafka.stop()


@pytest.fixture
def medium(monkeypatch: pytest.MonkeyPatch) -> Medium:
    return Medium(monkeypatch)


class Medium:
    """A slow disk: each sync ends or fails when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.syncs: list[int] = []
        self.error: OSError | None = None
        self._may_end = threading.Semaphore(0)
        run, medium = Flush.run, self

        def slow(flush: Flush) -> None:
            medium.syncs.append(flush.end_offset)
            assert medium._may_end.acquire(timeout=10)
            if medium.error is not None:
                raise medium.error
            run(flush)

        monkeypatch.setattr(Flush, "run", slow)

    async def finish(self, *waiting: Exchange) -> None:
        """Let one more sync end, and wait until these requests have responses."""
        self._may_end.release()
        await eventually_async(lambda: all(each.is_done for each in waiting))

    def let_go(self) -> None:
        """Let all further syncs end at once."""
        self._may_end.release(99)

    async def begun(self, count: int) -> None:
        """Wait until this number of syncs have begun."""
        await eventually_async(lambda: len(self.syncs) >= count)


def play(kafka: InProcessBroker, medium: Medium, scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario with held syncs; at the end all syncs are released."""

    async def played() -> None:
        housekeeping = Housekeeping(kafka.broker, list)
        housekeeping.start()
        try:
            await scenario()
        finally:
            housekeeping.stop()
            medium.let_go()

    asyncio.run(played())


def produce(kafka: InProcessBroker, acks: int, topic: str = "t") -> Exchange:
    data = TopicData.PartitionProduceData(index=0, records=batch(b"v"))
    request = ProduceRequest(
        acks=acks, timeout_ms=30_000, topic_data=[TopicData(name=topic, partition_data=[data])]
    )
    return kafka.begin(request, 9)


def error_of(exchange: Exchange) -> int:
    return int(exchange.response.responses[0].partition_responses[0].error_code)


def test_producers_share_one_sync(kafka: InProcessBroker, medium: Medium) -> None:
    async def scenario() -> None:
        partition = kafka.partition("t")
        first = produce(kafka, 1)
        await medium.begun(1)
        rest = [produce(kafka, acks) for acks in (-1, 1) * 10]
        await asyncio.sleep(0.05)
        assert not first.is_done and not any(each.is_done for each in rest)
        assert partition.high_watermark == 0, "nobody reads what may still be lost"
        await medium.finish(first)
        await medium.begun(2)
        assert not any(each.is_done for each in rest)
        assert partition.high_watermark == 1
        await medium.finish(*rest)
        assert all(error_of(each) == 0 for each in rest)
        assert partition.high_watermark == partition.log.recovery_point == 21
        assert medium.syncs == [1, 21]

    play(kafka, medium, scenario)


def test_a_log_has_one_sync_at_a_time_whoever_asks_for_it(
    kafka: InProcessBroker, medium: Medium
) -> None:
    async def scenario() -> None:
        partition = kafka.partition("pairs")
        syncing = Syncing(kafka.broker)
        syncing.start()
        first = [produce(kafka, 1, "pairs") for _ in range(2)]
        await medium.begun(1)
        first.append(produce(kafka, 1, "pairs"))
        periodic = asyncio.create_task(syncing.sync(partition))
        await medium.finish(*first)
        await medium.begun(2)
        later = produce(kafka, 1, "pairs")
        await asyncio.sleep(0.05)
        assert medium.syncs == [2, 3] and not later.is_done
        await medium.finish()
        assert await periodic
        await medium.begun(3)
        await medium.finish(later)
        assert medium.syncs == [2, 3, 4]

    play(kafka, medium, scenario)


def test_a_deleted_partition_is_not_synced(kafka: InProcessBroker, medium: Medium) -> None:
    async def scenario() -> None:
        medium.let_go()  # The controller syncs its log.
        partition = kafka.partition("other")
        await kafka.broker.controller.submit(DeleteTopics([TopicReference(name="other")]))
        earlier = list(medium.syncs)
        assert not await Syncing(kafka.broker).sync(partition)
        assert medium.syncs == earlier

    play(kafka, medium, scenario)


def test_records_that_could_not_be_synced_are_refused_without_a_retry(
    kafka: InProcessBroker, medium: Medium
) -> None:
    async def scenario() -> None:
        medium.error = OSError("the medium is gone")
        waiting = [produce(kafka, acks) for acks in (1, -1)]
        await medium.finish(*waiting)
        assert [error_of(each) for each in waiting] == [Error.KAFKA_STORAGE_ERROR] * 2
        later = produce(kafka, 1)
        assert later.is_done and error_of(later) == Error.KAFKA_STORAGE_ERROR
        assert kafka.partition("other").log.has_failed, "it is on the same medium"
        assert len(medium.syncs) == 1
        medium.error = None

    play(kafka, medium, scenario)


def test_the_markers_of_another_coordinator_are_acknowledged_once_they_are_synced(
    kafka: InProcessBroker, medium: Medium
) -> None:
    async def scenario() -> None:
        written = write_marker(kafka)
        await asyncio.sleep(0.05)
        assert not written.is_done
        await medium.finish(written)
        assert marker_error(written) == Error.NONE
        unsynced = write_marker(kafka)
        medium.error = OSError("gone")
        await medium.finish(unsynced)
        assert marker_error(unsynced) == Error.NOT_LEADER_OR_FOLLOWER

    play(kafka, medium, scenario)


def write_marker(kafka: InProcessBroker) -> Exchange:
    kind = WriteTxnMarkersRequest.WritableTxnMarker
    return kafka.begin(
        WriteTxnMarkersRequest(
            markers=[
                kind(
                    producer_id=7,
                    producer_epoch=0,
                    transaction_result=True,
                    coordinator_epoch=0,
                    topics=[kind.WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
                )
            ]
        ),
        1,
    )


def marker_error(exchange: Exchange) -> int:
    return int(exchange.response.markers[0].topics[0].partitions[0].error_code)
