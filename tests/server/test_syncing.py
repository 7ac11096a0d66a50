"""flush.messages: an acknowledgement means synced, and those who wait share one sync."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.in_process import Exchange, InProcessBroker, batch
from tests.manual_clock import ManualClock
from wirekafka.apis.produce import ProduceRequest
from wirekafka.errors import Error, KafkaError
from wirekafka.log.flush import Flush
from wirekafka.server.housekeeping import Housekeeping

TopicData = ProduceRequest.TopicProduceData


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    kafka = InProcessBroker(tmp_path / "data", manual_clock)
    kafka.create("t", flush_messages="1")
    kafka.create("other")
    yield kafka
    with suppress(KafkaError):  # Its medium may be gone.
        kafka.stop()


@pytest.fixture
def medium(monkeypatch: pytest.MonkeyPatch) -> Medium:
    return Medium(monkeypatch)


class Medium:
    """A slow one: each sync ends when it is let to, or fails."""

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

    async def finish(self, count: int) -> None:
        """Let so many more syncs end, and have what follows from it happen."""
        self._may_end.release(count)
        await asyncio.sleep(0.1)


def produce(kafka: InProcessBroker, acks: int) -> Exchange:
    data = TopicData.PartitionProduceData(index=0, records=batch(b"v"))
    request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[
        TopicData(name="t", partition_data=[data])])
    return kafka.begin(request, 9)


def error_of(exchange: Exchange) -> int:
    return int(exchange.response.responses[0].partition_responses[0].error_code)


def test_producers_wait_for_the_medium_together(kafka: InProcessBroker, medium: Medium) -> None:
    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, [])
        housekeeping.start()
        partition = kafka.partition("t")
        first = produce(kafka, 1)
        await asyncio.sleep(0.05)
        rest = [produce(kafka, acks) for acks in (-1, 1) * 10]
        await asyncio.sleep(0.05)
        assert not first.is_done and not any(each.is_done for each in rest)
        assert partition.high_watermark == 0, "nobody reads what may still be lost"
        await medium.finish(1)
        assert first.is_done and not any(each.is_done for each in rest)
        assert partition.high_watermark == 1
        await medium.finish(1)
        assert all(each.is_done and error_of(each) == 0 for each in rest)
        assert partition.high_watermark == partition.log.recovery_point == 21
        assert medium.syncs == [1, 21]
        housekeeping.stop()
        await medium.finish(9)

    asyncio.run(scenario())


def test_what_could_not_be_synced_is_refused_and_nothing_is_tried_again(
    kafka: InProcessBroker, medium: Medium
) -> None:
    async def scenario() -> None:
        housekeeping = Housekeeping(kafka.broker, [])
        housekeeping.start()
        medium.error = OSError("the medium is gone")
        waiting = [produce(kafka, acks) for acks in (1, -1)]
        await medium.finish(1)
        assert [error_of(each) for each in waiting] == [Error.KAFKA_STORAGE_ERROR] * 2
        later = produce(kafka, 1)
        assert later.is_done and error_of(later) == Error.KAFKA_STORAGE_ERROR
        assert kafka.partition("other").log.has_failed, "it is on the same medium"
        assert len(medium.syncs) == 1
        medium.error = None
        housekeeping.stop()
        await medium.finish(99)

    asyncio.run(scenario())
