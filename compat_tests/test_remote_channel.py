"""The remote channel against Apache Kafka's controller, which must accept its requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from compat_tests.apache_kafka import CLUSTER_ID, apache_kafka
from wirekafka.apis.shared import registry
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints.controllers import bootstrap_servers
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.channel import Beat, Registration
from wirekafka.metadata.controller.registration import Endpoint
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.describe_quorum import DescribeQuorumRequest
from wirekafka.replication.partition.remote_replica import DecidedIsr, IsrChange, IsrMember
from wirekafka.replication.raft.metadata_log import sync_inline
from wirekafka.server.clock import LoopClock
from wirekafka.server.controllers.controller_search import ControllerSearch, Quorum
from wirekafka.server.controllers.remote_channel import ControllerRoute, RemoteChannel
from wirekafka.server.net import SocketNet
from wirekafka.server.peers.peer import Peer, PeerOptions

_IDS = count(7)
"""Broker ids: one cannot be registered again before its session has ended."""


class Feed:
    """Records the offsets that are awaited."""

    position = 0

    def __init__(self) -> None:
        self.awaited: list[int] = []

    async def reached(self, offset: int) -> None:
        self.awaited.append(offset)


class Session:
    """A registered broker's channel."""

    def __init__(self, broker_id: int, channel: RemoteChannel, feed: Feed):
        self.broker_id = broker_id
        self.channel = channel
        self.feed = feed
        self.epoch = -1

    async def join(self) -> None:
        registration = Registration.with_own_features(
            broker_id=self.broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=uuid4().bytes,
            endpoints=[Endpoint("PLAINTEXT", "localhost", 9092, 0)],
            rack="r",
            log_dirs=[uuid4().bytes],
        )
        self.epoch = await self.channel.register(registration)

    async def beat(self, **wishes: Any) -> Any:
        return await self.channel.heartbeat(
            Beat(
                broker_id=self.broker_id,
                broker_epoch=self.epoch,
                metadata_offset=self.epoch,
                **wishes,
            )
        )


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("kafka")
    with apache_kafka(directory):
        [address] = re.findall(r"voters=1@(.*)", Path(directory / "server.properties").read_text())
        yield address


@pytest.fixture
def run(controller: str) -> Callable[[Callable[[Session], Awaitable[None]]], None]:
    """Runs a scenario with a broker that is registered."""
    registry.load()
    config = BrokerConfig.of(
        {"process.roles": "broker", "controller.quorum.bootstrap.servers": controller}
    )

    async def play(scenario: Callable[[Session], Awaitable[None]]) -> None:
        clock, broker_id = LoopClock(asyncio.get_running_loop()), next(_IDS)

        def connect(host: str, port: int) -> Peer:
            return Peer(SocketNet(), clock, PeerOptions(host, port, str(broker_id)))

        search = ControllerSearch(Quorum(voters={}, bootstrap=bootstrap_servers(config)), connect)
        feed = Feed()
        channel = RemoteChannel(
            ControllerRoute(
                search=search, connect=connect, clock=clock, config=lambda: config, feed=feed
            )
        )
        session = Session(broker_id, channel, feed)
        try:
            async with asyncio.timeout(120):
                await session.join()
                assert search.cluster_id == CLUSTER_ID
                await scenario(session)
        finally:
            channel.close()
            search.close()

    return lambda scenario: asyncio.run(play(scenario))


def client(version: int, principal: str = "User:ANONYMOUS") -> Any:
    return SimpleNamespace(
        version=version,
        correlation_id=99,
        client_id="a client",
        client_host="/10.1.2.3",
        principal=principal,
        login=None,
        throttle_ms=0,
        is_token_authenticated=False,
        close=lambda: None,
        run_apart=sync_inline,
    )


def test_registered_broker_is_unfenced_and_gets_producer_ids(run: Any) -> None:
    async def scenario(session: Session) -> None:
        assert (await session.beat(wants_fence=True)).is_fenced
        while (await session.beat()).is_fenced:
            await asyncio.sleep(0.05)
        id, epoch = session.broker_id, session.epoch
        first, second = [await session.channel.allocate_producer_ids(id, epoch) for _ in range(2)]
        assert (second.first, second.end) == (first.end, first.end + 1000)
        with pytest.raises(KafkaError) as caught:
            await session.channel.allocate_producer_ids(id, epoch - 1)
        assert caught.value.error is Error.STALE_BROKER_EPOCH
        while not (await session.beat(wants_shut_down=True)).should_shut_down:
            await asyncio.sleep(0.05)

    run(scenario)


def test_topics_are_created(run: Any) -> None:
    async def scenario(session: Session) -> None:
        new = [NewTopic(name="by-a-broker", num_partitions=2), NewTopic(name="bad!")]
        errors = await session.channel.create_topics(new)
        assert errors["by-a-broker"] is None
        assert errors["bad!"] is not None
        assert errors["bad!"].error is Error.INVALID_TOPIC_EXCEPTION
        [offset] = session.feed.awaited
        assert offset > session.epoch
        again = await session.channel.create_topics(new[:1])
        assert again["by-a-broker"] is not None
        assert again["by-a-broker"].error is Error.TOPIC_ALREADY_EXISTS

    run(scenario)


@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_forwarded_request_gets_a_response_in_the_clients_version(run: Any, version: int) -> None:
    async def scenario(session: Session) -> None:
        name = f"by-a-client-{version}"
        topic = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=3, replication_factor=1
        )
        call = client(version, "User:CN=someone,O=else")
        created = await session.channel.forward(CreateTopicsRequest(topics=[topic]), call)
        assert [(each.name, each.error_code) for each in created.topics] == [(name, 0)]
        deleted = await session.channel.forward(
            DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), client(5)
        )
        assert [(each.name, each.error_code) for each in deleted.responses] == [(name, 0)]
        assert len(session.feed.awaited) == 2

    run(scenario)


def test_forwarded_read_gets_a_response(run: Any) -> None:
    async def scenario(session: Session) -> None:
        kind = DescribeQuorumRequest.TopicData
        topic = kind(
            topic_name="__cluster_metadata", partitions=[kind.PartitionData(partition_index=0)]
        )
        response = await session.channel.forward(DescribeQuorumRequest(topics=[topic]), client(2))
        assert response.topics[0].partitions[0].leader_id == 1
        assert session.feed.awaited == []

    run(scenario)


def test_isr_of_a_led_partition_is_changed(run: Any) -> None:
    async def scenario(session: Session) -> None:
        while (await session.beat()).is_fenced:
            await asyncio.sleep(0.05)
        id, epoch = session.broker_id, session.epoch
        kind = CreateTopicsRequest.CreatableTopic
        assignment = kind.CreatableReplicaAssignment(partition_index=0, broker_ids=[id, 1])
        topic = kind(
            name="led-here", num_partitions=-1, replication_factor=-1, assignments=[assignment]
        )
        created = await session.channel.forward(CreateTopicsRequest(topics=[topic]), client(7))
        assert created.topics[0].error_code == 0
        replica = (created.topics[0].topic_id, 0)
        alone = IsrChange((IsrMember(id, epoch),), leader_epoch=0, partition_epoch=0)
        decisions = await session.channel.alter_partition(id, epoch, {replica: alone})
        assert decisions == {replica: DecidedIsr(id, 0, (id,), 0, 1)}
        outdated = await session.channel.alter_partition(
            id, epoch, {replica: alone, (uuid4().bytes, 4): alone}
        )
        errors = [each.error for each in outdated.values() if isinstance(each, KafkaError)]
        assert sorted(errors) == [Error.INVALID_UPDATE_VERSION, Error.UNKNOWN_TOPIC_ID]
        with pytest.raises(KafkaError) as caught:
            await session.channel.alter_partition(id, epoch - 1, {replica: alone})
        assert caught.value.error is Error.STALE_BROKER_EPOCH

    run(scenario)
