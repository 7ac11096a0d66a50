"""Three whole nodes in one process form a cluster, and go on without the active controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ports import free_ports
from wirekafka.codec.frame import encode_request
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.unsupported_options import refuse_unsupported
from wirekafka.config.option import ConfigError
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.protocol.describe_cluster import DescribeClusterRequest
from wirekafka.server.controller_node import ControllerNode
from wirekafka.server.node import Node, Platform

HOST = "127.0.0.1"
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
QUICK = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "300",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "1500",
}


def configs(path: Path, roles: str, count: int, **further: str) -> list[BrokerConfig]:
    """The configurations of the nodes 1, 2, ... with these roles, which are the voters."""
    ports = free_ports(count)
    voters = ",".join(f"{id}@{HOST}:{port}" for id, port in enumerate(ports, 1))
    found = []
    for id, port in enumerate(ports, 1):
        listeners = [f"CONTROLLER://{HOST}:{port}"]
        if "broker" in roles:
            listeners.insert(0, f"PLAINTEXT://{HOST}:0")
        settings = {
            "process.roles": roles,
            "node.id": str(id),
            "log.dirs": str(path / str(id)),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
        }
        config = BrokerConfig.of(QUICK | settings | further)
        refuse_unsupported(config)
        found.append(config)
    return found


def platform() -> Platform:
    return Platform(recover=None, cluster_id=CLUSTER_ID)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


async def create(node: Node, name: str, replicas: int) -> None:
    topic = NewTopic(name=name, num_partitions=2, replication_factor=replicas)
    assert await node.broker.controller_channel.create_topics([topic]) == {name: None}


def test_combined_nodes_go_on_without_the_active_controller(tmp_path: Path) -> None:
    async def scenario() -> None:
        nodes = [Node(each, platform()) for each in configs(tmp_path, "broker,controller", 3)]
        await asyncio.gather(*(node.start() for node in nodes))
        [active] = [node for node in nodes if node.broker.controller.is_active]
        standbys = [node for node in nodes if node is not active]
        for number, node in enumerate(nodes):
            await create(node, f"first-{number}", 3)
        await until(lambda: all(len(node.broker.image.topics) == 3 for node in nodes))
        await until(lambda: all(len(node.broker.image.controllers) == 3 for node in nodes))
        active.abort()
        await until(lambda: any(node.broker.controller.is_active for node in standbys))
        for number, node in enumerate(standbys):
            await create(node, f"second-{number}", 2)
        await until(lambda: all(len(node.broker.image.topics) == 5 for node in standbys))
        again = Node(active._config, platform())
        await again.start()
        await until(lambda: len(again.broker.image.topics) == 5)
        assert not again.broker.controller.is_active
        for node in (again, *standbys):
            node.abort()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_combined_nodes_that_are_stopped_together_all_stop_soon(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = {"broker.session.timeout.ms": "60000"}
        given = configs(tmp_path, "broker,controller", 3, **settings)
        nodes = [Node(each, platform()) for each in given]
        await asyncio.gather(*(node.start() for node in nodes))
        await create(nodes[0], "led", 3)
        await until(lambda: all(len(node.broker.partitions) == 2 for node in nodes))
        async with asyncio.timeout(20):
            await asyncio.gather(*(node.stop() for node in nodes))
        for id in (1, 2, 3):
            assert (tmp_path / str(id) / ".kafka_cleanshutdown").exists()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_start_that_waits_for_the_quorum_is_logged_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        config = configs(tmp_path, "controller", 3)[1]
        node = ControllerNode(config, platform())
        starting = asyncio.create_task(node.start())
        await until(lambda: "Waiting for a leader of the metadata quorum" in caplog.text)
        starting.cancel()
        await asyncio.wait([starting])
        node.abort()

    asyncio.run(scenario())
    [waiting] = [each for each in caplog.messages if each.startswith("Waiting for")]
    assert (
        "voters: 1, 2, 3; last failure: NETWORK_EXCEPTION: cannot connect to 127.0.0.1:" in waiting
    )


_CONTROLLERS_LOG_IN = {
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="node" password="node-secret" user_node="node-secret";'
    ),
}


def test_controllers_with_sasl_log_in_at_each_other_and_serve_nobody_who_does_not(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        given = configs(tmp_path, "controller", 3, **_CONTROLLERS_LOG_IN)
        nodes = [ControllerNode(each, platform()) for each in given]
        await asyncio.gather(*(node.start() for node in nodes))
        await until(lambda: any(node.source.controller.is_active for node in nodes))
        reader, writer = await asyncio.open_connection(*nodes[0].address)
        writer.write(encode_request(1, "stranger", DescribeClusterRequest(endpoint_type=2), 1))
        assert await reader.read() == b"", "closed without an answer"
        writer.close()
        for node in nodes:
            node.abort()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_controller_needs_a_login_module_for_each_mechanism_of_its_listener(
    tmp_path: Path,
) -> None:
    enabled = {"listener.name.controller.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}
    module = "listener.name.controller.scram-sha-256.sasl.jaas.config"

    async def scenario() -> None:
        [config, *_] = configs(tmp_path, "controller", 3, **(_CONTROLLERS_LOG_IN | enabled))
        node = ControllerNode(config, platform())
        with pytest.raises(ConfigError, match=f"{module}: SCRAM-SHA-256 needs a login module"):
            await node.start()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_node_of_several_starts_from_a_snapshot_of_the_metadata(tmp_path: Path) -> None:
    async def scenario() -> None:
        nodes = [Node(each, platform()) for each in configs(tmp_path, "broker,controller", 3)]
        await asyncio.gather(*(node.start() for node in nodes))
        await create(nodes[0], "topic", 3)
        metadata = nodes[0].broker.metadata
        await until(lambda: "topic" in metadata.image.topics)
        records = list(metadata.image.snapshot())
        nodes[0].broker.quorum.write_snapshot(records, MetadataCodec(), metadata.end_offset)
        nodes[0].abort()
        again = Node(nodes[0]._config, platform())
        await again.start()
        assert "topic" in again.broker.image.topics
        for node in (again, *nodes[1:]):
            node.abort()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_controller_that_stops_is_succeeded_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        nodes = [ControllerNode(each, platform()) for each in configs(tmp_path, "controller", 3)]
        await asyncio.gather(*(node.start() for node in nodes))
        await until(lambda: any(node.source.controller.is_active for node in nodes))
        [active] = [node for node in nodes if node.source.controller.is_active]
        epoch = active.source.controller.quorum.epoch
        await active.stop()
        others = [node for node in nodes if node is not active]
        await until(lambda: any(node.source.controller.is_active for node in others))
        [successor] = [node for node in others if node.source.controller.is_active]
        assert successor.source.controller.quorum.epoch > epoch
        assert (tmp_path / str(active._config.node_id) / ".kafka_cleanshutdown").exists()
        for node in others:
            node.abort()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_the_only_controller_is_started_again_on_the_metadata_of_other_brokers(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        [config] = configs(tmp_path, "controller", 1)
        [voter] = config.controller_quorum_voters
        settings = {
            "process.roles": "broker",
            "node.id": "7",
            "log.dirs": str(tmp_path / "7"),
            "controller.quorum.voters": voter,
            "listeners": f"PLAINTEXT://{HOST}:0",
        }
        controller = ControllerNode(config, platform())
        await controller.start()
        broker = Node(BrokerConfig.of(QUICK | settings), platform())
        await broker.start()
        await create(broker, "before", 1)
        controller.abort()
        controller = ControllerNode(config, platform())
        await controller.start()
        await create(broker, "after", 1)
        await broker.stop()
        await controller.stop()

    asyncio.run(scenario())
