"""Fetch by followers: their offsets advance the high watermark and wake waiting fetches."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.apis.test_fetch import fetch_request, only
from tests.apis.test_produce import produce_request
from tests.in_process import Exchange, InProcessBroker, batch
from tests.replication.replicas import LAG_MS, FakeBrokers
from wirekafka.errors import Error
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.reading import ReadRange
from wirekafka.replication.partition.replica import Leadership


@pytest.fixture
def partition(kafka: InProcessBroker) -> Partition:
    """A partition that is led here, with brokers 2 and 3 in sync."""
    kafka.create("t")
    partition = kafka.partition("t")
    partition.brokers = FakeBrokers(1, 2, 3)
    partition.lead(Leadership(leader_id=1, leader_epoch=3, isr=(1, 2, 3), replicas=(1, 2, 3)))
    return partition


def request(
    kafka: InProcessBroker,
    replica_id: int,
    offset: int,
    *,
    leader_epoch: int = 3,
    broker_epoch: int = 10,
    last_epoch: int = -1,
    log_start: int = 0,
    **options: Any,
) -> FetchRequest:
    topic_id = kafka.broker.image.topics["t"].id
    fetching = fetch_request(
        (topic_id, 0, offset, leader_epoch, last_epoch),
        replica_state=FetchRequest.ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch),
        **options,
    )
    for each in fetching.topics[0].partitions:
        each.log_start_offset = log_start
    return fetching


def follow(kafka: InProcessBroker, *args: Any, version: int = 17, **options: Any) -> Any:
    return only(kafka.call(request(kafka, *args, **options), version))


def append(kafka: InProcessBroker, value: bytes = b"v") -> None:
    kafka.partition("t").leading().append_from_client(batch(value), 1, kafka.clock.now_ms())


def test_followers_read_to_the_log_end_and_raise_the_high_watermark(
    kafka: InProcessBroker, partition: Partition
) -> None:
    append(kafka)
    answers = [follow(kafka, broker, offset) for offset in (0, 1) for broker in (2, 3)]
    assert [(each.error_code, each.high_watermark, len(each.records)) for each in answers] == [
        (0, 0, len(batch(b"v"))),
        (0, 0, len(batch(b"v"))),
        (0, 0, 0),
        (0, 0, 0),
    ]
    assert partition.high_watermark == 1, "the answer was from before the last fetch"
    assert follow(kafka, 2, 1).high_watermark == 1


def test_versions_before_15_have_another_replica_field_and_no_broker_epoch(
    kafka: InProcessBroker, partition: Partition
) -> None:
    append(kafka)
    for broker in (2, 3):
        asked = fetch_request(("t", 0, 1), replica_id=broker)
        assert only(kafka.call(asked, 12)).error_code == 0
    assert partition.high_watermark == 1


def test_a_waiting_produce_gets_its_response_when_the_followers_have_the_records(
    kafka: InProcessBroker, partition: Partition
) -> None:
    async def scenario() -> None:
        exchange = kafka.begin(produce_request(batch(b"a"), acks=-1), 9)
        for broker in (2, 3):
            follow(kafka, broker, 0)
            follow(kafka, broker, 1)
            assert (await exchange.settled()).is_done == (broker == 3)
        [answer] = exchange.response.responses[0].partition_responses
        assert (answer.error_code, answer.base_offset) == (0, 0)

    asyncio.run(scenario())


def test_a_waiting_follower_gets_a_batch_and_a_waiting_consumer_committed_records(
    kafka: InProcessBroker, partition: Partition
) -> None:
    async def scenario() -> None:
        consumer = kafka.begin(fetch_request(("t", 0, 0), max_wait_ms=5000), 11)
        follower = kafka.begin(request(kafka, 2, 0, max_wait_ms=5000), 17)
        append(kafka)
        assert (await follower.settled()).is_done and not consumer.is_done
        assert len(only(follower.response).records) == len(batch(b"v"))
        follow(kafka, 2, 1)
        follow(kafka, 3, 1)
        assert (await consumer.settled()).is_done
        assert only(consumer.response).high_watermark == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"leader_epoch": 2}, Error.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 4}, Error.UNKNOWN_LEADER_EPOCH),
        ({"replica_id": 7}, Error.UNKNOWN_LEADER_EPOCH),
        ({"replica_id": 7, "leader_epoch": -1}, Error.NOT_LEADER_OR_FOLLOWER),
        ({"replica_id": 1}, Error.UNKNOWN_LEADER_EPOCH),
        ({"broker_epoch": 9}, Error.NOT_LEADER_OR_FOLLOWER),
        ({"offset": 5}, Error.OFFSET_OUT_OF_RANGE),
    ],
)
def test_refused_followers_change_no_offset(
    kafka: InProcessBroker, partition: Partition, changed: dict[str, int], error: Error
) -> None:
    append(kafka)
    follow(kafka, 3, 1)
    asked = {"replica_id": 2, "offset": 1, **changed}
    answer = follow(kafka, asked.pop("replica_id"), asked.pop("offset"), **asked)
    assert (answer.error_code, answer.high_watermark, answer.records) == (error, -1, b"")
    assert partition.high_watermark == 0
    assert partition.leading().followers[2].end_offset == -1


def test_a_newer_or_missing_broker_epoch_is_accepted(
    kafka: InProcessBroker, partition: Partition
) -> None:
    append(kafka)
    assert follow(kafka, 2, 1, broker_epoch=11).error_code == 0
    assert follow(kafka, 3, 1, broker_epoch=-1).error_code == 0
    assert partition.high_watermark == 1


def test_a_follower_whose_log_diverges_has_no_position_yet(
    kafka: InProcessBroker, partition: Partition
) -> None:
    append(kafka)
    answer = follow(kafka, 2, 1, last_epoch=2)
    assert answer.diverging_epoch.end_offset == 0
    assert partition.leading().followers[2].end_offset == -1


def test_a_session_remembers_where_a_followers_log_starts(
    kafka: InProcessBroker, partition: Partition
) -> None:
    for _ in range(3):
        append(kafka)
    opened = kafka.call(request(kafka, 2, 3, log_start=2, session_epoch=0), 17)
    partition.leading().followers[2].start_offset = -1
    again = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=opened.session_id,
        session_epoch=1,
        isolation_level=0,
        topics=[],
        replica_state=FetchRequest.ReplicaState(replica_id=2, replica_epoch=10),
    )
    kafka.call(again, 17)
    assert partition.leading().followers[2].start_offset == 2


def test_deleted_records_are_gone_once_every_live_replica_has_deleted_them(
    kafka: InProcessBroker, partition: Partition
) -> None:
    for _ in range(3):
        append(kafka)
    for broker in (2, 3):
        follow(kafka, broker, 3)
    deleting = DeleteRecordsRequest(
        timeout_ms=1_000,
        topics=[
            DeleteRecordsRequest.Topic(
                name="t",
                partitions=[DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=2)],
            )
        ],
    )

    async def scenario() -> None:
        exchange = kafka.begin(deleting, 2)
        assert not (await exchange.settled()).is_done
        assert partition.log.start_offset == 2
        follow(kafka, 2, 3, log_start=2)
        assert not (await exchange.settled()).is_done
        follow(kafka, 3, 3, log_start=2)
        [answer] = (await exchange.settled()).response.topics[0].partitions
        assert (answer.error_code, answer.low_watermark) == (0, 2)

        deleting.topics[0].partitions[0].offset = 3
        exchange = kafka.begin(deleting, 2)
        follow(kafka, 2, 3, log_start=3)
        kafka.clock.advance(1_000)
        [answer] = (await exchange.settled()).response.topics[0].partitions
        assert (answer.error_code, answer.low_watermark) == (Error.REQUEST_TIMED_OUT, 2)

        exchange = kafka.begin(deleting, 2)
        partition.follow(Leadership(leader_id=2, leader_epoch=4, replicas=(1, 2, 3)))
        [answer] = (await exchange.settled()).response.topics[0].partitions
        assert (answer.error_code, answer.low_watermark) == (Error.NOT_LEADER_OR_FOLLOWER, -1)

    asyncio.run(scenario())


class IdleFollower:
    """Broker 2 with a session that has two partitions; it has everything of both."""

    def __init__(self, kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch):
        self._kafka = kafka
        self.topic_id = kafka.create("many", 2)
        self.partitions = [kafka.partition("many", index) for index in range(2)]
        for partition in self.partitions:
            partition.brokers = FakeBrokers(1, 2)
            partition.lead(Leadership(leader_id=1, leader_epoch=3, isr=(1, 2), replicas=(1, 2)))
        self.reads: list[int] = []
        """The partitions that were read, by index."""
        read = Partition.read

        def counted(partition: Partition, wanted: ReadRange) -> Any:
            self.reads.append(partition.index)
            return read(partition, wanted)

        monkeypatch.setattr(Partition, "read", counted)
        everything = [(self.topic_id, index, 0, 3) for index in range(2)]
        self._epoch = 0
        self.session_id = self.call(*everything).session_id
        assert self.call().responses == []
        self.reads.clear()

    def call(self, *wanted: tuple[Any, ...], **options: Any) -> Any:
        return self._kafka.call(self._request(*wanted, **options), 17)

    def begin(self) -> Exchange:
        return self._kafka.begin(self._request(max_wait_ms=5_000), 17)

    def forget(self, index: int) -> None:
        forgotten = FetchRequest.ForgottenTopic(topic_id=self.topic_id, partitions=[index])
        self._kafka.call(self._request(forgotten_topics_data=[forgotten]), 17)

    def end(self) -> None:
        self._epoch = -1
        self.call()

    def append(self, index: int) -> None:
        leader = self.partitions[index].leading()
        leader.append_from_client(batch(b"v"), 1, self._kafka.clock.now_ms())

    def _request(self, *wanted: tuple[Any, ...], **options: Any) -> FetchRequest:
        replica = FetchRequest.ReplicaState(replica_id=2, replica_epoch=10)
        session_id = self.session_id if self._epoch else 0
        fetching = fetch_request(
            *wanted,
            replica_state=replica,
            session_id=session_id,
            session_epoch=self._epoch,
            **options,
        )
        self._epoch += 1
        return fetching


@pytest.fixture
def idle(kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch) -> IdleFollower:
    return IdleFollower(kafka, monkeypatch)


def test_only_partitions_that_changed_are_read_for_a_session(idle: IdleFollower) -> None:
    assert idle.call().responses == [] and idle.reads == []
    idle.append(1)
    changed = only(idle.call())
    assert (changed.partition_index, len(changed.records)) == (1, len(batch(b"v")))
    assert set(idle.reads) == {1}
    assert idle.call((idle.topic_id, 1, 1, 3)).responses == []
    assert only(idle.call()).high_watermark == 1, "as of before the fetch that raised it"
    idle.reads.clear()
    assert idle.call().responses == [] and idle.reads == []


def test_a_partition_without_room_in_the_response_is_not_idle(idle: IdleFollower) -> None:
    for index in range(2):
        idle.append(index)
    first = only(idle.call(max_bytes=1)).partition_index
    second = only(idle.call((idle.topic_id, first, 1, 3), max_bytes=1))
    assert {first, second.partition_index} == {0, 1}
    assert len(second.records) == len(batch(b"v"))


def test_a_parked_follower_gets_a_batch_of_an_idle_partition(idle: IdleFollower) -> None:
    async def scenario() -> None:
        exchange = idle.begin()
        assert not (await exchange.settled()).is_done
        idle.append(1)
        assert (await exchange.settled()).is_done
        assert only(exchange.response).partition_index == 1
        assert len(only(exchange.response).records) == len(batch(b"v"))

    asyncio.run(scenario())


def test_a_high_watermark_does_not_end_the_wait_but_is_sent_after_it(
    kafka: InProcessBroker, idle: IdleFollower
) -> None:
    async def scenario() -> None:
        idle.append(0)
        idle.call()
        idle.call((idle.topic_id, 0, 1, 3))
        idle.call()
        exchange = idle.begin()
        idle.partitions[0].set_high_watermark(0)
        idle.partitions[1].wake()
        assert not (await exchange.settled()).is_done
        kafka.clock.advance(5_000)
        answer = only((await exchange.settled()).response)
        assert (answer.partition_index, answer.high_watermark) == (0, 0)

    asyncio.run(scenario())


def test_a_parked_follower_gets_a_batch_of_a_partition_that_changed_before(
    idle: IdleFollower,
) -> None:
    async def scenario() -> None:
        exchange = idle.begin()
        idle.partitions[1].wake()
        assert not (await exchange.settled()).is_done
        idle.append(1)
        assert (await exchange.settled()).is_done
        assert len(only(exchange.response).records) == len(batch(b"v"))

    asyncio.run(scenario())


def test_deleted_records_of_an_idle_partition_are_reported(idle: IdleFollower) -> None:
    idle.append(0)
    idle.call()
    idle.call((idle.topic_id, 0, 1, 3))
    idle.call()
    assert idle.call().responses == []
    idle.partitions[0].delete_records(1)
    assert only(idle.call()).log_start_offset == 1


def test_an_idle_partition_with_another_leader_is_reported(idle: IdleFollower) -> None:
    idle.partitions[1].follow(Leadership(leader_id=2, leader_epoch=4, replicas=(1, 2)))
    answer = only(idle.call())
    assert (answer.partition_index, answer.error_code) == (1, Error.FENCED_LEADER_EPOCH)


def test_a_follower_keeps_up_while_its_partitions_are_idle(
    kafka: InProcessBroker, idle: IdleFollower
) -> None:
    leader = idle.partitions[0].leading()
    for _ in range(3):
        kafka.clock.advance(LAG_MS)
        idle.call()
    assert leader.followers[2].caught_up_ms == kafka.clock.now_ms()
    kafka.clock.advance(1)
    idle.append(0)
    assert leader.isr_change(kafka.clock.now_ms()) is None
    kafka.clock.advance(LAG_MS)
    change = leader.isr_change(kafka.clock.now_ms())
    assert change is not None and change.isr == (1,)


def test_a_follower_that_leaves_out_an_idle_partition_lags_there(
    kafka: InProcessBroker, idle: IdleFollower
) -> None:
    idle.forget(0)
    idle.append(0)
    kafka.clock.advance(LAG_MS + 1)
    idle.call()
    change = idle.partitions[0].leading().isr_change(kafka.clock.now_ms())
    assert change is not None and change.isr == (1,)
    assert idle.partitions[1].leading().isr_change(kafka.clock.now_ms()) is None


def test_an_ended_session_watches_no_partition(idle: IdleFollower) -> None:
    assert all(partition.watchers for partition in idle.partitions)
    idle.end()
    assert not any(partition.watchers for partition in idle.partitions)


def test_a_follower_outside_of_the_isr_is_noted_at_every_fetch(idle: IdleFollower) -> None:
    partition = idle.partitions[0]
    partition.lead(replace(partition.leadership, partition_epoch=1, isr=(1,)))
    for _ in range(2):
        idle.call()
    proposed: list[Partition] = []
    partition.propose_later = proposed.append
    idle.call()
    assert proposed == [partition]
