"""Fetchers of replicas, over simulated connections to a node that leads, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from tests.in_process import batch
from tests.log.batches import new_log, read_all
from tests.replication.replicas import FakeBrokers
from tests.simulation.disk import SimulatedDisk
from tests.simulation.loop import NodeClock, VirtualLoop
from tests.simulation.network import Network, NetworkFaults
from tests.simulation.node import PORT, SimulatedNode, new_loop
from tests.simulation.trace import Trace
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.topics import CreateTopics, NewTopic
from wirekafka.replication.fetching.fetcher import Fetcher
from wirekafka.replication.fetching.throttle import ReplicationThrottle
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.replica import Leadership, PartitionIdentity
from wirekafka.server.peers.peer import Peer, PeerOptions
from wirekafka.server.peers.replica_fetcher import ReplicaFetchers, Surroundings

LEADER, FOLLOWER = 1, 2
_EPOCH = 10


class Stage:
    """A node that leads partitions of one topic, and a follower's replicas and fetchers."""

    def __init__(self, loop: VirtualLoop, **settings: str):
        self.loop = loop
        self.network = Network(loop, Random(0), Trace())
        self.network.faults = NetworkFaults(slow=0, torn=0.2)
        values = {name.replace("_", "."): value for name, value in settings.items()}
        self.node = SimulatedNode(self.network, "leader", Random(1), values)
        self.host = self.network.host("follower")
        self.clock = NodeClock(loop)
        self.config = BrokerConfig.of({"log.dirs": "/data", **values})
        self.connected: list[str] = []
        self.limit: int | None = None
        self.fetchers = ReplicaFetchers(
            Surroundings(
                node_id=FOLLOWER,
                clock=self.clock,
                config=lambda: self.config,
                broker_epoch=lambda: _EPOCH,
                connect=self._connect,
                throttle=ReplicationThrottle(FOLLOWER, lambda: self.limit, 11, 1000),
            )
        )
        self.replicas: list[Partition] = []
        self.partition_epoch = 100
        self.leader_epoch = 5

    async def create(self, count: int = 1, **config: Any) -> None:
        """Start the node with a topic, and have its replicas followed."""
        await self.node.start()
        topic = NewTopic(name="t", num_partitions=count, replication_factor=1, configs={})
        created = (await self.node.broker.controller.submit(CreateTopics([topic])))["t"]
        assert not isinstance(created, KafkaError)
        await self.until(lambda: len(self.node.broker.partitions) == count)
        for index in range(count):
            self.leading(index).brokers = FakeBrokers(LEADER, FOLLOWER)
            self.replicas.append(
                Partition(
                    PartitionIdentity("t", created.id, index),
                    new_log(SimulatedDisk(), **config),
                    FOLLOWER,
                    self.clock,
                )
            )
        self.publish()

    def publish(self, *, isr: tuple[int, ...] = (LEADER, FOLLOWER)) -> None:
        """Publish the leadership of all partitions to both brokers."""
        self.partition_epoch += 1
        leadership = Leadership(
            leader_id=LEADER,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            isr=isr,
            replicas=(LEADER, FOLLOWER),
        )
        for index, replica in enumerate(self.replicas):
            self.leading(index).lead(leadership)
            replica.follow(leadership)
            self.fetchers.follow(replica)

    def leading(self, index: int = 0) -> Partition:
        return self.node.broker.partitions["t", index]

    def append(self, *values: bytes, index: int = 0) -> None:
        self.leading(index).leading().append_from_client(batch(*values), 1, self.clock.now_ms())

    def is_copied(self) -> bool:
        """Whether every replica has the leader's log and high watermark."""
        return all(
            replica.high_watermark == replica.log.end_offset == self.leading(index).log.end_offset
            and read_all(replica.log) == read_all(self.leading(index).log)
            for index, replica in enumerate(self.replicas)
        )

    async def until(self, holds: Callable[[], bool], most_s: float = 60) -> None:
        for _ in range(int(most_s * 100)):
            if holds():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("it does not come to that")

    def _connect(self, broker_id: int, client_id: str) -> Peer:
        assert broker_id == LEADER
        self.connected.append(client_id)
        return Peer(self.host, self.clock, PeerOptions("leader", PORT, client_id))


def on_stage(scenario: Callable[[Stage], Awaitable[None]], **settings: str) -> None:
    loop = new_loop()

    async def run() -> None:
        stage = Stage(loop, **settings)
        try:
            await scenario(stage)
        finally:
            stage.fetchers.stop()
            if stage.node.is_up:
                await stage.node.stop()

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()


def test_replicas_are_copied_and_committed() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create(3)
        for number in range(30):
            stage.append(b"%d" % number, index=number % 3)
            if number % 10 == 0:
                await asyncio.sleep(0.2)
        await stage.until(stage.is_copied)
        assert stage.connected == ["broker-2-fetcher-0"]

    on_stage(scenario)


def test_an_idle_follower_fetches_once_per_wait() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create()
        await asyncio.sleep(1)
        leading = stage.leading()
        seen = set()
        for _ in range(1_000):
            seen.add(leading.leading().followers[FOLLOWER].fetched_ms)
            await asyncio.sleep(0.01)
        assert 15 <= len(seen) <= 25

    on_stage(scenario)


def test_several_fetchers_share_the_partitions() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create(6)
        assert sorted(stage.connected) == []
        await asyncio.sleep(0.1)
        assert sorted(stage.connected) == [f"broker-2-fetcher-{number}" for number in range(3)]
        for index in range(6):
            stage.append(b"v", index=index)
        await stage.until(stage.is_copied)

    on_stage(scenario, num_replica_fetchers="3")


def test_a_changed_number_of_fetchers_moves_the_partitions() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create(4)
        await stage.until(stage.is_copied)
        stage.config = BrokerConfig.of({"log.dirs": "/data", "num.replica.fetchers": "2"})
        stage.fetchers.configured()
        for index in range(4):
            stage.append(b"v", index=index)
        await stage.until(stage.is_copied)
        assert set(stage.connected) == {"broker-2-fetcher-0", "broker-2-fetcher-1"}

    on_stage(scenario)


def test_a_follower_continues_after_a_lost_connection() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create()
        for _ in range(3):
            stage.append(b"v")
            await stage.until(stage.is_copied)
            for link in tuple(stage.network.links.values()):
                link.cut()
        await stage.until(stage.is_copied)
        assert len(stage.connected) >= 3

    on_stage(scenario)


def test_a_request_that_gets_no_response_times_out() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create()
        await stage.until(stage.is_copied)
        for link in tuple(stage.network.links.values()):
            link.silence()
        stage.append(b"v")
        await stage.until(stage.is_copied)

    on_stage(scenario, replica_socket_timeout_ms="3000")


def test_a_follower_waits_for_a_leader_that_is_not_there_yet() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create()
        stage.append(b"v")
        await stage.node.stop()
        await asyncio.sleep(5)
        assert 3 <= len(stage.connected) <= 8, "it tries once a second"

    on_stage(scenario)


def test_a_replica_that_is_removed_or_led_here_is_not_fetched() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create(2)
        await stage.until(stage.is_copied)
        stage.fetchers.forget(stage.replicas[0])
        for index in range(2):
            stage.append(b"v", index=index)
        await stage.until(lambda: stage.replicas[1].log.end_offset == 1)
        assert stage.replicas[0].log.end_offset == 0
        stage.fetchers.forget(stage.replicas[1])
        await asyncio.sleep(1)
        assert not stage.network.links, "the connection is closed with the last partition"
        stage.fetchers.follow(stage.replicas[0])
        await stage.until(lambda: stage.replicas[0].log.end_offset == 1)

    on_stage(scenario)


def test_a_partition_without_leader_is_not_fetched() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create()
        [replica] = stage.replicas
        replica.follow(Leadership(leader_id=-1, leader_epoch=6, partition_epoch=1000))
        stage.fetchers.follow(replica)
        stage.append(b"v")
        await asyncio.sleep(2)
        assert replica.log.end_offset == 0

    on_stage(scenario)


def test_a_replica_that_was_away_longer_than_retention_starts_at_the_leaders_log_start() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create(segment_bytes=200)
        for number in range(6):
            stage.append(b"%d" % number)
        stage.publish(isr=(LEADER,))
        stage.leading().leading().configure()
        stage.fetchers.forget(stage.replicas[0])
        stage.leading().set_high_watermark(6)
        stage.leading().delete_records(4)
        stage.fetchers.follow(stage.replicas[0])
        await stage.until(lambda: stage.replicas[0].log.end_offset == 6)
        assert stage.replicas[0].log.start_offset == 4

    on_stage(scenario)


def test_a_follower_asks_its_leader_where_the_remote_part_of_a_log_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved: list[Partition] = []
    begun = []

    def restarted(self: Fetcher, partition: Partition, start: int, local: Any, now: int) -> None:
        begun.append((partition.index, start, local.offset))

    monkeypatch.setattr(Fetcher, "moved", lambda self: [moved.pop() for _ in list(moved)])
    monkeypatch.setattr(Fetcher, "restart_after_remote", restarted)

    async def scenario(stage: Stage) -> None:
        await stage.create(2)
        for replica in stage.replicas:
            replica.remote = object()  # type: ignore[assignment]  # Nothing is remote.
        moved.extend(stage.replicas)
        stage.append(b"a")
        await stage.until(lambda: len(begun) == 2)
        assert sorted(begun) == [(0, 0, 0), (1, 0, 0)]
        await stage.until(stage.is_copied)
        for replica in stage.replicas:
            replica.remote = None

    on_stage(scenario)


def test_a_replica_that_is_ahead_of_its_leader_is_truncated() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create()
        stage.append(b"a")
        await stage.until(stage.is_copied)
        [replica] = stage.replicas
        stage.fetchers.forget(replica)
        lone = Leadership(leader_id=FOLLOWER, leader_epoch=6, partition_epoch=900, isr=(FOLLOWER,))
        replica.lead(lone)
        replica.leading().append_from_client(batch(b"lost"), 1, stage.clock.now_ms())
        stage.partition_epoch, stage.leader_epoch = 1000, 7
        stage.publish()
        stage.append(b"b")
        await stage.until(stage.is_copied)
        assert len(read_all(replica.log)) == 2

    on_stage(scenario)


@pytest.mark.parametrize("epoch", [4, 6])
def test_a_follower_whose_metadata_is_older_or_newer_waits_for_it_to_agree(epoch: int) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create()
        [replica] = stage.replicas
        stage.leader_epoch = epoch
        stage.partition_epoch += 1
        replica.follow(
            Leadership(leader_id=LEADER, leader_epoch=epoch, partition_epoch=stage.partition_epoch)
        )
        stage.fetchers.follow(replica)
        stage.append(b"v")
        await asyncio.sleep(3)
        assert replica.log.end_offset == 0
        stage.leader_epoch = 7
        stage.publish()
        await stage.until(stage.is_copied, most_s=2)

    on_stage(scenario)


def test_an_unknown_address_is_looked_up_again() -> None:
    async def scenario(stage: Stage) -> None:
        connect = stage._connect
        attempts: list[int] = []

        def refuse(broker_id: int, client_id: str) -> Peer:
            attempts.append(broker_id)
            if len(attempts) < 3:
                raise KafkaError(Error.BROKER_NOT_AVAILABLE)
            return connect(broker_id, client_id)

        object.__setattr__(stage.fetchers._surroundings, "connect", refuse)
        await stage.create()
        stage.append(b"v")
        await stage.until(stage.is_copied)
        assert len(attempts) == 3

    on_stage(scenario)


def test_throttled_replicas_catch_up_at_the_configured_rate() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create()
        [replica] = stage.replicas
        replica.log.config = replica.log.config.changed(
            follower_replication_throttled_replicas=("0:2",)
        )
        stage.leading().brokers = FakeBrokers(LEADER)
        stage.publish(isr=(LEADER,))
        stage.limit = 20_000
        stage.config = BrokerConfig.of({"log.dirs": "/data", "replica.fetch.max.bytes": "5000"})
        for _ in range(200):
            stage.append(b"x" * 1000)
        began_ms = stage.clock.now_ms()
        await stage.until(lambda: replica.log.end_offset == 200)
        taken_s = (stage.clock.now_ms() - began_ms) / 1000
        assert 8 <= taken_s <= 15, "about 200 KB at 20 KB/s"

    on_stage(scenario)
