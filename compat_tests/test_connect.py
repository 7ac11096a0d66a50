"""Kafka Connect's distributed workers and MirrorMaker 2 run against a wirekafka broker."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from compat_tests.java_tools import JavaTools
from compat_tests.mortal_broker import MortalBroker
from compat_tests.reading import read_to_end
from spark_examples.live_broker import live_broker
from tests import kafka_jars
from tests.eventually import eventually as at_some_time
from tests.ports import free_ports

PATIENCE_S = 120
"""A worker takes long to start, or to notice a failure, on a busy machine."""
WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"
MIRROR_MAKER = "org.apache.kafka.connect.mirror.MirrorMaker"

WORKER_PROPERTIES = """bootstrap.servers={bootstrap}
group.id=workers
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
config.storage.topic=connect-configs
config.storage.replication.factor=1
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
exactly.once.source.support=enabled
offset.flush.interval.ms=500
scheduled.rebalance.max.delay.ms=0
plugin.discovery=service_load
listeners=http://127.0.0.1:{port}
rest.advertised.host.name=127.0.0.1
"""

MIRRORED_CLUSTERS = """clusters=east,west
east.bootstrap.servers={east}
west.bootstrap.servers={west}
east->west.enabled=true
west->east.enabled=false
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
"""
"""MirrorMaker's clusters of one broker each."""
MIRROR_PROPERTIES = (
    MIRRORED_CLUSTERS
    + """topics=orders
groups=readers
sync.group.offsets.enabled=true
sync.group.offsets.interval.seconds=1
emit.checkpoints.interval.seconds=1
refresh.topics.interval.seconds=1
refresh.groups.interval.seconds=1
sync.topic.configs.interval.seconds=1
offset.lag.max=0
"""
)


eventually = partial(at_some_time, timeout_s=PATIENCE_S)


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> JavaTools:
    return JavaTools(kafka_jars.connect_jars(), tmp_path_factory.mktemp("connect"))


@contextmanager
def running(tools: JavaTools, main: str, properties: Path, text: str) -> Iterator[None]:
    """A Java process that reads `text` as its properties, ended in order."""
    properties.write_text(text)
    with properties.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            tools.command(main, str(properties)), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Worker:
    """A Connect worker's REST API."""

    def __init__(self, port: int):
        self._base = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a request and return the response. Raises OSError while the worker is not up."""
        request = urllib.request.Request(
            self._base + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def create(self, name: str, connector: str, **settings: str) -> None:
        config = {"connector.class": connector, "tasks.max": "1", **settings}
        eventually(lambda: self.ask("PUT", f"/connectors/{name}/config", config))

    def change(self, method: str, path: str) -> None:
        """Send a request without a response body, and retry while workers rejoin."""

        def is_taken() -> bool:
            self.ask(method, path)
            return True

        eventually(is_taken)

    def places(self) -> set[str]:
        """The workers of the connectors and tasks, once all of them run."""
        found = set()
        for name in self.ask("GET", "/connectors"):
            status = self.ask("GET", f"/connectors/{name}/status")
            assert status["tasks"], f"{name} has no task"
            for part in (status["connector"], *status["tasks"]):
                assert part["state"] == "RUNNING", status
                found.add(part["worker_id"])
        return found

    def offsets(self, name: str) -> list[Any]:
        """The offsets that a connector has committed."""
        committed: list[Any] = self.ask("GET", f"/connectors/{name}/offsets")["offsets"]
        return committed

    def state(self, name: str) -> str:
        """The state of a connector; a stopped one has no tasks."""
        status = self.ask("GET", f"/connectors/{name}/status")
        return status["connector"]["state"] + " with tasks" * bool(status["tasks"])


@pytest.mark.timeout(600)
def test_connect_moves_each_line_once_while_workers_and_the_broker_come_and_go(
    connect: JavaTools, mortal: MortalBroker, tmp_path: Path
) -> None:
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    lines: list[str] = []

    def add_lines() -> None:
        added = [f"line {len(lines) + number}" for number in range(100)]
        with source.open("a") as file:
            file.writelines(f"{line}\n" for line in added)
        lines.extend(added)

    def arrived() -> bool:
        # The sink may write uncommitted records again; only the source is exactly-once.
        return list(dict.fromkeys(sink.read_text().splitlines())) == lines

    def worker(port: int) -> Any:
        text = WORKER_PROPERTIES.format(bootstrap=mortal.bootstrap, port=port)
        return running(connect, WORKER, tmp_path / f"worker-{port}.properties", text)

    first_port, second_port = free_ports(2)
    first = Worker(first_port)
    with ExitStack() as stack:
        stack.enter_context(worker(first_port))
        first.create("source", "FileStreamSource", file=str(source), topic="lines")
        first.create("sink", "FileStreamSink", file=str(sink), topics="lines")
        add_lines()
        eventually(arrived)
        with worker(second_port):
            eventually(lambda: len(first.places()) == 2)
            add_lines()
            eventually(arrived)
        eventually(lambda: first.places() == {f"127.0.0.1:{first_port}"})
        mortal.kill()
        add_lines()
        mortal.start()
        eventually(arrived)
        _start_the_sink_over(first, sink)
        eventually(arrived)
    with worker(first_port):
        add_lines()
        eventually(arrived)
    moved = read_to_end(mortal.bootstrap, [TopicPartition("lines", 0, 0)])
    assert [(record.value() or b"").decode() for record in moved] == lines
    _assert_compacted(mortal.bootstrap)


def _start_the_sink_over(worker: Worker, sink: Path) -> None:
    worker.change("PUT", "/connectors/sink/stop")
    eventually(lambda: worker.state("sink") == "STOPPED")
    [committed] = eventually(lambda: worker.offsets("sink"))
    assert committed["partition"] == {"kafka_topic": "lines", "kafka_partition": 0}
    assert committed["offset"]["kafka_offset"] >= 300
    worker.change("DELETE", "/connectors/sink/offsets")
    eventually(lambda: worker.offsets("sink") == [])
    sink.unlink()
    worker.change("PUT", "/connectors/sink/resume")


def _assert_compacted(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for kept in ("configs", "offsets", "status"):
        assert _setting(admin, f"connect-{kept}", "cleanup.policy") == "compact"


@pytest.mark.timeout(600)
def test_mirror_maker_copies_topics_their_settings_and_where_groups_are(
    connect: JavaTools, tmp_path: Path
) -> None:
    with live_broker(tmp_path / "east") as east, live_broker(tmp_path / "west") as west:
        _trade(east)
        text = MIRROR_PROPERTIES.format(east=east, west=west)
        with running(connect, MIRROR_MAKER, tmp_path / "mirror.properties", text):
            admin = AdminClient({"bootstrap.servers": west, "log_level": 0})
            eventually(lambda: _offsets(admin) == {0: 100, 1: 100})
            eventually(lambda: _setting(admin, "east.orders", "retention.ms") == "86400001")
        places = [TopicPartition("east.orders", partition, 0) for partition in range(2)]
        copied = read_to_end(west, places)
        assert sorted(record.value() for record in copied) == [b"%03d" % n for n in range(200)]
        assert {"east.checkpoints.internal", "heartbeats"} <= set(admin.list_topics().topics)


def _trade(bootstrap: str) -> None:
    """200 orders in two partitions, all read by a group."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    orders = NewTopic("orders", 2, 1, config={"retention.ms": "86400001"})
    admin.create_topics([orders])["orders"].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(200):
        producer.produce("orders", b"%03d" % number, partition=number % 2)
    producer.flush(30)
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    reader.subscribe(["orders"])
    read = 0
    while read < 200:
        read += len(reader.consume(200, timeout=1))
    reader.commit(asynchronous=False)
    reader.close()


def _offsets(admin: AdminClient) -> dict[int, int]:
    """Where the group is in the copy, by partition."""
    asked = [ConsumerGroupTopicPartitions("readers")]
    answer = admin.list_consumer_group_offsets(asked)["readers"].result(30)
    return {
        each.partition: each.offset
        for each in answer.topic_partitions
        if each.topic == "east.orders"
    }


def _setting(admin: AdminClient, topic: str, name: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return str(admin.describe_configs([resource])[resource].result(30)[name].value)
