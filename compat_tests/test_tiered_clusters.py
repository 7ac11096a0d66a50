"""Brokers of both engines share one tier, and lead and follow its topics in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat_tests.cluster import KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.tiered import EARLIEST_LOCAL, LATEST, offset, settings, storage_classes
from compat_tests.tiered_topic import TieredTopic
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.protocol.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wirekafka.protocol.elect_leaders import ElectLeadersRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.tiered.audit import TierAudit, audited, folded
from wirekafka.tiered.local_layout import FOLDER, LocalLayout
from wirekafka.tiered.store import ObjectStore

_FIRST_MS = 1_700_000_000_000
_ROUND = 50
"""Batches that are appended before each change: two segments and a half."""


@dataclass
class Tiered:
    """A running cluster with a tiered topic."""

    cluster: Cluster
    tier: Path
    appended: int = 0

    def led_by(self, *replicas: int) -> None:
        """Move the topic to brokers, the first of which leads."""
        kind = AlterPartitionReassignmentsRequest.ReassignableTopic
        part = kind.ReassignablePartition(partition_index=0, replicas=list(replicas))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=30_000, topics=[kind(name="t", partitions=[part])]
        )
        wire = Wire.to(self._any)
        try:
            answer = wire.ask(request, 0)
            assert not answer.error_code and not answer.responses[0].partitions[0].error_code

            election = ElectLeadersRequest(
                topic_partitions=[ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])]
            )

            def is_moved() -> bool:
                wire.ask(election, 2)
                topics = [MetadataRequest.Topic(name="t")]
                found = wire.ask(MetadataRequest(topics=topics), 12).topics[0].partitions[0]
                state = found.replica_nodes, sorted(found.isr_nodes), found.leader_id
                assert state == (list(replicas), sorted(replicas), replicas[0]), state
                return True

            eventually(is_moved, timeout_s=60)
        finally:
            wire.close()

    def grow_and_read(self, leader: int) -> None:
        """Append, wait until the leader has tiered it, and read all by a consumer."""
        topic = TieredTopic(self.cluster.nodes[leader].bootstrap, self.tier, "t", {})
        topic.produce(_ROUND, _FIRST_MS + self.appended)
        self.appended += _ROUND * 10
        topic.settled(tiered_up_to=(self.appended - 1) // 200 * 200 - 1)
        assert offset(topic.bootstrap, "t", LATEST)[2] == self.appended
        assert offset(topic.bootstrap, "t", EARLIEST_LOCAL)[2] > self.appended - 400
        assert topic.read_all() == self.appended

    def append(self, leader: int) -> None:
        """Append without waiting for anything to be tiered."""
        topic = TieredTopic(self.cluster.nodes[leader].bootstrap, self.tier, "t", {})
        topic.produce(_ROUND, _FIRST_MS + self.appended)
        self.appended += _ROUND * 10

    def leader(self, ask: int) -> int:
        """The leader, as a broker knows it."""
        wire = Wire.to(self.cluster.nodes[ask].bootstrap)
        try:
            topics = [MetadataRequest.Topic(name="t")]
            found = wire.ask(MetadataRequest(topics=topics), 12).topics[0].partitions[0]
            leader: int = found.leader_id
            return leader
        finally:
            wire.close()

    def audit(self) -> TierAudit:
        """Compare the files of the tier with the metadata."""
        store = ObjectStore.of_directory(str(self.tier / FOLDER))
        objects = list(store.list(""))
        topic = TieredTopic(self.cluster.bootstrap, self.tier, "t", {})
        return audited(folded(topic.metadata()), objects, LocalLayout(store))

    @property
    def _any(self) -> str:
        return self.cluster.nodes[1].bootstrap


@pytest.fixture
def tiered(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Tiered]:
    brokers: Sequence[str] = request.param
    tier = tmp_path / "tier"
    tier.mkdir()
    given = settings(tier) | {
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(min(2, len(brokers)))
    }
    shape = Shape(brokers=brokers, settings=given, class_path=storage_classes())
    with Cluster.running(shape, tmp_path / "cluster") as cluster:
        found = Tiered(cluster, tier)
        TieredTopic(cluster.bootstrap, tier, "t", {}).create()
        yield found


@pytest.mark.parametrize("tiered", [(WIREKAFKA, WIREKAFKA, KAFKA)], indirect=True)
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


@pytest.mark.parametrize("tiered", [(WIREKAFKA, WIREKAFKA, KAFKA)], indirect=True)
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
