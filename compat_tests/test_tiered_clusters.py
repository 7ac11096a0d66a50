"""Brokers of both engines share one tier, and lead and follow its topics in turn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPlace
from pyspark.sql import SparkSession

from compat_tests.cluster import KAFKA, WIREKAFKA, Cluster, Shape, rack_of
from compat_tests.java_tools import JavaTools
from compat_tests.tiered import (
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    offset,
    settings,
    storage_classes,
)
from compat_tests.tiered_topic import TieredTopic
from compat_tests.wire import Wire
from tests.eventually import eventually
from tests.repetitions import swept
from wirekafka.protocol.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wirekafka.protocol.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from wirekafka.protocol.elect_leaders import ElectLeadersRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.records.remote_log_metadata import RemoteLogSegmentMetadataRecord
from wirekafka.tiered.audit import TierAudit, audited, folded
from wirekafka.tiered.local_layout import FOLDER, LocalLayout
from wirekafka.tiered.metadata_record import REMOTE_LOG_METADATA_TOPIC, encode
from wirekafka.tiered.remote_segment import RemoteSegment
from wirekafka.tiered.store import ObjectStore

_READERS = Path(__file__).with_name("java") / "TieredReaders.java"
_FIRST_MS = 1_700_000_000_000
_ROUND = 50
"""Batches that are appended before each change: two segments and a half."""


@dataclass
class Tiered:
    """A running cluster with a tiered topic."""

    cluster: Cluster
    tier: Path
    name: str
    appended: int = 0

    def led_by(self, *replicas: int) -> None:
        """Move the topic to brokers, the first of which leads."""
        kind = AlterPartitionReassignmentsRequest.ReassignableTopic
        part = kind.ReassignablePartition(partition_index=0, replicas=list(replicas))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=30_000, topics=[kind(name=self.name, partitions=[part])]
        )
        wire = Wire.to(self._any)
        try:
            answer = wire.ask(request, 0)
            assert not answer.error_code and not answer.responses[0].partitions[0].error_code

            election = ElectLeadersRequest(
                topic_partitions=[
                    ElectLeadersRequest.TopicPartitions(topic=self.name, partitions=[0])
                ]
            )

            def is_moved() -> bool:
                wire.ask(election, 2)
                topics = [MetadataRequest.Topic(name=self.name)]
                found = wire.ask(MetadataRequest(topics=topics), 12).topics[0].partitions[0]
                state = found.replica_nodes, sorted(found.isr_nodes), found.leader_id
                assert state == (list(replicas), sorted(replicas), replicas[0]), state
                return True

            eventually(is_moved, timeout_s=60)
        finally:
            wire.close()

    def grow_and_read(self, leader: int) -> None:
        """Append, wait until the leader has tiered it, and read all by a consumer."""
        topic = self.topic(leader)
        topic.produce(_ROUND, _FIRST_MS + self.appended)
        self.appended += _ROUND * 10
        topic.settled(tiered_up_to=(self.appended - 1) // 200 * 200 - 1)
        assert offset(topic.bootstrap, self.name, LATEST)[2] == self.appended
        assert offset(topic.bootstrap, self.name, EARLIEST_LOCAL)[2] > self.appended - 400
        assert topic.read_all() == self.appended

    def await_local_deletion(self, *brokers: int) -> None:
        """Wait until the oldest segment of each replica is beyond most of what is tiered."""
        for id in brokers:
            eventually(lambda id=id: self.local_start(id) >= self.appended - 200, timeout_s=30)

    def local_start(self, broker: int) -> int:
        """The first offset of a replica's oldest local segment."""
        directories = self.cluster.nodes[broker].log_dirs
        found = [path for each in directories for path in each.glob(f"{self.name}-0/*.log")]
        return min(int(path.stem) for path in found)

    def topic(self, broker: int) -> TieredTopic:
        """The topic, for questions to a broker."""
        return TieredTopic(self.cluster.nodes[broker].bootstrap, self.tier, self.name, {})

    def move_to_other_directory(self, broker: int) -> None:
        """Move a broker's replica to the log directory that it is not in, and wait for its end."""
        node = self.cluster.nodes[broker]
        folders = [each / f"{self.name}-0" for each in node.log_dirs]
        old, new = sorted(folders, key=lambda folder: not folder.exists())
        kind = AlterReplicaLogDirsRequest.AlterReplicaLogDir
        topic = kind.AlterReplicaLogDirTopic(name=self.name, partitions=[0])
        request = AlterReplicaLogDirsRequest(dirs=[kind(path=str(new.parent), topics=[topic])])
        wire = Wire.to(node.bootstrap)
        try:
            assert wire.ask(request, 2).results[0].partitions[0].error_code == 0
        finally:
            wire.close()
        eventually(lambda: new.exists() and not old.exists(), timeout_s=60)

    def elect_unclean(self, leader: int) -> None:
        """Elect the only replica that runs, which is not in sync."""
        part = ElectLeadersRequest.TopicPartitions(topic=self.name, partitions=[0])
        request = ElectLeadersRequest(topic_partitions=[part], election_type=1, timeout_ms=20_000)
        wire = Wire.to(self.cluster.nodes[leader].bootstrap)

        def is_elected() -> bool:
            wire.ask(request, 2)
            return self.leader(leader) == leader

        try:
            eventually(is_elected, timeout_s=60)
        finally:
            wire.close()

    def check_follower(self, leader: int, follower: int) -> None:
        """The follower is preferred by clients in its rack, and serves the same from the tier."""
        places = {id: self.topic(id) for id in (leader, follower)}
        prefers = places[leader].preferred_replica
        eventually(lambda: prefers(rack_of(follower)) == follower)
        offsets = range(0, self.appended, 70)

        def are_equal() -> bool:
            found = [each.fetches(offsets) for each in places.values()]
            assert found[0] == found[1]
            return all(each["error"] == 0 and each["size"] > 0 for each in found[0].values())

        eventually(are_equal)

    def read_by_python(self, leader: int, rack: str) -> None:
        """Read all by librdkafka and by kafka-python, which are in a rack."""
        topic = self.topic(leader)
        assert topic.read_all(client_rack=rack) == self.appended
        consumer = KafkaConsumer(
            bootstrap_servers=self.cluster.bootstrap.split(","),
            client_rack=rack,
            auto_offset_reset="none",
            consumer_timeout_ms=20_000,
        )
        place = KafkaPlace(self.name, 0)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        found = [record.offset for record in islice(consumer, self.appended)]
        consumer.close()
        assert found == list(range(self.appended))

    def read_by_spark(self, spark: SparkSession, rack: str) -> int:
        """How many different records Spark reads, whose clients are in a rack."""
        records = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", self.cluster.bootstrap)
            .option("kafka.client.rack", rack)
            .option("subscribe", self.name)
            .load()
        )
        found: int = records.select("offset").distinct().count()
        return found

    def append(self, leader: int) -> None:
        """Append without waiting for anything to be tiered."""
        topic = self.topic(leader)
        topic.produce(_ROUND, _FIRST_MS + self.appended)
        self.appended += _ROUND * 10

    def leader(self, ask: int) -> int:
        """The leader, as a broker knows it."""
        wire = Wire.to(self.cluster.nodes[ask].bootstrap)
        try:
            topics = [MetadataRequest.Topic(name=self.name)]
            found = wire.ask(MetadataRequest(topics=topics), 12).topics[0].partitions[0]
            leader: int = found.leader_id
            return leader
        finally:
            wire.close()

    def audit(self) -> TierAudit:
        """Compare the topic's files in the tier with the metadata."""
        store = ObjectStore.of_directory(str(self.tier / FOLDER))
        objects = [each for each in store.list("") if each.key.startswith(f"{self.name}-")]
        topic = TieredTopic(self.cluster.bootstrap, self.tier, self.name, {})
        return audited(folded(topic.metadata()), objects, LocalLayout(store))

    @property
    def _any(self) -> str:
        return self.cluster.nodes[1].bootstrap


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers of wirekafka and one of Apache Kafka, with `tier` beside their directories."""
    scratch = tmp_path_factory.mktemp("tiered")
    tier = scratch / "tier"
    tier.mkdir()
    given = settings(tier) | {
        "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
        # Brokers are killed, also while another is down.
        "rlmm.config.remote.log.metadata.topic.min.isr": "1",
        "wirekafka.metrics.listener": "0",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    }
    shape = Shape(
        brokers=(WIREKAFKA, WIREKAFKA, KAFKA),
        settings=given,
        class_path=storage_classes(),
        has_racks=True,
        log_directories=2,
    )
    with Cluster.running(shape, scratch / "cluster") as cluster:
        yield cluster


@pytest.fixture
def tiered(cluster: Cluster, request: pytest.FixtureRequest) -> Tiered:
    """The cluster, with a topic of the test's own."""
    name = re.sub(r"\W+", "-", request.node.name)[-60:].strip("-")
    tier = cluster.nodes[1].directory.parents[1] / "tier"
    # A failed test may have left some killed.
    cluster.start(*(node.id for node in cluster.brokers() if not node.is_running))
    found = Tiered(cluster, tier, name)
    TieredTopic(cluster.bootstrap, tier, name, {}).create()
    return found


def test_leaders_and_new_replicas_of_both_engines_continue_from_the_tier(tiered: Tiered) -> None:
    tiered.led_by(3, 1)  # Apache Kafka leads, wirekafka follows.
    tiered.grow_and_read(3)
    tiered.led_by(1, 3)
    tiered.grow_and_read(1)
    tiered.led_by(2)  # A new replica of wirekafka, which has nothing of what is tiered.
    tiered.grow_and_read(2)
    tiered.led_by(3, 2)  # A new replica of Apache Kafka, from a leader of wirekafka.
    tiered.grow_and_read(3)
    tiered.led_by(1, 3)  # And the reverse.
    tiered.grow_and_read(1)


@pytest.mark.timeout(400)
def test_all_clients_read_the_tier_from_leaders_and_followers_of_both_engines(
    tiered: Tiered, java_clients: JavaTools, spark: SparkSession
) -> None:
    tiered.led_by(1, 3)
    tiered.grow_and_read(1)
    for leader, follower in ((1, 3), (3, 1)):
        tiered.led_by(leader, follower)
        tiered.await_local_deletion(leader, follower)
        tiered.check_follower(leader, follower)
        racks = rack_of(leader), rack_of(follower)
        for rack in racks:
            tiered.read_by_python(leader, rack)
            assert tiered.read_by_spark(spark, rack) == tiered.appended
        bootstrap = tiered.cluster.nodes[leader].bootstrap
        arguments = (bootstrap, tiered.name, str(tiered.appended), *racks)
        printed = java_clients.run(str(_READERS), *arguments).splitlines()
        everything = f"{tiered.appended} records, offsets 0 to {tiered.appended - 1}"
        assert printed == [
            *(
                f"{how} in {rack}: {everything}"
                for rack in racks
                for how in ("classic", "consumer")
            ),
            f"share: {everything}",
        ]


def test_nothing_is_lost_when_leaders_are_killed_while_they_copy(tiered: Tiered) -> None:
    tiered.led_by(2, 3, 1)
    for killed in (2, 3, 2):
        tiered.led_by(killed, *({2, 3, 1} - {killed}))
        tiered.append(killed)
        tiered.cluster.kill(killed)
        eventually(lambda killed=killed: tiered.leader(1) not in (killed, -1), timeout_s=60)
        tiered.append(tiered.leader(1))
        tiered.cluster.start(killed)
    tiered.led_by(2, 3, 1)
    tiered.grow_and_read(2)
    audit = tiered.audit()
    assert (audit.holes, audit.orphans) == ([], [])


def test_tiered_replicas_of_both_engines_move_to_another_log_directory(tiered: Tiered) -> None:
    tiered.led_by(1, 3)
    tiered.grow_and_read(1)
    for leader, follower in ((1, 3), (3, 1)):
        tiered.led_by(leader, follower)
        tiered.await_local_deletion(leader, follower)
        tiered.move_to_other_directory(leader)
        tiered.move_to_other_directory(follower)
        tiered.grow_and_read(leader)


def test_empty_followers_of_both_engines_begin_after_all_that_is_tiered(tiered: Tiered) -> None:
    tiered.led_by(1)
    topic = tiered.topic(1)
    # Of two segments and a half, the second is in both tiers.
    assert topic.configure(local_retention_bytes="1400000") == ""
    tiered.append(1)
    eventually(lambda: offset(topic.bootstrap, topic.name, LATEST_TIERED)[2] == 399)
    eventually(lambda: offset(topic.bootstrap, topic.name, EARLIEST_LOCAL)[2] == 200)
    option = "follower.fetch.last.tiered.offset.enable"
    _configure_brokers(topic.bootstrap, option, "true")
    try:
        tiered.led_by(1, 3)
        assert tiered.local_start(3) == 400  # Apache Kafka, which follows wirekafka.
        tiered.led_by(3, 2)
        assert tiered.local_start(2) == 400  # And the reverse.
    finally:
        _configure_brokers(topic.bootstrap, option, "false")
    tiered.led_by(2, 3)
    assert tiered.topic(2).read_all() == 500


@pytest.mark.parametrize("lost, elected", swept([pytest.param(3, 2), pytest.param(2, 3)], every=2))
def test_what_was_tiered_before_an_unclean_election_is_served_by_neither_engine(
    tiered: Tiered, lost: int, elected: int
) -> None:
    cluster = tiered.cluster
    tiered.led_by(lost, elected)
    assert tiered.topic(lost).configure(min_insync_replicas="1") == ""
    tiered.append(lost)
    tiered.topic(lost).settled(tiered_up_to=399)
    cluster.kill(elected)
    tiered.append(lost)
    tiered.topic(lost).settled(tiered_up_to=799)
    cluster.kill(lost)
    cluster.start(elected)
    tiered.elect_unclean(elected)
    # The new history: 500 records of the old, and others from there on.
    tiered.appended = 10_000
    tiered.append(elected)
    assert offset(tiered.topic(elected).bootstrap, tiered.name, LATEST)[2] == 1_000
    tiered.topic(elected).settled(tiered_up_to=799)
    cluster.start(lost)
    tiered.led_by(elected, lost)
    offsets = range(0, 1_000, 70)
    times = [_FIRST_MS + each for each in (0, 499, 500, 10_000)]

    def answers(leader: int) -> Any:
        topic = tiered.topic(leader)
        assert topic.read_all() == 1_000
        # The end has the epoch of the present leader.
        found = {name: each[:3] for name, each in topic.offsets(times).items()}
        return found, topic.fetches(offsets)

    by_elected = answers(elected)
    tiered.led_by(lost, elected)
    tiered.topic(lost).settled(tiered_up_to=799)
    eventually(lambda: answers(lost) == by_elected)
    assert by_elected[0][f"{_FIRST_MS + 500} at isolation 0"][1:] == (_FIRST_MS + 10_000, 500)


def test_unreadable_metadata_is_skipped_by_wirekafka_and_stops_apache_kafka(tiered: Tiered) -> None:
    """The last test: the broker of Apache Kafka tiers nothing any more."""
    tiered.led_by(1, 3)
    tiered.grow_and_read(1)
    segment = next(each for each in tiered.topic(1).metadata() if isinstance(each, RemoteSegment))
    values = {
        "a record without a value": None,
        "1 bytes follow it": encode(segment) + b"\0",
        "unknown key 7": b"\x01\x07\0",
        "a segment without leader epochs": _without_epochs(encode(segment)),
    }
    before = _skipped(tiered.cluster)
    producer = Producer({"bootstrap.servers": tiered.cluster.bootstrap})
    for value in values.values():
        for index in range(3):
            producer.produce(REMOTE_LOG_METADATA_TOPIC, value, partition=index)
    assert producer.flush(30) == 0
    # Its own metadata is behind them.
    tiered.grow_and_read(1)
    assert _skipped(tiered.cluster) >= before + len(values)
    log = tiered.cluster.nodes[1].log.read_text()
    for reason in values:
        assert re.search(rf"the record at offset \d+ is skipped: .*{reason}", log), reason
    # Apache Kafka's thread that reads the metadata ends.
    ended = "ConsumerTask Error occurred while processing the records"
    eventually(lambda: ended in tiered.cluster.nodes[3].written(most=1 << 20))


def _without_epochs(value: bytes) -> bytes:
    """The record of a new segment, without the leader epochs that every segment has."""
    head_bytes = 3
    message = RemoteLogSegmentMetadataRecord.decode(value, 0, head_bytes)
    message.segment_leader_epochs = []
    return value[:head_bytes] + message.encode(0)


def _skipped(cluster: Cluster) -> int:
    """How many records of the metadata the first broker, wirekafka's, says that it has skipped."""
    found = re.search(r"served at (http://\S+)", cluster.nodes[1].log.read_text())
    assert found is not None
    with urlopen(f"{found[1]}/metrics", timeout=20) as response:
        text = response.read().decode()
    [number] = re.findall(r"^wirekafka_tier_skipped_records_total (\S+)", text, re.MULTILINE)
    return int(float(number))


def _configure_brokers(bootstrap: str, name: str, value: str) -> None:
    """Set an option of all brokers."""
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = kind.AlterableConfig(name=name, config_operation=0, value=value)
    request = IncrementalAlterConfigsRequest(
        resources=[kind(resource_type=4, resource_name="", configs=[config])]
    )
    wire = Wire.to(bootstrap)
    try:
        [answer] = wire.ask(request, 1).responses
    finally:
        wire.close()
    assert answer.error_code == 0, answer.error_message
