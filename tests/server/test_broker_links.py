"""Requests to another broker over a real connection: markers, confirmations, share states."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from tests.in_process import batch
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.coordinator.groups.share.leader_requests import OutgoingBatch, append, latest_offsets
from wirekafka.coordinator.routing import Routing
from wirekafka.coordinator.share_state.commands import StateDeletion, SummaryRead
from wirekafka.coordinator.share_state.states import (
    ShareKey,
    StateBatch,
    StateInitialization,
    StateRead,
    StateSummary,
    StateWrite,
    StoredState,
)
from wirekafka.coordinator.share_state.wire import run_on_share_states
from wirekafka.coordinator.transactions.commands import (
    AddPartitions,
    ProducerIdentity,
    StartProducer,
    VerifyPartitions,
)
from wirekafka.coordinator.transactions.markers import Ending
from wirekafka.coordinator.transactions.wire import MarkerBatch, confirm_partitions, write_markers
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.protocol.records.control import Marker
from wirekafka.replication.partition.internal_topics import SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from wirekafka.runtime.machine import Producer
from wirekafka.server.clock import LoopClock
from wirekafka.server.net import SocketNet
from wirekafka.server.node import Node
from wirekafka.server.peers.broker_connections import BrokerConnections
from wirekafka.server.peers.broker_links import BrokerLinks

HERE, THERE = 1, 2
INTERNAL = {
    f"{prefix}.{name}": "1"
    for prefix in ("transaction.state.log", "share.coordinator.state.topic")
    for name in ("num.partitions", "replication.factor", "min.isr")
}


def with_other(
    tmp_path: Path, scenario: Callable[[Routing, Node], Awaitable[None]], **settings: str
) -> None:
    """Run a scenario with this broker's routing, and the other broker with a topic `t`."""

    async def run() -> None:
        values = {name.replace("_", "."): value for name, value in settings.items()}
        other = Node(
            BrokerConfig.of(
                {
                    "node.id": str(THERE),
                    "log.dirs": str(tmp_path / "data"),
                    "listeners": "PLAINTEXT://127.0.0.1:0",
                    **INTERNAL,
                    **values,
                }
            )
        )
        await other.start()
        config = BrokerConfig.of({"node.id": str(HERE), "log.dirs": str(tmp_path / "here")})
        clock = LoopClock(asyncio.get_running_loop())
        image = other.broker.image
        connections = BrokerConnections(image, lambda: config, SocketNet(), clock)
        links = BrokerLinks(image, lambda: config, connections)
        try:
            topic = NewTopic(name="t", num_partitions=2, replication_factor=1, configs={})
            await other.broker.controller_channel.create_topics([topic])
            for name in (TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC):
                await other.broker.ensure_internal_topic(name)
            await scenario(Routing(HERE, image.leader_of, links), other)
        finally:
            links.close()
            await other.stop()

    asyncio.run(run())


def ending(producer_id: int, coordinator_epoch: int = 0, *, commits: bool = True) -> Ending:
    return Ending(Producer(producer_id, 3), Marker(commits, coordinator_epoch, 0), 1)


def test_markers_are_appended_at_the_other_broker(tmp_path: Path) -> None:
    async def scenario(routing: Routing, other: Node) -> None:
        errors = await write_markers(
            routing,
            THERE,
            [
                MarkerBatch(ending(7, 5), [("t", 0), ("unknown", 0)]),
                MarkerBatch(ending(7, 5), [("t", 1)]),
                MarkerBatch(ending(8, commits=False), [("t", 0)]),
            ],
        )
        assert errors == [
            {("t", 0): Error.NONE, ("unknown", 0): Error.UNKNOWN_TOPIC_OR_PARTITION},
            {("t", 1): Error.NONE},
            {("t", 0): Error.NONE},
        ]
        assert [other.broker.partition("t", index).end_offset for index in (0, 1)] == [2, 1]
        # A coordinator with an older epoch has been replaced.
        [stale] = await write_markers(routing, THERE, [MarkerBatch(ending(7, 4), [("t", 0)])])
        assert stale == {("t", 0): Error.TRANSACTION_COORDINATOR_FENCED}
        assert other.broker.partition("t", 0).end_offset == 2

    with_other(tmp_path, scenario)


def test_partitions_are_added_and_verified_at_the_other_broker(tmp_path: Path) -> None:
    async def scenario(routing: Routing, other: Node) -> None:
        transactions = other.broker.transactions
        first = await transactions.start_producer(StartProducer("x", 60_000))
        second = await transactions.start_producer(StartProducer("y", 60_000))
        both = frozenset({("t", 0), ("t", 1)})
        added, unknown = await confirm_partitions(
            routing,
            THERE,
            [
                AddPartitions("x", first, frozenset({("t", 0)}), 2),
                AddPartitions("y", second, frozenset({("t", 0), ("u", 0)}), 2),
            ],
        )
        assert added == {("t", 0): Error.NONE}
        assert unknown == {
            ("t", 0): Error.OPERATION_NOT_ATTEMPTED,
            ("u", 0): Error.UNKNOWN_TOPIC_OR_PARTITION,
        }
        verified, fenced, missing = await confirm_partitions(
            routing,
            THERE,
            [
                VerifyPartitions("x", first, both),
                VerifyPartitions("y", ProducerIdentity(second.producer_id, 9), both),
                VerifyPartitions("z", first, both),
            ],
        )
        assert verified == {("t", 0): Error.NONE, ("t", 1): Error.TRANSACTION_ABORTABLE}
        assert fenced == dict.fromkeys(both, Error.PRODUCER_FENCED)
        assert missing == dict.fromkeys(both, Error.INVALID_PRODUCER_ID_MAPPING)

    with_other(tmp_path, scenario)


def test_share_states_are_kept_at_the_other_broker(tmp_path: Path) -> None:
    async def scenario(routing: Routing, other: Node) -> None:
        topic_id = other.broker.image.topics["t"].id
        keys = [ShareKey("g", topic_id, index) for index in (0, 1)]
        run = partial(run_on_share_states, routing)
        assert await run(THERE, [StateInitialization(key, 1, 10) for key in keys]) == [None, None]
        batches = (StateBatch(10, 11, 2, 1), StateBatch(13, 13, 0, 2))
        states = await run(THERE, [StateRead(key, 4) for key in keys])
        assert states == [StoredState(1, 10, ()), StoredState(1, 10, ())]
        written, stale = await run(
            THERE,
            [StateWrite(keys[0], 1, 4, 10, 2, batches), StateWrite(keys[1], 1, 3, 10, 0, batches)],
        )
        assert written is None
        assert stale.error is Error.FENCED_LEADER_EPOCH and stale.message
        [state] = await run(THERE, [StateRead(keys[0], 4)])
        assert state == StoredState(1, 10, batches)
        assert await run(THERE, [SummaryRead(keys[0])]) == [StateSummary(1, 4, 10, 2)]
        assert await run(THERE, [StateDeletion(key) for key in keys]) == [None, None]
        assert await run(THERE, [SummaryRead(keys[0])]) == [StateSummary(0, 0, -1, -1)]

    with_other(tmp_path, scenario)


def test_batches_are_appended_at_the_other_broker(tmp_path: Path) -> None:
    async def scenario(routing: Routing, other: Node) -> None:
        topic_id = other.broker.image.topics["t"].id
        await append(routing, THERE, OutgoingBatch("t", topic_id, 1, batch(b"a", b"b")))
        assert other.broker.partition("t", 1).end_offset == 2
        found = await latest_offsets(routing, THERE, [("t", 0), ("t", 1), ("unknown", 0)])
        unknown = found["unknown", 0]
        assert isinstance(unknown, KafkaError)
        assert unknown.error is Error.UNKNOWN_TOPIC_OR_PARTITION
        assert (found["t", 0], found["t", 1]) == (0, 2)
        with pytest.raises(KafkaError) as refused:
            await append(routing, THERE, OutgoingBatch("t", topic_id, 7, batch(b"a")))
        assert refused.value.error is Error.UNKNOWN_TOPIC_OR_PARTITION

    with_other(tmp_path, scenario)


def test_a_broker_out_of_service_gets_no_request(tmp_path: Path) -> None:
    async def scenario(routing: Routing, other: Node) -> None:
        with pytest.raises(KafkaError) as unknown:
            await write_markers(routing, 9, [MarkerBatch(ending(7), [("t", 0)])])
        assert unknown.value.error is Error.BROKER_NOT_AVAILABLE
        other.broker.image.brokers[THERE].registration.fenced = True
        with pytest.raises(KafkaError) as fenced:
            await write_markers(routing, THERE, [MarkerBatch(ending(7), [("t", 0)])])
        assert fenced.value.error is Error.BROKER_NOT_AVAILABLE
        other.broker.image.brokers[THERE].registration.fenced = False
        [written] = await write_markers(routing, THERE, [MarkerBatch(ending(7), [("t", 0)])])
        assert written == {("t", 0): Error.NONE}

    with_other(tmp_path, scenario)


def test_an_unauthorized_broker_is_refused(tmp_path: Path) -> None:
    async def scenario(routing: Routing, other: Node) -> None:
        [errors] = await write_markers(routing, THERE, [MarkerBatch(ending(7), [("t", 0)])])
        assert errors == {("t", 0): Error.CLUSTER_AUTHORIZATION_FAILED}
        command = VerifyPartitions("x", ProducerIdentity(7, 0), frozenset({("t", 0)}))
        with pytest.raises(KafkaError) as refused:
            await confirm_partitions(routing, THERE, [command])
        assert refused.value.error is Error.CLUSTER_AUTHORIZATION_FAILED
        key = ShareKey("g", other.broker.image.topics["t"].id, 0)
        [state] = await run_on_share_states(routing, THERE, [StateRead(key, 1)])
        assert state.error is Error.CLUSTER_AUTHORIZATION_FAILED

    with_other(
        tmp_path,
        scenario,
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    )
