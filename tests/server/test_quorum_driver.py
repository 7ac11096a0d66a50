"""The driver of a quorum's node: when Raft is called, and where its requests go."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.manual_clock import ManualClock
from wirekafka.codec.message import Request
from wirekafka.config.address import Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.protocol.fetch import FetchRequest, FetchResponse
from wirekafka.protocol.vote import VoteRequest, VoteResponse
from wirekafka.replication.partition.internal_topics import METADATA_TOPIC
from wirekafka.replication.raft.messages import (
    Answer,
    FetchPosition,
    LeaderAndEpoch,
    Outgoing,
    ReplicaKey,
    Vote,
)
from wirekafka.replication.raft.wire import QuorumWire
from wirekafka.runtime.promise import Promise
from wirekafka.server.controllers.quorum_driver import DriverParts, QuorumDriver

ONE, TWO = ReplicaKey(1), ReplicaKey(2)
SERVERS = (Address("first", 1), Address("second", 2))


class ScriptedLog:
    committed_offset = 0


class ScriptedRaft:
    """A `Raft` that only notes how it is called."""

    def __init__(self) -> None:
        self.log = ScriptedLog()
        self.on_output: Any = None
        self.is_leader = self.is_established = False
        self.voters = (ONE, TWO)
        self.leadership = LeaderAndEpoch(-1, 7)
        self.due_ms: int | None = None
        self.outbox: list[Outgoing] = []
        self.answers: list[tuple[Outgoing, Answer | KafkaError]] = []
        self.ticks: list[int] = []
        self.has_resigned = self.is_cut_off = False
        self.failure: Exception | None = None

    def start(self, now_ms: int) -> None:
        pass

    def deadline(self) -> int | None:
        return self.due_ms

    def tick(self, now_ms: int) -> None:
        self.ticks.append(now_ms)
        self.due_ms = None

    def take_outbox(self) -> list[Outgoing]:
        outbox, self.outbox = self.outbox, []
        return outbox

    def answered(self, outgoing: Outgoing, answer: Answer | KafkaError, now_ms: int) -> None:
        if self.failure is not None:
            raise self.failure
        self.answers.append((outgoing, answer))

    def resign(self, now_ms: int) -> None:
        self.has_resigned = True
        self.is_leader = False

    def send(self, *outgoing: Outgoing) -> None:
        self.outbox += outgoing
        self.on_output()


class Connection:
    """A `Peer` that notes requests, which the test answers."""

    def __init__(self, address: Address):
        self.address = address
        self.sent: list[tuple[Request, Promise]] = []
        self.is_closed = False

    async def send(self, request: Request, version: int | None = None, *, timeout_ms: int) -> Any:
        answer = Promise()
        self.sent.append((request, answer))
        return await answer

    def close(self) -> None:
        self.is_closed = True
        for _, answer in self.sent:
            answer.set(KafkaError(Error.NETWORK_EXCEPTION, "closed"))


class Stage:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.raft = ScriptedRaft()
        self.connections: list[Connection] = []
        self.failures: list[Exception] = []
        self.driver = QuorumDriver(
            self.raft,  # type: ignore[arg-type]
            DriverParts(
                clock=self.clock,
                wire=QuorumWire(cluster_id="c", listener="CONTROLLER", config=BrokerConfig.of()),
                connect=self._connect,
                servers=SERVERS,
                failed=self.failures.append,
            ),
        )
        self.driver.start()

    def _connect(self, host: str, port: int) -> Any:
        self.connections.append(Connection(Address(host, port)))
        return self.connections[-1]

    async def run(self, ms: int = 0) -> None:
        """Let time pass, and everything run that is ready."""
        self.clock.advance(ms)
        for _ in range(5):
            await asyncio.sleep(0)

    def requests(self) -> list[tuple[str, type[Request]]]:
        return [
            (each.address.host, type(sent)) for each in self.connections for sent, _ in each.sent
        ]


def run(test: Any) -> None:
    async def staged() -> None:
        await test(Stage())

    asyncio.run(staged())


def vote_to(host: str) -> Outgoing:
    vote = Vote(voter=TWO, candidate=ONE, epoch=8, last_epoch=7, end_offset=5)
    return Outgoing(vote, TWO, (host, 9093), 2_000)


def fetch_from(endpoint: tuple[str, int] | None) -> Outgoing:
    fetch = FetchPosition(replica=ONE, leader_epoch=7, offset=5, last_fetched_epoch=7)
    return Outgoing(fetch, TWO if endpoint else None, endpoint, 2_000)


def granted() -> VoteResponse:
    topic = VoteResponse.TopicData
    partition = topic.PartitionData(partition_index=0, leader_id=-1, leader_epoch=8)
    partition.vote_granted = True
    return VoteResponse(topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])])


def up_to(high_watermark: int) -> FetchResponse:
    topic = FetchResponse.FetchableTopicResponse
    data = topic.PartitionData(partition_index=0, high_watermark=high_watermark)
    data.current_leader = topic.PartitionData.LeaderIdAndEpoch(leader_id=2, leader_epoch=7)
    return FetchResponse(responses=[topic(partitions=[data])])


def test_raft_is_called_when_its_deadline_has_come_and_not_before() -> None:
    async def test(stage: Stage) -> None:
        start_ms = stage.clock.now_ms()
        stage.raft.due_ms = start_ms + 500
        stage.raft.on_output()
        await stage.run(499)
        assert stage.raft.ticks == []
        await stage.run(1)
        assert stage.raft.ticks == [start_ms + 500]
        stage.raft.due_ms = start_ms + 600
        stage.raft.on_output()
        stage.raft.due_ms = start_ms + 550
        stage.raft.on_output()
        await stage.run(100)
        assert stage.raft.ticks == [start_ms + 500, start_ms + 550]

    run(test)


def test_a_request_goes_to_its_endpoint_and_its_answer_to_raft() -> None:
    async def test(stage: Stage) -> None:
        outgoing = vote_to("two")
        stage.raft.send(outgoing)
        await stage.run()
        assert stage.requests() == [("two", VoteRequest)]
        stage.connections[0].sent[0][1].set(granted())
        await stage.run()
        [(answered, answer)] = stage.raft.answers
        assert answered is outgoing and getattr(answer, "granted", False)
        stage.raft.send(vote_to("two"))
        await stage.run()
        assert len(stage.connections) == 1

    run(test)


def test_raft_learns_why_there_is_no_response() -> None:
    async def test(stage: Stage) -> None:
        stage.raft.send(vote_to("two"))
        await stage.run()
        error = KafkaError(Error.REQUEST_TIMED_OUT)
        stage.connections[0].sent[0][1].set(error)
        await stage.run()
        assert [answer for _, answer in stage.raft.answers] == [error]
        assert stage.failures == []

    run(test)


def test_a_fetch_that_waits_at_the_leader_does_not_hold_up_votes() -> None:
    async def test(stage: Stage) -> None:
        stage.raft.send(fetch_from(("two", 9093)), vote_to("two"))
        await stage.run()
        assert stage.requests() == [("two", FetchRequest), ("two", VoteRequest)]
        assert len(stage.connections) == 2

    run(test)


def test_the_leader_is_sought_at_one_server_after_the_other() -> None:
    async def test(stage: Stage) -> None:
        for _ in range(3):
            stage.raft.send(fetch_from(None))
            await stage.run()
        asked = {each.address.host: len(each.sent) for each in stage.connections}
        assert sorted(asked.values()) == [1, 2] and set(asked) == {"first", "second"}

    run(test)


def test_an_observer_has_caught_up_when_it_has_committed_what_the_leader_had() -> None:
    async def test(stage: Stage) -> None:
        waiting = asyncio.create_task(_value(stage.driver.caught_up()))
        for committed, is_caught_up in ((3, False), (9, False), (10, True)):
            stage.raft.send(fetch_from(("two", 9093)))
            await stage.run()
            stage.raft.log.committed_offset = committed
            stage.connections[0].sent[-1][1].set(up_to(10))
            await stage.run()
            assert waiting.done() is is_caught_up
        assert waiting.result() is None

    run(test)


def test_a_new_leader_has_caught_up_when_a_record_of_its_epoch_is_committed() -> None:
    async def test(stage: Stage) -> None:
        stage.raft.is_leader = True
        waiting = asyncio.create_task(_value(stage.driver.caught_up()))
        stage.raft.send()
        await stage.run()
        assert not waiting.done(), "it may not know yet what the leader before had committed"
        stage.raft.is_established = True
        stage.raft.send()
        await stage.run()
        assert waiting.result() is None

    run(test)


async def _value(coroutine: Coroutine[Any, Any, None]) -> BaseException | None:
    try:
        await coroutine
    except Exception as error:
        return error
    return None


def test_a_leader_of_another_cluster_ends_the_start() -> None:
    async def test(stage: Stage) -> None:
        waiting = asyncio.create_task(_value(stage.driver.caught_up()))
        stage.raft.send(fetch_from(None))
        await stage.run()
        refused = FetchResponse(error_code=Error.INCONSISTENT_CLUSTER_ID)
        stage.connections[0].sent[0][1].set(refused)
        await stage.run()
        assert isinstance(await waiting, UnusableDirectory)
        assert stage.raft.answers == [] and stage.failures == []
        assert stage.connections[0].is_closed

    run(test)


@pytest.mark.parametrize("error", [UnusableDirectory("diverged"), OSError("disk"), ValueError()])
def test_a_node_that_cannot_follow_any_more_has_failed(error: Exception) -> None:
    async def test(stage: Stage) -> None:
        stage.raft.failure = error
        stage.raft.send(fetch_from(("two", 9093)))
        await stage.run()
        stage.connections[0].sent[0][1].set(up_to(10))
        await stage.run()
        assert stage.failures == [error]

    run(test)


def test_a_stopping_leader_waits_for_its_successor() -> None:
    async def test(stage: Stage) -> None:
        stage.raft.is_leader = True
        stopping = asyncio.create_task(stage.driver.stop())
        await stage.run()
        assert stage.raft.has_resigned and not stopping.done()
        stage.raft.leadership = LeaderAndEpoch(-1, 8)
        stage.raft.on_output()
        await stage.run()
        assert stopping.done()

    run(test)


def test_a_stopping_leader_waits_for_five_seconds_at_most() -> None:
    async def test(stage: Stage) -> None:
        stage.raft.is_leader = True
        stopping = asyncio.create_task(stage.driver.stop())
        await stage.run()
        await stage.run(4_999)
        assert not stopping.done()
        await stage.run(1)
        assert stopping.done()

    run(test)


def test_a_stopping_leader_does_not_wait_if_nobody_is_left_to_succeed_it() -> None:
    async def test(stage: Stage) -> None:
        stage.raft.is_leader = True
        stopping = asyncio.create_task(stage.driver.stop())
        await stage.run()
        assert not stopping.done()
        stage.raft.is_cut_off = True
        stage.raft.on_output()
        await stage.run()
        assert stopping.done()

    run(test)


def test_it_is_reported_that_no_majority_can_be_reached() -> None:
    async def test(stage: Stage) -> None:
        waiting = asyncio.create_task(stage.driver.cut_off())
        stage.raft.on_output()
        await stage.run()
        assert not waiting.done()
        stage.raft.is_cut_off = True
        stage.raft.on_output()
        await stage.run()
        assert waiting.done()
        await stage.driver.cut_off()

    run(test)


@pytest.mark.parametrize(("is_leader", "voters"), [(False, (ONE, TWO)), (True, (ONE,))])
def test_nobody_else_has_no_successor_to_wait_for(
    is_leader: bool, voters: tuple[ReplicaKey, ...]
) -> None:
    async def test(stage: Stage) -> None:
        stage.raft.is_leader, stage.raft.voters = is_leader, voters  # type: ignore[assignment]
        stage.raft.send(vote_to("two"))
        await stage.run()
        stopping = asyncio.create_task(stage.driver.stop())
        await stage.run()
        assert stopping.done() and not stage.raft.has_resigned
        assert stage.connections[0].is_closed and stage.raft.answers == []

    run(test)
