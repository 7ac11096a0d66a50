"""Connections above the limits, compared with Apache Kafka: which wait, which are closed, when."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, prepare, running
from tests.eventually import eventually
from tests.ports import free_ports
from tests.raw_client import RawClient
from wirekafka.protocol.alter_client_quotas import AlterClientQuotasRequest
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.metadata import MetadataRequest

SETTINGS = """max.connections=3
listener.name.brokers.max.connections=100
inter.broker.listener.name=BROKERS
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT
num.network.threads=1
offsets.topic.num.partitions=2
"""
WAITED_S = 0.3
"""A request that is not answered for this long waits: others take a few milliseconds."""


class Node:
    """One broker with two listeners, and the connections that a sequence opens."""

    def __init__(self, clients_port: int, brokers_port: int):
        self.ports = {"clients": clients_port, "brokers": brokers_port}
        self.open = ExitStack()

    def connect(self, listener: str = "clients") -> RawClient:
        client = self.open.enter_context(RawClient(self.ports[listener], timeout_s=30))
        client.send(_asked(), 3)
        return client

    def ask(self, request: Any, version: int, client_id: str = "admin") -> Any:
        """The response, over the listener that is never full."""
        with RawClient(self.ports["brokers"], timeout_s=30) as client:
            number = client.send(request, version, client_id)
            return client.receive(type(request), version, number)

    def configure(self, **values: str) -> None:
        kind = IncrementalAlterConfigsRequest.AlterConfigsResource
        configs = [
            kind.AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
            for name, value in values.items()
        ]
        resource = kind(resource_type=4, resource_name="1", configs=configs)
        [result] = self.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert result.error_code == 0, result.error_message

    def set_quota(self, quota: str, value: float | None, kind: str, name: str | None) -> None:
        entry = AlterClientQuotasRequest.EntryData
        ops = [entry.OpData(key=quota, value=value or 0.0, remove=value is None)]
        entity = [entry.EntityData(entity_type=kind, entity_name=name)]
        request = AlterClientQuotasRequest(entries=[entry(entity=entity, ops=ops)])
        assert self.ask(request, 1).entries[0].error_code == 0


def _asked() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="x", client_software_version="1")


def answered(client: RawClient) -> bool:
    client.receive(ApiVersionsRequest, 3)
    return True


def waits(client: RawClient) -> bool:
    """Whether the connection is open, and its request is not answered."""
    client.socket.settimeout(WAITED_S)
    try:
        client.socket.recv(1, socket.MSG_PEEK)
        return False
    except TimeoutError:
        return True
    finally:
        client.socket.settimeout(30)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Node]]:
    with ExitStack() as stack:
        started = []
        for name in ("ours", "kafkas"):
            directory = tmp_path_factory.mktemp(name)
            port, command = prepare(directory, SMALL_JVM, SMALL_CLEANER)
            properties = directory / "server.properties"
            [brokers_port] = free_ports(1)
            first = f"listeners=PLAINTEXT://127.0.0.1:{port},"
            more = f"BROKERS://127.0.0.1:{brokers_port}"
            text = properties.read_text().replace(first, f"{first}{more},")
            first = f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}"
            properties.write_text(text.replace(first, f"{first},{more}") + SETTINGS)
            if name == "ours":
                command = [sys.executable, "-m", "wirekafka", "serve", "--config", str(properties)]
            stack.enter_context(running(command, directory, port, brokers_port))
            started.append(Node(port, brokers_port))
        yield started[0], started[1]


def full(node: Node) -> list[Any]:
    """A connection above max.connections waits for one that closes."""
    first, second, third = (node.connect() for _ in range(3))
    assert answered(first) and answered(second) and answered(third)
    fourth, fifth = node.connect(), node.connect()
    seen = [waits(fourth), waits(fifth)]
    second.socket.close()
    seen += [answered(fourth), waits(fifth)]
    # A broker takes the place of the client whose connection was not used for longest.
    fifth.socket.close()
    time.sleep(0.05)
    third.send(_asked(), 3)
    seen.append(answered(third))
    node.connect("brokers")
    seen += [first.is_closed(), waits(fourth), waits(third)]
    return seen


def lowered(node: Node) -> list[Any]:
    """Connections that are too many after the limit was lowered are closed."""
    node.configure(max_connections="6")
    clients = []
    for _ in range(5):
        clients.append(node.connect())
        assert answered(clients[-1])
    node.configure(max_connections="2")
    closed = [client.is_closed() for client in clients[:3]]
    return [*closed, waits(clients[3]), waits(clients[4])]


def frequent(node: Node) -> list[Any]:
    """Connections above max.connection.creation.rate wait in turn, for less than a second each."""
    node.configure(max_connections="100", max_connection_creation_rate="3")
    time.sleep(12)  # Until the connections before no longer count.
    began_s = time.monotonic()
    clients = [node.connect() for _ in range(34)]
    after_s = []
    for client in clients:
        assert answered(client)
        after_s.append(time.monotonic() - began_s)
    node.configure(max_connection_creation_rate="1000000")
    at_once = sum(each < WAITED_S for each in after_s)
    return [at_once, [round(each) for each in after_s[at_once:]]]


def first_use(node: Node) -> list[Any]:
    """Topics created on first use take tokens of the client; what internal topics take."""
    node.set_quota("controller_mutation_rate", 0.01, "client-id", "small")

    def exists(name: str, client_id: str, *, creates: bool) -> bool:
        request = MetadataRequest(
            topics=[MetadataRequest.Topic(name=name)], allow_auto_topic_creation=creates
        )
        return bool(node.ask(request, 9, client_id).topics[0].error_code == 0)

    seen = []
    for name in ("one", "two"):
        throttle_ms = node.ask(
            MetadataRequest(
                topics=[MetadataRequest.Topic(name=name)], allow_auto_topic_creation=True
            ),
            9,
            "small",
        ).throttle_time_ms
        seen.append(throttle_ms)
    eventually(lambda: exists("one", "admin", creates=False))
    time.sleep(1)
    seen += [exists("two", "admin", creates=False)]
    new = CreateTopicsRequest.CreatableTopic(name="x", num_partitions=1, replication_factor=1)
    created = node.ask(CreateTopicsRequest(topics=[new], timeout_ms=5000), 7, "small")
    seen += [created.topics[0].error_code, round(created.throttle_time_ms / 10_000)]
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    eventually(lambda: node.ask(request, 4, "small").coordinators[0].error_code == 0)
    return seen


@pytest.mark.parametrize("play", [full, lowered, first_use])
def test_limits_have_the_same_effects(
    nodes: tuple[Node, Node], play: Callable[[Node], list[Any]]
) -> None:
    seen = []
    for node in nodes:
        with node.open:
            seen.append(play(node))
    assert seen[0] == seen[1]


@pytest.mark.campaign
@pytest.mark.parametrize("play", [frequent])
def test_rates_have_the_same_effects(
    nodes: tuple[Node, Node], play: Callable[[Node], list[Any]]
) -> None:
    """It takes half a minute: a rate is measured over eleven seconds."""
    seen = []
    for node in nodes:
        with node.open:
            seen.append(play(node))
    assert seen[0] == seen[1]
