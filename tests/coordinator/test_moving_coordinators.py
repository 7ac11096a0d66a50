"""Coordinators load the partitions that their broker leads, and unload them when it resigns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.test_late_requests import FIRST, RawProducer
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.errors import Error
from wirekafka.protocol.describe_transactions import DescribeTransactionsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.join_group import JoinGroupRequest
from wirekafka.replication.fetching.fetching import NO_FETCHING
from wirekafka.replication.partition.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

OTHER = 2


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(
        tmp_path / "data",
        manual_clock,
        offsets_topic_num_partitions="1",
        transaction_state_log_num_partitions="1",
        group_initial_rebalance_delay_ms="3000",
    )
    broker.broker.fetching = NO_FETCHING  # No event loop runs its tasks here.
    broker.create("t", 2)
    for key_type in (0, 1):
        broker.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), 4)
    yield broker
    broker.stop()


def elect(kafka: InProcessBroker, topic: str, leader: int) -> None:
    """Move the only partition of an internal topic to a leader, in a new leader epoch."""
    known = kafka.broker.image.topics[topic]
    partition = replace(
        known.partitions[0],
        leader=leader,
        leader_epoch=known.partitions[0].leader_epoch + 1,
        partition_epoch=known.partitions[0].partition_epoch + 1,
    )
    known.partitions[0] = partition
    kafka.broker.place_partition(known, partition)
    kafka.clock.advance(1)


def join(kafka: InProcessBroker) -> Any:
    """A member that joins, and waits for the initial rebalance."""
    kind = JoinGroupRequest.Protocol
    return kafka.begin(
        JoinGroupRequest(
            group_id="x",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[kind(name="range", metadata=b"")],
        ),
        3,
    )


def heartbeat(kafka: InProcessBroker) -> Error:
    request = HeartbeatRequest(group_id="x", generation_id=1, member_id="m")
    return Error(kafka.call(request, 4).error_code)


def test_a_leader_that_is_elected_again_keeps_its_groups(kafka: InProcessBroker) -> None:
    async def scenario() -> None:
        joined = await join(kafka).settled()
        elect(kafka, OFFSETS_TOPIC, 1)
        await joined.settled()
        assert not joined.is_done
        kafka.clock.advance(3_000)
        await joined.settled()
        assert joined.is_done and joined.response.error_code == 0

    asyncio.run(scenario())


def test_waiting_members_get_not_coordinator_when_the_leader_moves(kafka: InProcessBroker) -> None:
    async def scenario() -> None:
        joined = await join(kafka).settled()
        assert heartbeat(kafka) is Error.UNKNOWN_MEMBER_ID
        elect(kafka, OFFSETS_TOPIC, OTHER)
        await joined.settled()
        assert joined.response.error_code == Error.NOT_COORDINATOR

    asyncio.run(scenario())
    assert heartbeat(kafka) is Error.NOT_COORDINATOR
    found = kafka.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["x"]), 4)
    # The new leader is not registered here.
    assert found.coordinators[0].error_code == Error.COORDINATOR_NOT_AVAILABLE
    elect(kafka, OFFSETS_TOPIC, 1)
    assert heartbeat(kafka) is Error.UNKNOWN_MEMBER_ID


def test_transactions_are_loaded_again_for_every_leader_epoch(kafka: InProcessBroker) -> None:
    producer = RawProducer(kafka, "x")
    producer.versions = FIRST
    producer.start()
    producer.add_partitions()
    before = kafka.broker.transactions.shard_for("x")
    elect(kafka, TRANSACTIONS_TOPIC, 1)
    assert kafka.broker.transactions.shard_for("x") is not before
    producer.end(commits=True)
    described = kafka.call(DescribeTransactionsRequest(transactional_ids=["x"]), 0)
    assert described.transaction_states[0].transaction_state == "CompleteCommit"
    states = kafka.partition("t", 1).log.producers.get(producer.identity[0])
    assert states is not None
    assert states.coordinator_epoch == kafka.partition(TRANSACTIONS_TOPIC).leader_epoch > 0


def test_a_broker_that_does_not_coordinate_allocates_no_producer_id(kafka: InProcessBroker) -> None:
    elect(kafka, TRANSACTIONS_TOPIC, OTHER)
    before = kafka.broker.image.next_producer_id
    request = InitProducerIdRequest(transactional_id="y", transaction_timeout_ms=60_000)
    assert kafka.call(request, 5).error_code == Error.NOT_COORDINATOR
    assert kafka.broker.image.next_producer_id == before
