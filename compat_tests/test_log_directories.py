"""Replicas move between the log directories of a broker of either engine, as Kafka moves them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import HOST, Cluster, Shape
from compat_tests.java_tools import JavaTools
from compat_tests.replica_audit import Workload, assert_equal_replicas, assert_kept, drained
from compat_tests.tool_shell import ToolShell
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.metadata.image.image import BROKER
from wirekafka.protocol.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest

APACHE, OURS = 1, 2
SETTINGS = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "log.segment.delete.delay.ms": "500",
    "log.initial.task.delay.ms": "500",
    "auto.leader.rebalance.enable": "false",
}
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
SET, DELETE = 0, 1
_Directory = AlterReplicaLogDirsRequest.AlterReplicaLogDir


class Mover:
    """One broker, whose replicas are moved; its directories are named 0 and 1."""

    def __init__(self, cluster: Cluster, id: int):
        self.id = id
        self.cluster = cluster
        self.node = cluster.nodes[id]
        self.wire = Wire((HOST, self.node.port))
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def create(self, name: str, *replicas: int) -> str:
        """Create a topic of one partition, by default on this broker alone."""
        name = f"{name}-{self.id}"
        topic = NewTopic(name, 1, replica_assignment=[list(replicas) or [self.id]])
        self.admin.create_topics([topic])[name].result(30)
        if self.id in (replicas or [self.id]):
            eventually(lambda: self.placed(name))
        return name

    def fill(self, name: str) -> None:
        """Append 4 MB."""
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        for _ in range(8):
            producer.produce(name, b"1" * 500_000)
            assert producer.flush(60) == 0

    def path(self, number: int) -> str:
        return str(self.node.log_dirs[number])

    def move(self, name: str, path: str, index: int = 0, version: int = 2) -> list[Any]:
        """(topic, partition, error) of a request to move one replica."""
        topic = _Directory.AlterReplicaLogDirTopic(name=name, partitions=[index])
        request = AlterReplicaLogDirsRequest(dirs=[_Directory(path=path, topics=[topic])])
        response = self.wire.ask(request, version)
        return [
            (topic.topic_name.removesuffix(f"-{self.id}"), each.partition_index, each.error_code)
            for topic in response.results
            for each in topic.partitions
        ]

    def move_over(self, name: str) -> None:
        """Move the replica of a topic to the other directory, and wait until it is there."""
        here = self.place(name)
        [(_, _, error)] = self.move(name, self.path(1 - here))
        assert error == 0
        eventually(lambda: self.placed(name) == [(1 - here, False, False)], timeout_s=60)

    def placed(self, name: str) -> list[tuple[int, bool, bool]]:
        """(directory, whether it lags, whether it is a future log) of each log of a topic."""
        kind = DescribeLogDirsRequest.DescribableLogDirTopic
        request = DescribeLogDirsRequest(topics=[kind(topic=name, partitions=[0])])
        paths = list(map(str, self.node.log_dirs))
        return sorted(
            (paths.index(result.log_dir), each.offset_lag > 0, each.is_future_key)
            for result in self.wire.ask(request, 4).results
            for topic in result.topics
            for each in topic.partitions
        )

    def place(self, name: str) -> int:
        """The directory of the one log of a topic."""
        [(number, _, _)] = [each for each in self.placed(name) if not each[2]]
        return number

    def limit(self, bytes_per_s: int | None) -> None:
        """Limit the rate at which this broker copies replicas."""
        self.configure(RATE, None if bytes_per_s is None else str(bytes_per_s))

    def cordon(self, *numbers: int) -> None:
        """Cordon these directories and no others."""
        self.configure("cordoned.log.dirs", ",".join(map(self.path, numbers)))

        def cordoned() -> list[bool]:
            response = self.wire.ask(DescribeLogDirsRequest(topics=[]), 5)
            found = {result.log_dir: result.is_cordoned for result in response.results}
            return [found[self.path(number)] for number in (0, 1)]

        eventually(lambda: cordoned() == [number in numbers for number in (0, 1)])

    def configure(self, name: str, value: str | None) -> None:
        """Set an option of this broker at run time, or reset it with None."""
        kind = IncrementalAlterConfigsRequest.AlterConfigsResource
        operation = DELETE if value is None else SET
        change = kind.AlterableConfig(name=name, config_operation=operation, value=value)
        resource = kind(resource_type=BROKER, resource_name=str(self.id), configs=[change])
        response = self.wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert response.responses[0].error_code == 0, response

    def folders(self, name: str) -> list[list[str]]:
        """The marks of a topic's folders in each directory: `future`, `delete` or empty."""
        return [
            sorted(
                each.name.rpartition("-")[2] if "." in each.name else ""
                for each in data.iterdir()
                if each.name.startswith(f"{name}-")
            )
            for data in self.node.log_dirs
        ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    shape = Shape(settings=SETTINGS, log_directories=2)
    with Cluster.running(shape, tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def movers(cluster: Cluster) -> list[Mover]:
    return [Mover(cluster, id) for id in (APACHE, OURS)]


def moves_are_refused(mover: Mover) -> Any:
    """For unknown directories, topics and partitions, in every version."""
    name, elsewhere = mover.create("refused"), mover.create("elsewhere", 3 - mover.id)
    here = mover.place(name)
    same, other = mover.path(here), mover.path(1 - here)
    asked = [
        (name, same, 0),
        (name, "/nonexistent", 0),
        (name, "", 0),
        (name, Path(other).name, 0),
        (name, f"{other}/", 0),
        (name, other, 1),
        (name, other, -1),
        ("missing", other, 0),
        ("missing", "/nonexistent", 0),
        (elsewhere, other, 0),
        ("x" * 207, other, 0),
        ("x" * 208, other, 0),
        ("x" * 250, other, 0),
        ("", other, 0),
        ("a/b", other, 0),
    ]
    return [
        mover.move(name, path, index, version) for name, path, index in asked for version in (1, 2)
    ]


def a_cordoned_directory_takes_no_replica(mover: Mover) -> Any:
    """What is there may leave it (KIP-1066)."""
    name = mover.create("cordoned")
    here = mover.place(name)
    mover.cordon(1 - here)
    asked = [
        (name, mover.path(here)),
        (name, mover.path(1 - here)),
        ("missing", mover.path(1 - here)),
        ("x" * 250, mover.path(1 - here)),
    ]
    refused = [mover.move(*each) for each in asked]
    new = [mover.place(mover.create(f"other-{number}")) == here for number in range(3)]
    mover.cordon(here)
    mover.move_over(name)
    mover.cordon()
    return refused, new


def a_broker_without_an_open_directory_gets_no_replica(mover: Mover) -> Any:
    """The controller learns from the heartbeats that all are cordoned."""

    def refusal() -> int:
        kind = CreateTopicsRequest.CreatableTopic
        topic = kind(name=f"automatic-{mover.id}", num_partitions=1, replication_factor=2)
        response = mover.wire.ask(CreateTopicsRequest(topics=[topic], validate_only=True), 7)
        code: int = response.topics[0].error_code
        return code

    before = refusal()
    mover.cordon(0, 1)
    refused = eventually(refusal)
    mover.cordon()
    eventually(lambda: not refusal())
    return before, refused


def a_move_is_described_and_cancelled(mover: Mover) -> Any:
    """Its future log lags while the rate is limited, and is deleted when it is moved back."""
    name = mover.create("cancelled")
    mover.fill(name)
    here = mover.place(name)
    mover.limit(100)
    moved = [mover.move(name, mover.path(1 - here)) for _ in range(2)]
    eventually(lambda: len(mover.placed(name)) == 2)
    lags = [(number == here, *rest) for number, *rest in mover.placed(name)]
    folders = mover.folders(name)
    moved.append(mover.move(name, mover.path(here)))
    mover.limit(None)
    eventually(lambda: len(mover.placed(name)) == 1)
    eventually(lambda: mover.folders(name)[1 - here] == [])
    return moved, sorted(lags), folders[here], folders[1 - here], mover.place(name) == here


def a_move_is_completed(mover: Mover) -> Any:
    """And what it leaves is deleted."""
    name = mover.create("completed")
    mover.fill(name)
    here = mover.place(name)
    moved = mover.move(name, mover.path(1 - here))
    eventually(lambda: mover.placed(name) == [(1 - here, False, False)])
    eventually(lambda: mover.folders(name)[here] == [])
    assert mover.folders(name)[1 - here] == [""]
    return moved


def a_replica_is_created_where_it_was_requested(mover: Mover) -> Any:
    """The request fails, but it is remembered."""
    seen = []
    for number in (0, 1):
        name = f"requested-{number}-{mover.id}"
        seen += mover.move(name, mover.path(number))
        assert mover.create(f"requested-{number}") == name
        seen.append(mover.place(name) == number)
    return seen


PLAYS: list[Callable[[Mover], Any]] = [
    moves_are_refused,
    a_cordoned_directory_takes_no_replica,
    a_broker_without_an_open_directory_gets_no_replica,
    a_move_is_described_and_cancelled,
    a_move_is_completed,
    a_replica_is_created_where_it_was_requested,
]


@pytest.mark.parametrize("play", PLAYS, ids=[play.__name__ for play in PLAYS])
def test_replicas_move_as_kafka_moves_them(
    movers: list[Mover], play: Callable[[Mover], Any]
) -> None:
    expected, ours = (play(mover) for mover in movers)
    assert ours == expected


def test_replicas_move_while_they_are_written_and_replicated(movers: list[Mover]) -> None:
    """The leader's and the follower's, of either engine, at the same time; nothing is lost."""
    cluster = movers[0].cluster
    topics = [
        movers[0].create("led-by-apache", APACHE, OURS),
        movers[0].create("led-by-ours", OURS, APACHE),
    ]
    for name in topics:
        with Workload(cluster.bootstrap, name, 1) as workload:
            workload.goes_on(300)
            for _ in range(2):
                for mover in movers:
                    mover.move_over(name)
                workload.goes_on(300)
            acknowledged = workload.stop()
        assert not acknowledged.failed, acknowledged.failed[:3]
        assert_kept(acknowledged, drained(cluster.bootstrap, name, 1))
        data = [mover.node.log_dirs[mover.place(name)] for mover in movers]
        eventually(lambda data=data, name=name: assert_equal_replicas(data, [f"{name}-0"]))


def test_a_move_goes_on_after_a_restart(movers: list[Mover]) -> None:
    mover = movers[1]
    name = mover.create("restarted")
    mover.fill(name)
    here = mover.place(name)
    mover.limit(100)
    mover.move(name, mover.path(1 - here))
    eventually(lambda: len(mover.placed(name)) == 2)
    mover.cluster.kill(mover.id)
    mover.cluster.start(mover.id)
    mover.wire.close()
    eventually(lambda: len(mover.placed(name)) == 2)
    mover.limit(None)
    eventually(lambda: mover.placed(name) == [(1 - here, False, False)])
    mover.cluster.stop(mover.id)
    mover.cluster.start(mover.id)
    mover.wire.close()
    eventually(lambda: mover.placed(name) == [(1 - here, False, False)])
    assert "Reporting the directories" not in mover.node.log.read_text()


def test_the_tool_moves_replicas_to_a_directory_of_another_broker(
    movers: list[Mover], java_tools: JavaTools, tmp_path: Path
) -> None:
    """`kafka-reassign-partitions` with log_dirs, onto each engine."""
    tools = ToolShell(java_tools, movers[0].cluster.bootstrap)
    for mover, other in (movers, movers[::-1]):
        name = mover.create("by-tool", other.id)
        other.fill(name)
        for number in (0, 1):
            wanted = {
                "topic": name,
                "partition": 0,
                "replicas": [mover.id],
                "log_dirs": [mover.path(number)],
            }
            plan = tmp_path / f"{name}-{number}.json"
            plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
            begun = ["--reassignment-json-file", str(plan)]
            said = tools.run("kafka-reassign-partitions", *begun, "--execute")
            assert "Successfully started" in said, said

            def verified(plan: list[str] = begun) -> str:
                said = tools.run("kafka-reassign-partitions", *plan, "--verify")
                return said if said.count(" completed") == 2 else ""

            said = eventually(verified, timeout_s=60, every_s=0.3)
            assert f"replica {name}-0-{mover.id} completed successfully" in said, said
            assert mover.placed(name) == [(number, False, False)]
