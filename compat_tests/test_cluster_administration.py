"""Kafka's tools administer a cluster with brokers of both engines, while a producer writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.java_tools import JavaTools
from compat_tests.replica_audit import Workload, assert_equal_replicas, assert_kept, drained
from compat_tests.tool_shell import ToolShell
from tests.eventually import eventually

APACHE, OURS, THIRD = 1, 2, 3
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "min.insync.replicas": "1",
    # Leaders move by election only where a test stops a broker.
    "auto.leader.rebalance.enable": "false",
    "log.segment.delete.delay.ms": "500",
    # Apache Kafka deletes nothing in its first 30 s.
    "log.initial.task.delay.ms": "500",
}
TIMEOUT_S = 60.0
Assignment = Sequence[Sequence[int]]


class Administered:
    """The cluster, an admin client, and Kafka's tools."""

    def __init__(self, cluster: Cluster, tools: ToolShell, scratch: Path):
        self.cluster = cluster
        self.tools = tools
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        self._scratch = scratch

    def create(self, name: str, assignment: Assignment, **config: str) -> str:
        values = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(
            name, len(assignment), replica_assignment=list(map(list, assignment)), config=values
        )
        self.admin.create_topics([topic])[name].result(30)
        eventually(
            lambda: self.leaders(name) == [replicas[0] for replicas in assignment],
            timeout_s=TIMEOUT_S,
        )
        return name

    def produce(self, name: str, partition: int, *values: bytes) -> None:
        """Append records, one batch each, and wait until they are acknowledged."""
        producer = Producer(
            {"bootstrap.servers": self.cluster.bootstrap, "acks": "all", "log_level": 0}
        )
        for value in values:
            producer.produce(name, value, partition=partition)
            assert producer.flush(60) == 0

    def leaders(self, name: str) -> list[int]:
        """The leader of each partition; -1 for one without."""
        partitions = self.admin.list_topics(name, 10).topics[name].partitions
        return [partitions[index].leader for index in sorted(partitions)]

    def replicas(self, name: str) -> list[list[int]]:
        partitions = self.admin.list_topics(name, 10).topics[name].partitions
        return [partitions[index].replicas for index in sorted(partitions)]

    def await_isr(self, name: str, assignment: Assignment) -> None:
        """Wait until the ISRs have exactly these brokers."""
        wanted = [sorted(replicas) for replicas in assignment]

        def are_in_sync() -> bool:
            partitions = self.admin.list_topics(name, 10).topics[name].partitions
            return [sorted(partitions[index].isrs) for index in sorted(partitions)] == wanted

        eventually(are_in_sync, timeout_s=TIMEOUT_S)

    def reassign(self, name: str, assignment: Assignment, *options: str) -> str:
        """Begin a reassignment; returns the path of the plan."""
        plan = {
            "version": 1,
            "partitions": [
                {"topic": name, "partition": index, "replicas": list(replicas)}
                for index, replicas in enumerate(assignment)
            ],
        }
        path = self._scratch / f"{name}.json"
        path.write_text(json.dumps(plan))
        said = self.tools.run(
            "kafka-reassign-partitions",
            "--reassignment-json-file",
            str(path),
            "--execute",
            *options,
        )
        assert "Successfully started partition reassignment" in said, said
        return str(path)

    def move(self, name: str, assignment: Assignment) -> None:
        """Reassign with a throttle, and have the tool verify it until it is complete."""
        plan = self.reassign(name, assignment, "--throttle", "50000000")

        def verified() -> str:
            said = self.tools.run(
                "kafka-reassign-partitions", "--reassignment-json-file", plan, "--verify"
            )
            # The tool says "no active reassignment" while a broker has yet to hear of its end.
            return said if said.count("is completed.") == len(assignment) else ""

        said = eventually(verified, timeout_s=TIMEOUT_S, every_s=0.3)
        assert "Clearing broker-level throttles" in said, said
        assert self.replicas(name) == [list(replicas) for replicas in assignment]

    def folders(self, id: int, name: str) -> list[str]:
        """The folders of a topic in a broker's log directory that are not about to be deleted."""
        data = self.cluster.nodes[id].data
        return sorted(
            each.name
            for each in data.iterdir()
            if each.name.startswith(f"{name}-") and not each.name.endswith("-delete")
        )

    def await_folders(self, name: str, assignment: Assignment) -> None:
        """Wait until each broker has a folder for each of its replicas, and none besides."""
        for node in self.cluster.brokers():
            wanted = [
                f"{name}-{index}"
                for index, replicas in enumerate(assignment)
                if node.id in replicas
            ]
            eventually(
                lambda id=node.id, wanted=wanted: self.folders(id, name) == wanted,
                timeout_s=TIMEOUT_S,
            )

    def assert_equal(self, name: str, partitions: int) -> None:
        """The replicas of a topic that is not written to are byte-identical."""
        data = [node.data for node in self.cluster.brokers()]
        names = [f"{name}-{index}" for index in range(partitions)]

        def are_equal() -> bool:
            return assert_equal_replicas(data, names) > 0

        eventually(are_equal, timeout_s=TIMEOUT_S)


@pytest.fixture(scope="module")
def administered(
    tmp_path_factory: pytest.TempPathFactory, java_tools: JavaTools
) -> Iterator[Administered]:
    scratch = tmp_path_factory.mktemp("administered")
    shape = Shape(brokers=(KAFKA, WIREKAFKA, WIREKAFKA), is_combined=False, settings=SETTINGS)
    with Cluster.running(shape, scratch) as cluster:
        yield Administered(cluster, ToolShell(java_tools, cluster.bootstrap), scratch)


def test_partitions_move_onto_and_off_wirekafka_while_they_are_written(
    administered: Administered,
) -> None:
    cluster, name = administered.cluster, administered.create("moved", [[1], [2], [3]])
    with Workload(cluster.bootstrap, name, 3) as workload:
        workload.goes_on(500)
        for assignment in ([[2, 3], [3, 1], [1, 2]], [[1], [1], [1]], [[3, 1], [3, 2], [2, 1]]):
            administered.move(name, assignment)
            workload.goes_on(300)
        acknowledged = workload.stop()
    assert not acknowledged.failed, acknowledged.failed[:3]
    assert_kept(acknowledged, drained(cluster.bootstrap, name, 3))
    administered.await_folders(name, assignment)
    administered.assert_equal(name, 3)


def test_a_cancelled_reassignment_leaves_no_trace(administered: Administered) -> None:
    before, after = [[1], [2], [2]], [[2], [1], [3]]
    name = administered.create("stayed", before)
    for index in range(3):
        administered.produce(name, index, *[b"x" * 900_000] * 2)
    plan = administered.reassign(name, after, "--throttle", "1000")
    listed = administered.tools.run("kafka-reassign-partitions", "--list")
    assert re.findall(
        r"stayed-(\d): replicas: (.*?)\. adding: (.*?)\. removing: (.*?)\.", listed
    ) == [("0", "2,1", "2", "1"), ("1", "1,2", "1", "2"), ("2", "3,2", "3", "2")], listed
    described = administered.tools.run("kafka-topics", "--describe", "--topic", name)
    assert "Adding Replicas: 3" in described and "Removing Replicas: 2" in described, described
    eventually(lambda: administered.folders(3, name) == [f"{name}-2"])
    with Workload(administered.cluster.bootstrap, name, 3) as workload:
        workload.goes_on()
        said = administered.tools.run(
            "kafka-reassign-partitions", "--reassignment-json-file", plan, "--cancel"
        )
        assert (
            "Successfully cancelled partition reassignments for: stayed-0,stayed-1,stayed-2" in said
        )
        workload.goes_on()
        acknowledged = workload.stop()
    assert not acknowledged.failed, acknowledged.failed[:3]
    assert administered.replicas(name) == before
    assert "No partition reassignments found." in administered.tools.run(
        "kafka-reassign-partitions", "--list"
    )
    administered.await_folders(name, before)


def test_topics_change_their_replication_factor(administered: Administered) -> None:
    name = administered.create("grown", [[2], [3]])
    for index in range(2):
        administered.produce(name, index, *(b"%d" % number for number in range(20)))
    for assignment in ([[2, 3, 1], [3, 1, 2]], [[2, 1], [3, 1]]):
        administered.move(name, assignment)
        described = administered.tools.run("kafka-topics", "--describe", "--topic", name)
        assert f"ReplicationFactor: {len(assignment[0])}" in described, described
        administered.await_isr(name, assignment)
        administered.await_folders(name, assignment)
        administered.assert_equal(name, 2)


@pytest.mark.parametrize(
    "away", [THIRD, pytest.param(APACHE, marks=pytest.mark.campaign)], ids=["wirekafka", "apache"]
)
def test_topics_are_watched_and_deleted_while_a_replica_is_away(
    administered: Administered, away: int
) -> None:
    cluster, run = administered.cluster, administered.tools.run
    left, other = [id for id in (APACHE, OURS, THIRD) if id != away]
    assignment = [[left, away], [away, other], [left, other]]
    watched = administered.create(f"watched-{away}", assignment, min_insync_replicas="2")
    doomed = administered.create(f"doomed-{away}", assignment)
    for index in range(3):
        administered.produce(doomed, index, b"value")
    administered.await_isr(watched, assignment)
    cluster.stop(away)
    bootstrap = ",".join(cluster.nodes[id].bootstrap for id in (left, other))
    listed = {
        option: run(
            "kafka-topics", "--describe", "--topic", watched, f"--{option}", bootstrap=bootstrap
        )
        for option in (
            "under-replicated-partitions",
            "at-min-isr-partitions",
            "under-min-isr-partitions",
            "unavailable-partitions",
        )
    }
    found = {option: re.findall(r"Partition: (\d)", text) for option, text in listed.items()}
    assert found == {
        "under-replicated-partitions": ["0", "1"],
        "at-min-isr-partitions": ["2"],
        "under-min-isr-partitions": ["0", "1"],
        "unavailable-partitions": [],
    }, listed
    run("kafka-topics", "--delete", "--topic", doomed, bootstrap=bootstrap)
    cluster.start(away)
    administered.await_isr(watched, assignment)
    run(
        "kafka-leader-election",
        "--election-type",
        "PREFERRED",
        "--topic",
        watched,
        "--partition",
        "1",
    )
    eventually(lambda: administered.leaders(watched) == [left, away, left])
    for id in (left, other):
        eventually(lambda id=id: administered.folders(id, doomed) == [])
    # Either engine keeps what the cluster does not know any more, out of the way of new topics.
    strays = administered.folders(away, doomed)
    assert [each.partition(".")[0] for each in strays] == [f"{doomed}-0", f"{doomed}-1"]
    assert all(each.endswith("-stray") for each in strays), strays


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (OURS, APACHE),
        pytest.param(APACHE, OURS, marks=pytest.mark.campaign),
        pytest.param(OURS, THIRD, marks=pytest.mark.campaign),
    ],
)
def test_an_unclean_election_gives_up_what_only_the_lost_leader_had(
    administered: Administered, first: int, second: int
) -> None:
    cluster, run = administered.cluster, administered.tools.run
    name = administered.create(f"unclean-{first}-{second}", [[first, second]])
    administered.produce(name, 0, b"1", b"2")
    cluster.stop(second)
    administered.await_isr(name, [[first]])
    administered.produce(name, 0, b"3", b"4")
    cluster.kill(first)
    cluster.start(second)
    bootstrap = cluster.nodes[second].bootstrap
    eventually(
        lambda: (
            "Leader: none"
            in run(
                "kafka-topics",
                "--describe",
                "--topic",
                name,
                "--unavailable-partitions",
                bootstrap=bootstrap,
            )
        )
    )
    said = run(
        "kafka-leader-election",
        "--election-type",
        "UNCLEAN",
        "--topic",
        name,
        "--partition",
        "0",
        bootstrap=bootstrap,
    )
    assert "Successfully completed leader election (UNCLEAN)" in said, said
    administered.produce(name, 0, b"5")
    cluster.start(first)
    administered.await_isr(name, [[first, second]])
    found = drained(cluster.bootstrap, name, 1)
    assert found == {0: [(0, 1), (1, 2), (2, 5)]}
    administered.assert_equal(name, 1)


def test_every_broker_describes_the_same_cluster(administered: Administered) -> None:
    run, nodes = administered.tools.run, administered.cluster.brokers()
    name = administered.create("described", [[1, 2, 3], [3, 2, 1]])
    for index in range(2):
        administered.produce(name, index, *[b"x" * 1000] * 10)
    administered.await_isr(name, [[1, 2, 3]] * 2)

    def said(tool: str, *arguments: str) -> list[str]:
        return [run(tool, *arguments, bootstrap=node.bootstrap) for node in nodes]

    for tool, *arguments in (
        ("kafka-features", "describe"),
        ("kafka-topics", "--describe", "--topic", name),
    ):
        # The epoch of the features is an offset of the metadata, which moves on twice a second.
        eventually(lambda tool=tool, arguments=arguments: len(set(said(tool, *arguments))) == 1)
    for text in said("kafka-metadata-quorum", "describe", "--status"):
        assert re.search(r"LeaderId:\s+3000\n", text), text
        assert [f'"id": {id}' in text for id in (1, 2, 3, 3000)] == [True] * 4, text
    for text in said("kafka-metadata-quorum", "describe", "--replication"):
        assert sorted(re.findall(r"^(\d+)\s.*\s(Leader|Observer)", text, re.MULTILINE)) == [
            ("1", "Observer"),
            ("2", "Observer"),
            ("3", "Observer"),
            ("3000", "Leader"),
        ], text
    for text in said("kafka-log-dirs", "--describe", "--topic-list", name):
        described = json.loads(text.splitlines()[-1])
        sizes = {
            (each["partition"], each["size"], each["offsetLag"], each["isFuture"])
            for broker in described["brokers"]
            for directory in broker["logDirs"]
            for each in directory["partitions"]
        }
        assert {broker["broker"] for broker in described["brokers"]} == {1, 2, 3}
        assert len(sizes) == 2 and all(size > 10_000 for _, size, _, _ in sizes), text


def test_no_file_of_a_moved_or_deleted_replica_is_left(administered: Administered) -> None:
    def are_removed() -> bool:
        folders = (
            each.name for node in administered.cluster.brokers() for each in node.data.iterdir()
        )
        return not any(name.endswith("-delete") for name in folders)

    eventually(are_removed, timeout_s=TIMEOUT_S)
