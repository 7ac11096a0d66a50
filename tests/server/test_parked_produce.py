"""Repeated Produce requests with acks=all that wait: as the handler, without its coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import Exchange, InProcessBroker, batch
from tests.manual_clock import ManualClock
from tests.replication.replicas import FakeBrokers
from wirekafka.errors import Error
from wirekafka.metrics.measures import Measures
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.replica import Leadership
from wirekafka.server.connections.parked_produce import ParkedProduce

Topic = ProduceRequest.TopicProduceData
Data = Topic.PartitionProduceData

LED = Leadership(leader_id=1, leader_epoch=5, partition_epoch=5, isr=(1, 2), replicas=(1, 2))
LED_ELSEWHERE = Leadership(
    leader_id=2, leader_epoch=6, partition_epoch=6, isr=(1, 2), replicas=(1, 2)
)
ALONE = Leadership(leader_id=1, leader_epoch=5, partition_epoch=6, isr=(1,), replicas=(1, 2))
TIMEOUT_MS = 1000


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on an event loop, and stop its broker there."""

    async def run_and_stop(stage: Stage, **fixtures: Any) -> None:
        await test(stage=stage, **fixtures)
        stage.kafka.stop()

    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(run_and_stop(**fixtures))

    return run


class Stage:
    """A partition with a follower, and the parked requests that the cache has made."""

    def __init__(self, kafka: InProcessBroker, parked: list[ParkedProduce]):
        self.kafka = kafka
        self.parked = parked
        self.topic_id = kafka.create("t")
        self.partition: Partition = kafka.partition("t")
        self.partition.brokers = FakeBrokers(1, 2)
        self.partition.lead(LED)

    def begin(self, *values: bytes, acks: int = -1, version: int = 9, **options: Any) -> Exchange:
        topic = Topic(name="t") if version < 13 else Topic(topic_id=self.topic_id)
        topic.partition_data = [Data(index=0, records=batch(*values, **options))]
        request = ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=[topic])
        return self.kafka.begin(request, version)

    def be_strict(self) -> None:
        """Set min.insync.replicas to 2."""
        self.kafka.create("strict", min_insync_replicas="2")
        self.partition.configure(self.kafka.partition("strict").log.config)

    def fetched(self, offset: int) -> None:
        """The follower fetches from an offset on."""
        self.partition.leading().follower_fetched(2, offset, 0, 10, self.kafka.clock.now_ms())


@pytest.fixture
def measures() -> Measures | None:
    return None


@pytest.fixture
def stage(
    tmp_path: Path,
    manual_clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    measures: Measures | None,
) -> Stage:
    kafka = InProcessBroker(tmp_path / "data", manual_clock, measures=measures)
    parked: list[ParkedProduce] = []
    begin = ParkedProduce.__init__

    def noted(self: ParkedProduce, *arguments: Any) -> None:
        begin(self, *arguments)
        parked.append(self)

    monkeypatch.setattr(ParkedProduce, "__init__", noted)
    return Stage(kafka, parked)


def answer_of(exchange: Exchange) -> Any:
    [topic] = exchange.response.responses
    [answer] = topic.partition_responses
    return answer


async def _replicate(stage: Stage) -> None:
    stage.fetched(stage.partition.end_offset)


async def _time_out(stage: Stage) -> None:
    stage.kafka.clock.advance(TIMEOUT_MS)


async def _lead_elsewhere(stage: Stage) -> None:
    stage.partition.follow(LED_ELSEWHERE)


async def _lose_the_follower(stage: Stage) -> None:
    stage.partition.lead(ALONE)


async def _shrink_after_the_commit(stage: Stage) -> None:
    stage.be_strict()
    stage.fetched(stage.partition.end_offset)
    stage.partition.lead(ALONE)


async def _fail_the_log(stage: Stage) -> None:
    stage.partition.log.fail("the disk is gone")
    stage.partition.wake_all()


async def _shut_down(stage: Stage) -> None:
    stage.kafka.broker.waiting.close()


Ending = Callable[[Stage], Coroutine[Any, Any, None]]
ENDINGS: list[tuple[Ending, Error]] = [
    (_replicate, Error.NONE),
    (_time_out, Error.REQUEST_TIMED_OUT),
    (_lead_elsewhere, Error.NOT_LEADER_OR_FOLLOWER),
    (_lose_the_follower, Error.NONE),
    (_shrink_after_the_commit, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    (_fail_the_log, Error.KAFKA_STORAGE_ERROR),
    (_shut_down, Error.REQUEST_TIMED_OUT),
]


@pytest.mark.parametrize(("ending", "error"), ENDINGS)
@pytest.mark.parametrize("version", [9, 10, 12, 13])
@in_loop
async def test_a_repeated_request_ends_as_one_that_is_decoded(
    stage: Stage, ending: Ending, error: Error, version: int
) -> None:
    decoded = stage.begin(b"first", version=version)
    repeated = stage.begin(b"again", version=version)
    assert not decoded.is_done and not repeated.is_done
    assert len(stage.parked) == 1 and len(stage.kafka.broker.waiting) == 2
    await ending(stage)
    await decoded.settled()
    assert decoded.is_done and repeated.is_done
    first, second = answer_of(decoded), answer_of(repeated)
    assert (first.error_code, second.error_code) == (error, error)
    assert (first.base_offset, second.base_offset) == (0, 1)
    second.base_offset = 0
    assert first == second
    assert decoded.response.node_endpoints == repeated.response.node_endpoints
    assert [len(topic.name) for topic in repeated.response.responses] == [int(version < 13)]
    assert not stage.partition.uncommitted and not len(stage.kafka.broker.waiting)


@in_loop
async def test_only_the_batches_below_the_high_watermark_are_acknowledged(stage: Stage) -> None:
    exchanges = [stage.begin(b"%d" % number) for number in range(4)]
    stage.fetched(0)
    stage.fetched(2)
    await exchanges[0].settled()
    assert [each.is_done for each in exchanges] == [True, True, False, False]
    stage.fetched(4)
    await exchanges[0].settled()
    assert [answer_of(each).base_offset for each in exchanges] == [0, 1, 2, 3]
    assert len(stage.parked) == 3


@pytest.mark.parametrize("acks", [0, 1])
@in_loop
async def test_a_request_that_asks_for_less_does_not_wait(stage: Stage, acks: int) -> None:
    for number in range(3):
        exchange = stage.begin(b"%d" % number, acks=acks)
        assert exchange.is_done
        if acks:
            assert (answer_of(exchange).error_code, answer_of(exchange).base_offset) == (0, number)
    assert stage.partition.end_offset == 3 and not stage.parked
    assert stage.partition.high_watermark == 0


@in_loop
async def test_the_repetition_of_a_batch_that_still_waits_waits_for_that_one(stage: Stage) -> None:
    producer = {"producer_id": 5, "producer_epoch": 0}
    stage.begin(b"a", base_sequence=0, **producer)
    stage.begin(b"b", base_sequence=1, **producer)
    later = stage.begin(b"c", base_sequence=2, **producer)
    again = stage.begin(b"b", base_sequence=1, **producer)
    assert stage.partition.end_offset == 3 and len(stage.parked) == 3
    stage.fetched(2)
    await again.settled()
    assert again.is_done and not later.is_done
    assert (answer_of(again).error_code, answer_of(again).base_offset) == (0, 1)
    stage.fetched(3)
    await later.settled()
    assert answer_of(later).base_offset == 2


@in_loop
async def test_a_client_that_has_gone_leaves_nothing_behind(stage: Stage) -> None:
    stage.begin(b"a").abandon()
    gone = stage.begin(b"b")
    assert stage.partition.uncommitted and len(stage.kafka.broker.waiting) == 1
    gone.abandon()
    assert not stage.partition.uncommitted and not len(stage.kafka.broker.waiting)
    stage.fetched(2)
    await gone.settled()
    assert gone.response is None and stage.partition.high_watermark == 2


@in_loop
async def test_too_few_replicas_are_left_to_the_handler_which_refuses(stage: Stage) -> None:
    first = stage.begin(b"a")
    stage.be_strict()
    stage.partition.lead(ALONE)
    refused = stage.begin(b"b")
    assert answer_of(refused).error_code == Error.NOT_ENOUGH_REPLICAS
    assert stage.partition.end_offset == 1 and not stage.parked
    stage.partition.follow(LED_ELSEWHERE)
    await first.settled()
    assert answer_of(first).error_code == Error.NOT_LEADER_OR_FOLLOWER


@in_loop
async def test_syncs_that_flush_messages_requires_are_left_to_the_handler(stage: Stage) -> None:
    first = stage.begin(b"a")
    stage.kafka.create("synced", flush_messages="1")
    stage.partition.configure(stage.kafka.partition("synced").log.config)
    second = stage.begin(b"b")
    assert not stage.parked and stage.partition.end_offset == 2
    stage.fetched(2)
    await second.settled()
    assert answer_of(first).error_code == answer_of(second).error_code == 0


@pytest.mark.parametrize("measures", [Measures()])
@in_loop
async def test_waiting_requests_are_counted(stage: Stage, measures: Measures) -> None:
    exchanges = [stage.begin(b"%d" % number) for number in range(3)]
    api = measures.requests.of("Produce")
    assert (api.in_flight, api.finished, len(stage.parked)) == (3, 0, 2)
    stage.fetched(3)
    await exchanges[0].settled()
    assert list(measures.requests.received()) == [("Produce", 9, 3)]
    assert (api.in_flight, api.finished, api.errors) == (0, 3, {0: 3})
    [(_, client)] = measures.requests.clients.rows()
    assert (client.requests, client.responses) == (3, 3)
    # The last two are served by the cache, and either may be timed for those that follow it too.
    assert api.waited_total.count >= 3 and not api.immediate.count
    assert measures.traffic.of("t").produces == 3
    again = stage.begin(b"late")
    stage.partition.follow(LED_ELSEWHERE)
    await again.settled()
    assert answer_of(again).error_code == Error.NOT_LEADER_OR_FOLLOWER
    assert api.errors[Error.NOT_LEADER_OR_FOLLOWER] == 1
