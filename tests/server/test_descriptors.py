"""Floods of connections: what a node does when its descriptors are used up, and afterwards."""

from __future__ import annotations

import errno
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.in_process import batch
from tests.ports import free_ports
from tests.raw_client import RawClient
from tests.server.serving import Serving
from tests.server.several_brokers import SeveralBrokers
from wirekafka.errors import Error
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.server.descriptors import Descriptors

_DESCRIPTORS = 128
_IDLE = 200
_SERVED_WITHIN_S = 5


@contextmanager
def flooded(*ports: int) -> Iterator[list[socket.socket]]:
    """Idle connections to each port, more than a node has descriptors for."""
    with ExitStack() as stack:
        opened = []
        for _ in range(_IDLE):
            for port in ports:
                idle = stack.enter_context(socket.socket())
                idle.connect(("127.0.0.1", port))
                opened.append(idle)
        yield opened


def closed(connections: list[socket.socket]) -> int:
    """How many of the connections the other side has closed."""
    count = 0
    for each in connections:
        each.setblocking(False)
        try:
            count += each.recv(1) == b""
        except BlockingIOError:
            pass
        except ConnectionError:
            count += 1
    return count


def create(client: RawClient, topic: str, partitions: int = 1, replicas: int = 1) -> None:
    new = CreateTopicsRequest.CreatableTopic(
        name=topic, num_partitions=partitions, replication_factor=replicas
    )
    [created] = client.call(CreateTopicsRequest(topics=[new], timeout_ms=5_000), 7).topics
    assert created.error_code in (Error.NONE, Error.TOPIC_ALREADY_EXISTS), created


def produce(client: RawClient, topic: str, partition: int = 0) -> None:
    data = ProduceRequest.TopicProduceData.PartitionProduceData(index=partition, records=batch())
    sent = ProduceRequest.TopicProduceData(name=topic, partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[sent])
    [[answer]] = [each.partition_responses for each in client.call(request, 9).responses]
    assert answer.error_code == Error.NONE, answer


def produce_to_all(ports: list[int], topic: str, partitions: int) -> None:
    """Send a record to each partition, at its leader. AssertionError unless all are served."""
    with RawClient(ports[0]) as client:
        found = client.call(MetadataRequest(topics=None), 9)
    port_of = {broker.node_id: broker.port for broker in found.brokers}
    placed = next(each.partitions for each in found.topics if each.name == topic)
    assert len(placed) == partitions
    for each in placed:
        with RawClient(port_of[each.leader_id]) as client:
            produce(client, topic, each.partition_index)


def health(port: int) -> tuple[int, str]:
    """The status of /health/ready, and the reason for it."""
    try:
        url = f"http://127.0.0.1:{port}/health/ready"
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())["reason"]


def test_a_node_refuses_connections_beyond_its_reserve_and_serves_everything_again(
    tmp_path: Path,
) -> None:
    [metrics] = free_ports(1)
    with Serving(
        tmp_path / "data", "--metrics", f"127.0.0.1:{metrics}", descriptors=_DESCRIPTORS
    ) as node:
        with node.client() as client:
            create(client, "known")
            produce(client, "known")
            with flooded(node.port) as idle:
                eventually(lambda: closed(idle) > _IDLE // 2)
                # The reserve is for this: a new topic has new files.
                create(client, "new", 10)
                produce(client, "new", 9)
                status, reason = health(metrics)
                assert status == 503 and f"reserve of {_DESCRIPTORS} descriptors" in reason
            eventually(lambda: health(metrics)[0] == 200, _SERVED_WITHIN_S)
        with node.client() as client:
            create(client, "later", 20)
            produce_to_all([node.port], "later", 20)
        assert node.stop() == 0
    refusals = [line for line in node.errors.splitlines() if "Refusing connections" in line]
    assert len(refusals) == 1, refusals
    assert "Errno" not in node.errors and "Traceback" not in node.errors, node.errors


def test_metrics_and_console_ports_cannot_take_the_descriptors_of_a_node(tmp_path: Path) -> None:
    metrics, console = free_ports(2)
    with Serving(
        tmp_path / "data",
        "--metrics",
        f"127.0.0.1:{metrics}",
        "--console",
        f"127.0.0.1:{console}",
        descriptors=_DESCRIPTORS,
    ) as node:
        with flooded(console, metrics) as idle:
            eventually(lambda: closed(idle) > _IDLE)
        eventually(lambda: health(metrics)[0] == 200, _SERVED_WITHIN_S)
        with node.client() as client:
            create(client, "later", 20)
        produce_to_all([node.port], "later", 20)


def test_brokers_and_their_controller_serve_everything_again_after_a_flood(tmp_path: Path) -> None:
    with SeveralBrokers(tmp_path / "data", 3, descriptors=_DESCRIPTORS) as nodes:
        nodes.await_all()
        ports = [port for _, port in nodes.addresses]
        with RawClient(ports[0]) as client:
            create(client, "known", 3, 3)
            with flooded(*ports, nodes.controller_port) as idle:
                eventually(lambda: closed(idle) > _IDLE)
                create(client, "during", 20, 3)
            freed_s = time.monotonic()

        def create_later() -> bool:
            with RawClient(ports[1]) as client:
                create(client, "later", 20, 3)
            return True

        # The first connections may come before the node has closed the idle ones.
        eventually(create_later, _SERVED_WITHIN_S)
        eventually(lambda: produce_to_all(ports, "during", 20) is None, _SERVED_WITHIN_S)
        eventually(lambda: produce_to_all(ports, "later", 20) is None, _SERVED_WITHIN_S)
        assert time.monotonic() - freed_s < 2 * _SERVED_WITHIN_S
        assert nodes.log.count("Refusing connections") <= 4, nodes.log


def test_topics_created_while_one_broker_of_two_is_flooded_are_served_at_once_afterwards(
    tmp_path: Path,
) -> None:
    with SeveralBrokers(tmp_path / "data", 2, descriptors=_DESCRIPTORS) as nodes:
        nodes.await_all()
        ports = [port for _, port in nodes.addresses]
        topics = [f"topic-{number}" for number in range(20)]
        with RawClient(ports[0]) as client:
            create(client, "known", 2, 2)
            produce_to_all(ports, "known", 2)
            with flooded(ports[1]) as idle:
                eventually(lambda: closed(idle) > _IDLE // 2)
                for topic in topics:
                    create(client, topic, 2, 2)

        def all_are_served() -> bool:
            for topic in topics:
                produce_to_all(ports, topic, 2)
            return True

        eventually(all_are_served, _SERVED_WITHIN_S)
        assert "Errno" not in nodes.log and "Traceback" not in nodes.log, nodes.log


def test_a_controller_of_several_serves_everything_again_after_a_flood(tmp_path: Path) -> None:
    ports = free_ports(6)
    clients, controllers = ports[:3], ports[3:]
    cluster = ["--cluster-id", "q1Sh-9_ISia_zwGINzRvyQ"]
    voters = ",".join(f"{id}@127.0.0.1:{port}" for id, port in enumerate(controllers))

    def started(id: int) -> Serving:
        settings = [
            "process.roles=broker,controller",
            f"node.id={id}",
            f"controller.quorum.voters={voters}",
            "controller.listener.names=CONTROLLER",
            f"listeners=PLAINTEXT://127.0.0.1:{clients[id]},CONTROLLER://127.0.0.1:{controllers[id]}",
            "broker.session.timeout.ms=3000",
            "broker.heartbeat.interval.ms=500",
        ]
        words = [word for each in settings for word in ("--set", each)]
        data = tmp_path / str(id)
        return Serving(data, *cluster, *words, listen="", descriptors=_DESCRIPTORS)

    # At once: each is ready only when two of them are there.
    with ThreadPoolExecutor(3) as pool, ExitStack() as stack:
        for node in pool.map(started, range(3)):
            stack.enter_context(node)

        def create_everywhere(topic: str) -> bool:
            with RawClient(clients[0]) as client:
                create(client, topic, 6, 3)
            return True

        eventually(lambda: create_everywhere("known"))
        with flooded(*controllers) as idle:
            eventually(lambda: closed(idle) > _IDLE)
        eventually(lambda: create_everywhere("later"), _SERVED_WITHIN_S)
        eventually(lambda: produce_to_all(clients, "later", 6) is None, _SERVED_WITHIN_S)


class Ports:
    """A listening socket, and a clock."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.socket.getsockname())


@pytest.fixture
def ports() -> Iterator[Ports]:
    found = Ports()
    with found.socket:
        yield found


def test_refusals_are_logged_once_and_counted(
    ports: Ports, caplog: pytest.LogCaptureFixture
) -> None:
    limit = 20
    descriptors = Descriptors(lambda: limit, lambda: ports.now_s)
    for _ in range(3):
        with ports.connect(), pytest.raises(BlockingIOError):
            descriptors.accept(ports.socket.accept)
    assert descriptors.refused == 3
    assert descriptors.shortage() is not None
    assert [record.message for record in caplog.records] == [
        "Refusing connections (1 so far): 4 of 20 descriptors are in use,"
        " the others are kept for the node's own files"
    ]
    ports.now_s, limit = 20.0, 1 << 16
    with ports.connect(), descriptors.accept(ports.socket.accept)[0]:
        pass
    assert caplog.messages[1:] == ["Connections are accepted again; 2 more had been refused"]
    assert descriptors.shortage() is None


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_an_exhausted_system_is_logged_once(caplog: pytest.LogCaptureFixture, code: int) -> None:
    def accept() -> tuple[socket.socket, object]:
        raise OSError(code, "nothing left")

    descriptors = Descriptors(now_s=lambda: 0.0)
    for _ in range(100):
        with pytest.raises(OSError, match="nothing left"):
            descriptors.accept(accept)
    assert descriptors.refused == 100 and len(caplog.messages) == 1
