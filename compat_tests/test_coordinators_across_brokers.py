"""Transactions, groups and share states of a cluster of Apache Kafka and wirekafka.

Coordinators, partition leaders and group coordinators are on either engine, in every combination
that makes a difference. What clients see must be what Apache Kafka alone returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from compat_tests.cluster import HOST, KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.routed_wire import RoutedWire
from compat_tests.transaction_script import Player, settled
from compat_tests.whole_log import read_log
from compat_tests.wire import Wire
from tests.eventually import eventually
from tests.repetitions import repetitions
from wirekafka.codec.batch import batches
from wirekafka.codec.record import decode_records
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.coordinator.routing import Routing
from wirekafka.coordinator.share_state.commands import StateDeletion, SummaryRead
from wirekafka.coordinator.share_state.states import (
    ShareKey,
    StateBatch,
    StateInitialization,
    StateRead,
    StateWrite,
)
from wirekafka.coordinator.share_state.wire import run_on_share_states
from wirekafka.coordinator.transactions.commands import (
    AddPartitions,
    ProducerIdentity,
    VerifyPartitions,
)
from wirekafka.coordinator.transactions.markers import Ending
from wirekafka.coordinator.transactions.wire import MarkerBatch, confirm_partitions, write_markers
from wirekafka.errors import KafkaError
from wirekafka.metadata.image.image import BrokerImage, MetadataImage
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.records.control import Marker
from wirekafka.protocol.records.metadata import RegisterBrokerRecord
from wirekafka.replication.partition.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from wirekafka.runtime.machine import Producer as ProducerOfLog
from wirekafka.server.clock import LoopClock
from wirekafka.server.net import SocketNet
from wirekafka.server.peers.broker_connections import BrokerConnections
from wirekafka.server.peers.broker_links import BrokerLinks

SEEDS = repetitions("MIXED_TRANSACTION_SEEDS", usual=2, thorough=6)
K, W = 1, 2
"""The brokers: Apache Kafka, which is the controller too, and wirekafka."""

ALL_KAFKA = (K, K, (K, K))
PLACEMENTS = [(W, K, (W, K)), (K, W, (W, K)), (W, W, (K, K)), (K, K, (W, W)), (W, W, (W, W))]
"""Coordinators of transactions and of groups, and the leaders of the two partitions."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    factors = {
        f"{prefix}.{name}": "1"
        for prefix in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        for name in ("replication.factor", "min.isr")
        if prefix != "offsets.topic" or name == "replication.factor"
    }
    shape = Shape(brokers=(KAFKA, WIREKAFKA), settings=factors)
    with Cluster.running(shape, tmp_path_factory.mktemp("cluster")) as running:
        create_internal_topics(running)
        yield running


def create_internal_topics(cluster: Cluster) -> None:
    """Create them with half of their partitions at each broker."""
    kind = CreateTopicsRequest.CreatableTopic
    policies = {
        OFFSETS_TOPIC: "compact",
        TRANSACTIONS_TOPIC: "compact",
        SHARE_STATE_TOPIC: "delete",
    }
    topics = [
        kind(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                kind.CreatableReplicaAssignment(partition_index=index, broker_ids=[id])
                # The hashes of "x-NAME" and "g-NAME" differ by one in four: all pairs are possible.
                for index, id in enumerate((K, K, W, W))
            ],
            configs=[kind.CreatableTopicConfig(name="cleanup.policy", value=policy)],
        )
        for name, policy in policies.items()
    ]
    wire = Wire((HOST, cluster.nodes[K].port))
    created = wire.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)
    assert [each.error_code for each in created.topics] == [0, 0, 0], created
    wire.close()


def wire_to(cluster: Cluster, *leaders: int) -> RoutedWire:
    addresses = {node.id: (HOST, node.port) for node in cluster.brokers()}
    return RoutedWire(addresses, list(leaders))


@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_a_random_transaction_is_the_same_wherever_its_parts_are(
    cluster: Cluster, seed: int
) -> None:
    def played(number: int, placement: Any) -> list[Any]:
        transactions, groups, leaders = placement
        wire = wire_to(cluster, *leaders)
        try:
            return settled(wire, wire.name(transactions, groups)(f"s{seed}-{number}"), seed)
        finally:
            wire.close()

    expected = played(0, ALL_KAFKA)
    for number, placement in enumerate(PLACEMENTS, 1):
        assert played(number, placement) == expected, placement


class Prepared(Player):
    """A producer with a batch in both partitions."""

    def begin(self) -> None:
        self._prepare()
        self._start(version=5)
        for partition in (0, 1):
            produced = self._produce(12, 0, False, partition, 0, False)
            assert produced[0] == 0

    def end(self) -> int:
        code: int = self._end(5, True, 0, False, 0)[0]
        return code

    @property
    def state(self) -> str:
        state: str = self._described().transaction_state
        return state

    def markers(self, partition: int) -> int:
        """The number of commit markers in a partition."""
        data = memoryview(read_log(self._wire.ask, self._topic, partition).data)
        return sum(
            1
            for position, header in batches(data)
            for _ in decode_records(data[position:])
            if header.is_control
        )


def test_kafka_delivers_markers_to_wirekafka_once_it_is_resumed(cluster: Cluster) -> None:
    # Kafka 4.4.0 sends no marker for a partition whose only replica is down: it considers a
    # partition without a leader deleted.
    wire = wire_to(cluster, W, K)
    producer = Prepared(wire, wire.name(K, K)("paused-w"))
    producer.begin()
    cluster.pause(W)
    try:
        assert producer.end() == 0
        assert producer.state == "PrepareCommit"
        eventually(lambda: producer.markers(1) == 1)
    finally:
        cluster.go_on(W)
    eventually(lambda: producer.state == "CompleteCommit")
    assert producer.markers(0) == producer.markers(1) == 1
    wire.close()


def test_wirekafka_delivers_markers_to_kafka_once_it_is_resumed(cluster: Cluster) -> None:
    wire = wire_to(cluster, W, K)
    producer = Prepared(wire, wire.name(W, W)("paused-k"))
    producer.begin()
    cluster.pause(K)
    try:
        assert producer.end() == 0
        assert producer.state == "PrepareCommit"
        assert producer.markers(0) == 1
    finally:
        cluster.go_on(K)
    eventually(lambda: producer.state == "CompleteCommit")
    assert producer.markers(0) == producer.markers(1) == 1
    wire.close()


def test_wirekafka_completes_transactions_decided_before_a_crash(cluster: Cluster) -> None:
    wire = wire_to(cluster, K, K)
    producer = Prepared(wire, wire.name(W, K)("decided"))
    producer.begin()
    cluster.pause(K)
    try:
        assert producer.end() == 0
        cluster.kill(W)
    finally:
        cluster.go_on(K)
    cluster.start(W)
    eventually(lambda: producer.state == "CompleteCommit")
    assert producer.markers(0) >= 1 and producer.markers(1) >= 1
    wire.close()


@pytest.mark.parametrize("coordinator", [K, W])
def test_a_group_consumes_from_both_engines(cluster: Cluster, coordinator: int) -> None:
    wire = wire_to(cluster, K, W)
    player = Player(wire, name := wire.name(coordinator, coordinator)(f"group-{coordinator}"))
    player._prepare()
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for partition in (0, 1):
        producer.produce(f"t-{name}", b"v", partition=partition)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"g-{name}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([f"t-{name}"])
    found: set[int] = set()

    def consumed() -> bool:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.add(message.partition())
        return len(found) == 2

    eventually(consumed)
    consumer.commit(asynchronous=False)
    committed = consumer.committed(consumer.assignment(), 30)
    assert [each.offset for each in committed] == [1, 1]
    consumer.close()
    wire.close()


# Requests between brokers

Requests = Callable[[Routing], Awaitable[Any]]


def responses(cluster: Cluster, id: int, requests: Requests) -> Any:
    """The results of requests as a wirekafka broker sends them to a broker."""
    node = cluster.nodes[id]
    end_point = RegisterBrokerRecord.BrokerEndpoint(
        name="PLAINTEXT", host=HOST, port=node.port, security_protocol=0
    )
    image = MetadataImage()
    image.brokers[id] = BrokerImage(
        RegisterBrokerRecord(broker_id=id, end_points=[end_point], fenced=False)
    )
    config = BrokerConfig.of({"node.id": "9", "log.dirs": "unused"})

    async def run() -> Any:
        clock = LoopClock(asyncio.get_running_loop())
        connections = BrokerConnections(image, lambda: config, SocketNet(), clock)
        links = BrokerLinks(image, lambda: config, connections)
        try:
            return await requests(Routing(config.node_id, image.leader_of, links))
        finally:
            links.close()

    return asyncio.run(run())


def both(cluster: Cluster, requests: Callable[[int], Requests]) -> Any:
    """The results, which must be equal for both engines."""
    found = {id: responses(cluster, id, requests(id)) for id in (K, W)}
    assert found[W] == found[K]
    return found[K]


def ending(producer_id: int, producer_epoch: int, coordinator_epoch: int) -> Ending:
    marker = Marker(True, coordinator_epoch, 0)
    return Ending(ProducerOfLog(producer_id, producer_epoch), marker, 1)


def test_markers_are_accepted_and_refused_as_by_kafka(cluster: Cluster) -> None:
    wires = {id: wire_to(cluster, id, K if id == W else W) for id in (K, W)}
    names = {id: wires[id].name(id, id)(f"markers-{id}") for id in (K, W)}
    for id in (K, W):
        Player(wires[id], names[id])._prepare()

    def requests(id: int) -> Requests:
        here, elsewhere = (f"t-{names[id]}", 0), (f"t-{names[id]}", 1)
        known = {here: "here", elsewhere: "elsewhere"}
        steps = [
            [(ending(900_001, 3, 5), [here, elsewhere, ("unknown", 0)])],
            [(ending(900_001, 3, 4), [here])],
            [(ending(900_001, 2, 5), [here])],
            [(ending(900_001, 3, 5), [here]), (ending(900_002, 0, 0), [elsewhere, here])],
            # Kafka 4.4.0 sends no response if the last marker has no partition there.
            [(ending(900_001, 4, 6), [elsewhere]), (ending(900_001, 4, 6), [here])],
        ]

        async def run(routing: Routing) -> Any:
            results = []
            for step in steps:
                batch = [MarkerBatch(each, where) for each, where in step]
                results += [
                    {known.get(where, where): error for where, error in errors.items()}
                    for errors in await write_markers(routing, id, batch)
                ]
            return results

        return run

    results = both(cluster, requests)
    assert [error.name for error in results[0].values()] == [
        "NONE", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_OR_PARTITION",
    ]  # fmt: skip
    assert results[1]["here"].name == "TRANSACTION_COORDINATOR_FENCED"


def test_partitions_are_added_and_verified_as_by_kafka(cluster: Cluster) -> None:
    players = {}
    for id in (K, W):
        wire = wire_to(cluster, K, W)
        player = Player(wire, wire.name(id, id)(f"verified-{id}"))
        player._prepare()
        player._start(version=5)
        players[id] = player

    def requests(id: int) -> Requests:
        player = players[id]
        name, producer = player._id, ProducerIdentity(player._producer_id, player._epoch)
        first, second, unknown = (player._topic, 0), (player._topic, 1), ("unknown", 0)
        late = ProducerIdentity(producer.producer_id, producer.producer_epoch + 1)
        other = ProducerIdentity(producer.producer_id + 1_000_000, producer.producer_epoch)
        known = {first: "first", second: "second"}
        commands: list[AddPartitions | VerifyPartitions] = [
            VerifyPartitions(name, producer, frozenset({first})),
            AddPartitions(name, producer, frozenset({first, unknown}), 2),
            AddPartitions(name, producer, frozenset({first}), 2),
            AddPartitions(name, late, frozenset({first}), 2),
            AddPartitions(name, other, frozenset({first}), 2),
            VerifyPartitions(name, producer, frozenset({first, second})),
            VerifyPartitions(name, producer, frozenset({first, unknown})),
            VerifyPartitions(name, late, frozenset({first})),
            VerifyPartitions(name, other, frozenset({first, second})),
            VerifyPartitions("", producer, frozenset({first})),
        ]

        async def run(routing: Routing) -> Any:
            results = []
            for command in commands:
                [errors] = await confirm_partitions(routing, id, [command])
                results.append({known.get(where, where): errors[where] for where in errors})
            return results

        return run

    results = both(cluster, requests)
    assert [sorted({error.name for error in errors.values()}) for errors in results[:3]] == [
        ["TRANSACTION_ABORTABLE"],
        ["OPERATION_NOT_ATTEMPTED", "UNKNOWN_TOPIC_OR_PARTITION"],
        ["NONE"],
    ]


def test_share_states_are_kept_as_by_kafka(cluster: Cluster) -> None:
    wire = wire_to(cluster, K, W)
    player = Player(wire, wire.name(K, K)("states"))
    player._prepare()
    topic_id = player._topic_id

    def requests(id: int) -> Requests:
        async def run(routing: Routing) -> Any:
            return [
                [
                    (each.error, each.message) if isinstance(each, KafkaError) else each
                    for each in await run_on_share_states(routing, id, commands)
                ]
                for commands in share_commands(
                    ShareKey(wire.share_group(id, topic_id), topic_id, 0)
                )
            ]

        return run

    both(cluster, requests)
    wire.close()


def share_commands(key: ShareKey) -> list[list[Any]]:
    batch = (StateBatch(10, 11, 2, 1), StateBatch(13, 13, 0, 2))
    return [
        [StateRead(key, 1)],
        [StateInitialization(key, 2, 10)],
        [StateInitialization(key, 1, 10)],
        [SummaryRead(key)],
        [StateRead(key, 4)],
        [StateRead(key, 3)],
        [StateWrite(key, 2, 4, 10, 2, batch)],
        [StateWrite(key, 2, 3, 10, 0, batch)],
        [StateWrite(key, 1, 4, 10, 0, batch)],
        [StateRead(key, 4)],
        [SummaryRead(key)],
        [StateDeletion(key)],
        [StateDeletion(key)],
        [SummaryRead(key)],
    ]
