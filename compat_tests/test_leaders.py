"""Leaders of both engines send followers and consumers the same responses, and keep equal ISRs.

An Apache Kafka broker, which is the controller too, and a wirekafka broker lead partitions whose
follower is played by the test. What each leads goes through the same script.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.cluster import HOST, Cluster, Shape
from compat_tests.simulated_broker import Position, SimulatedBroker, fetch_of
from compat_tests.stage import batch
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.metadata.image.image import BROKER
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.elect_leaders import ElectLeadersRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from wirekafka.protocol.produce import ProduceRequest

APACHE, OURS, FOLLOWER = 1, 2, 9
SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "replica.lag.time.max.ms": "1500",
    # A broker that returns waits until its earlier session has ended.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "broker.rack": "a",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
CONSUMER = FetchRequest.ReplicaState()


class Leader:
    """One broker as the leader of partitions, and the follower of these."""

    def __init__(self, cluster: Cluster, id: int, follower: SimulatedBroker):
        self.id = id
        self.follower = follower
        self.address = HOST, cluster.nodes[id].port
        self.wire = Wire(self.address)
        self._topics = 0

    def topic(self, *replicas: int, **configs: str) -> tuple[str, bytes]:
        """Create a topic of one partition with these replicas, by default the leader's own."""
        self._topics += 1
        name = f"led-by-{self.id}-{self._topics}"
        kind = CreateTopicsRequest.CreatableTopic
        request = CreateTopicsRequest(
            topics=[
                kind(
                    name=name,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        kind.CreatableReplicaAssignment(
                            partition_index=0, broker_ids=list(replicas) or [self.id, FOLLOWER]
                        )
                    ],
                    configs=[
                        kind.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                        for key, value in configs.items()
                    ],
                )
            ],
            timeout_ms=10_000,
        )
        [created] = self.wire.ask(request, 7).topics
        assert created.error_code == 0, created.error_message
        topic = name, created.topic_id
        eventually(lambda: self.isr(name) is not None)
        if self.id in (replicas or [self.id]):
            # Apache Kafka lists a topic before it leads or follows its partitions.
            position = Position(current_epoch=-1)
            eventually(lambda: not self.read(topic, 17, position)[1][0][0]["error_code"])
        return topic

    def isr(self, name: str) -> list[int] | None:
        """The sorted ISR as this broker knows it; None if it does not know the topic."""
        [topic] = self.wire.ask(
            MetadataRequest(topics=[MetadataRequest.Topic(name=name)]), 9
        ).topics
        return sorted(topic.partitions[0].isr_nodes) if not topic.error_code else None

    def await_isr(self, name: str, *isr: int) -> None:
        eventually(lambda: self.isr(name) == sorted(isr))

    def produce(self, topic: tuple[str, bytes], *, acks: int = 1, version: int = 12) -> Any:
        """The response for one batch of three records."""
        name, topic_id = topic
        kind = ProduceRequest.TopicProduceData
        part = kind(topic_id=topic_id) if version >= 13 else kind(name=name)
        part.partition_data = [kind.PartitionProduceData(index=0, records=batch())]
        return Wire(self.address).ask(
            ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=[part]), version
        )

    def follow(
        self, topic: tuple[str, bytes], version: int = 17, /, broker_epoch: int = 0, **position: int
    ) -> Any:
        """The result of one partition in a fetch by the follower."""
        fields: dict[str, Any] = (
            {"replica_state": self.follower.state()}
            if version >= 15
            else {"replica_id": self.follower.id}
        )
        if version >= 15:
            fields["replica_state"].replica_epoch += broker_epoch
        return self.read(topic, version, **fields, position=Position(**position))

    def follow_until_in_sync(self, topic: tuple[str, bytes], **position: int) -> None:
        """Fetch until the ISR holds leader and follower."""

        def in_sync() -> bool:
            [partition] = self.follow(topic, **position)[1][0]
            return not partition["error_code"] and self.isr(topic[0]) == sorted([self.id, FOLLOWER])

        eventually(in_sync)

    def read(
        self, topic: tuple[str, bytes], version: int, position: Position, **fields: Any
    ) -> Any:
        response = self.wire.ask(fetch_of(topic, version, [position], **fields), version)
        return self.plain(response)

    def plain(self, response: Any) -> Any:
        """A Fetch or Produce response as plain data, the leader's id replaced."""
        if isinstance(response, str):
            return response
        topics = [
            [self._plain_partition(each) for each in self._partitions(topic)]
            for topic in response.responses
        ]
        nodes = [
            (self._name(node.node_id), node.host == HOST, node.rack)
            for node in response.node_endpoints
        ]
        return getattr(response, "error_code", 0), topics, nodes

    def _partitions(self, topic: Any) -> Any:
        return getattr(topic, "partitions", None) or getattr(topic, "partition_responses", [])

    def _plain_partition(self, partition: Any) -> dict[str, Any]:
        values = {field.name: getattr(partition, field.name) for field in partition.fields}
        leader = values.pop("current_leader")
        values["leader"] = self._name(leader.leader_id), leader.leader_epoch
        for name in ("diverging_epoch", "snapshot_id"):
            if name in values:
                part = values.pop(name)
                values[name] = part.epoch, part.end_offset
        if "records" in values:
            values["records"] = bytes(values["records"] or b"")
        values.pop("log_append_time_ms", None)
        return values

    def _name(self, id: int) -> int | str:
        return "leader" if id == self.id else id


@pytest.fixture(scope="module")
def leaders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Leader]]:
    directory: Path = tmp_path_factory.mktemp("cluster")
    with Cluster.running(Shape(settings=SETTINGS), directory) as cluster:
        controller = HOST, cluster.nodes[APACHE].controller_port
        follower = SimulatedBroker(FOLLOWER, cluster.id, controller)
        for id in (APACHE, OURS):
            eventually(lambda id=id: FOLLOWER in cluster.listed_by(id))
        yield [Leader(cluster, id, follower) for id in (APACHE, OURS)]
        follower.end()


FETCH_VERSIONS = range(4, 19)
Play = Callable[[Leader], Any]


def a_follower_reads_and_raises_the_high_watermark(leader: Leader) -> Any:
    """In every version of Fetch."""
    seen = []
    for version in FETCH_VERSIONS:
        topic = leader.topic()
        seen.append(leader.follow(topic, version))
        leader.produce(topic)
        seen += [leader.follow(topic, version, offset=offset) for offset in (0, 3, 3)]
    return seen


def a_follower_is_refused(leader: Leader) -> Any:
    """With other epochs, offsets and ids, in new and old versions."""
    topic = leader.topic()
    leader.produce(topic)
    seen = []
    for version in (11, 12, 14, 15, 16, 18):
        seen += [
            leader.follow(topic, version, current_epoch=5),
            leader.follow(topic, version, offset=9),
            leader.follow(topic, version, offset=3, broker_epoch=-1),
            leader.follow(topic, version, offset=3, broker_epoch=1),
        ]
        if version >= 12:
            seen += [
                leader.follow(topic, version, offset=2, last_epoch=3),
                leader.follow(topic, version, offset=5, last_epoch=0),
                leader.follow(topic, version, offset=3, last_epoch=0),
            ]
    stranger = FetchRequest.ReplicaState(replica_id=77, replica_epoch=-1)
    for epoch in (0, -1):
        position = Position(current_epoch=epoch)
        seen.append(leader.read(topic, 17, position, replica_state=stranger))
    return seen


def an_epoch_is_fenced_after_an_election(leader: Leader) -> Any:
    """The ISR shrinks and grows between the fetches; epochs of the past are fenced."""
    topic = leader.topic()
    leader.produce(topic)
    before = leader.follow(topic, 16, current_epoch=-1)
    return before, [leader.follow(topic, version, current_epoch=1) for version in (12, 16)]


def followers_keep_sessions(leader: Leader) -> Any:
    """Only what has changed is sent within a session."""
    topic = leader.topic()
    leader.produce(topic)
    state = {"replica_state": leader.follower.state()}
    opened = leader.wire.ask(fetch_of(topic, 17, [Position()], **state, session_epoch=0), 17)
    seen = [leader.plain(opened), opened.session_id != 0]
    asked: list[list[Position]] = [[Position(offset=3)], [], [], [Position(offset=3, log_start=1)]]
    for epoch, positions in enumerate(asked, 1):
        request = fetch_of(
            topic, 17, positions, **state, session_id=opened.session_id, session_epoch=epoch
        )
        seen.append(leader.plain(leader.wire.ask(request, 17)))
    stale = fetch_of(topic, 17, [], **state, session_id=opened.session_id, session_epoch=2)
    return [*seen, leader.plain(leader.wire.ask(stale, 17))]


def the_isr_follows_the_fetches(leader: Leader) -> Any:
    """A follower that stops fetching leaves the ISR, and returns once it has everything."""
    topic = leader.topic(min_insync_replicas="2")
    # Below the minimum ISR the high watermark stays at 0, so a fetch from 0 would bring back a
    # follower that left while this test was slow. The last fetch must be one of an ISR member.
    leader.follow_until_in_sync(topic, offset=0)
    leader.produce(topic)
    leader.await_isr(topic[0], leader.id)
    seen = [leader.plain(leader.produce(topic, acks=acks)) for acks in (-1, 1)]
    seen.append(leader.follow(topic, offset=0))
    leader.follow_until_in_sync(topic, offset=6)
    seen += [leader.follow(topic, offset=6), leader.follow(topic, offset=6)]
    return seen


def produce_waits_for_the_follower(leader: Leader) -> Any:
    """With acks=all, until the follower has fetched beyond the batch, or until the timeout."""
    topic = leader.topic()
    responses: list[Any] = []
    thread = threading.Thread(
        target=lambda: responses.append(leader.plain(leader.produce(topic, acks=-1)))
    )
    thread.start()
    eventually(lambda: len(leader.follow(topic, offset=0)[1][0][0]["records"]) > 0)
    assert not responses
    leader.follow(topic, offset=3)
    thread.join(10)
    return responses, leader.follow(topic, offset=3)


def consumers_are_sent_to_the_follower_in_their_rack(leader: Leader) -> Any:
    """From version 11 on, if it has the offset."""
    topic = leader.topic()
    leader.produce(topic)
    seen = []
    position = Position(current_epoch=-1)
    for offset in (0, 3):
        leader.follow(topic, offset=offset)
        for version in (10, 11, 13, 17):
            for rack in ("a", "b", "c"):
                for isolation_level in (0, 1):
                    seen.append(
                        leader.read(
                            topic, version, position, rack_id=rack, isolation_level=isolation_level
                        )
                    )
    return seen


def another_broker_leads(leader: Leader) -> Any:
    """The follower's own partitions, with and without a replica here."""
    seen: list[Any] = []
    for replicas in ((FOLLOWER, leader.id), (FOLLOWER,)):
        topic = leader.topic(*replicas)
        leader.await_isr(topic[0], *replicas)
        seen += [leader.plain(leader.produce(topic, version=version)) for version in (9, 10, 13)]
        for version in FETCH_VERSIONS:
            for epoch in (-1, 0, 1):
                position = Position(current_epoch=epoch)
                seen.append(leader.read(topic, version, position))
                seen.append(leader.follow(topic, version, current_epoch=epoch))
        seen += [_listed(leader, topic[0]), _epoch_end(leader, topic[0])]
    return seen


def _listed(leader: Leader, name: str) -> list[Any]:
    kind = ListOffsetsRequest.Topic
    seen = []
    for replica_id in (-1, -2, FOLLOWER):
        for epoch in (-1, 0, 1):
            for timestamp in (-1, -2, -3, -4):
                part = kind.Partition(
                    partition_index=0, current_leader_epoch=epoch, timestamp=timestamp
                )
                request = ListOffsetsRequest(
                    replica_id=replica_id,
                    isolation_level=0,
                    topics=[kind(name=name, partitions=[part])],
                )
                [topic] = leader.wire.ask(request, 8).topics
                [found] = topic.partitions
                seen.append((found.error_code, found.offset, found.leader_epoch))
    return seen


def _epoch_end(leader: Leader, name: str) -> list[Any]:
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    seen = []
    for replica_id in (-1, FOLLOWER):
        for current in (-1, 0, 1):
            for epoch in (0, 1):
                part = kind.OffsetForLeaderPartition(
                    partition=0, current_leader_epoch=current, leader_epoch=epoch
                )
                request = OffsetForLeaderEpochRequest(
                    replica_id=replica_id, topics=[kind(topic=name, partitions=[part])]
                )
                [topic] = leader.wire.ask(request, 4).topics
                [found] = topic.partitions
                seen.append((found.error_code, found.leader_epoch, found.end_offset))
    return seen


def offsets_and_epochs_are_found(leader: Leader) -> Any:
    """By followers, consumers and debuggers."""
    topic = leader.topic()
    leader.produce(topic)
    before = _listed(leader, topic[0]), _epoch_end(leader, topic[0])
    leader.follow(topic, offset=3)
    return before, _listed(leader, topic[0]), _epoch_end(leader, topic[0])


def a_throttled_follower_waits(leader: Leader) -> Any:
    """Out of sync and above the rate of its leader, it gets nothing; in sync it gets all."""
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    request = IncrementalAlterConfigsRequest(
        resources=[
            kind(
                resource_type=BROKER,
                resource_name=str(leader.id),
                configs=[
                    kind.AlterableConfig(
                        name="leader.replication.throttled.rate", config_operation=0, value="1"
                    )
                ],
            )
        ]
    )
    [result] = leader.wire.ask(request, 1).responses
    assert result.error_code == 0, result.error_message
    topic = leader.topic(leader_replication_throttled_replicas=f"0:{leader.id}")
    leader.produce(topic)
    leader.await_isr(topic[0], leader.id)
    seen = []
    # The first fetch exceeds the rate, once its setting has arrived.
    eventually(lambda: leader.follow(topic, offset=0)[1][0][0]["records"] == b"")
    seen.append(leader.follow(topic, offset=0))
    leader.follow_until_in_sync(topic, offset=3)
    leader.produce(topic)
    seen.append(leader.follow(topic, offset=3))
    return seen


def a_restarted_follower_returns_with_its_new_epoch(leader: Leader) -> Any:
    """Fetches from before its restart are refused; it joins again with those of the present."""
    topic = leader.topic()
    leader.produce(topic)
    leader.follow(topic, offset=3)
    before = leader.follower.epoch
    leader.follower.restart()
    leader.await_isr(topic[0], leader.id)
    outdated = before - leader.follower.epoch
    # The leader may learn of the new epoch a moment after the controller has shrunk the ISR.
    eventually(
        lambda: leader.follow(topic, offset=3, broker_epoch=outdated)[1][0][0]["error_code"] != 0
    )
    seen = [leader.follow(topic, offset=3, broker_epoch=outdated)]
    leader.follow_until_in_sync(topic, offset=3)
    return [*seen, leader.follow(topic, offset=3)]


def leadership_comes_and_goes(leader: Leader) -> Any:
    """From the follower while that is fenced, and back by a preferred election."""
    topic = leader.topic(FOLLOWER, leader.id)
    leader.follower.fence()
    eventually(lambda: leader.plain(leader.produce(topic))[1][0][0]["error_code"] == 0)
    leader.follower.unfence()
    seen = [leader.follow(topic, version, current_epoch=0) for version in (12, 16)]
    seen.append(leader.follow(topic, current_epoch=1, last_epoch=0))
    seen += [_listed(leader, topic[0]), _epoch_end(leader, topic[0])]
    leader.follow_until_in_sync(topic, offset=3, current_epoch=1)
    seen.append(leader.follow(topic, offset=3, current_epoch=1))
    responses: list[Any] = []
    thread = threading.Thread(
        target=lambda: responses.append(leader.plain(leader.produce(topic, acks=-1)))
    )
    thread.start()
    eventually(lambda: leader.follow(topic, offset=3, current_epoch=1)[1][0][0]["records"] != b"")
    kind = ElectLeadersRequest.TopicPartitions
    elect = ElectLeadersRequest(
        election_type=0, topic_partitions=[kind(topic=topic[0], partitions=[0])]
    )
    [elected] = leader.wire.ask(elect, 2).replica_election_results
    assert elected.partition_result[0].error_code == 0
    thread.join(20)
    for version in (10, 12, 16):
        for epoch in (-1, 1, 2):
            position = Position(offset=3, current_epoch=epoch)
            seen.append(leader.read(topic, version, position))
    return seen, responses, leader.plain(leader.produce(topic))


PLAYS: list[Play] = [
    a_follower_reads_and_raises_the_high_watermark,
    a_follower_is_refused,
    an_epoch_is_fenced_after_an_election,
    followers_keep_sessions,
    the_isr_follows_the_fetches,
    produce_waits_for_the_follower,
    consumers_are_sent_to_the_follower_in_their_rack,
    another_broker_leads,
    offsets_and_epochs_are_found,
    a_throttled_follower_waits,
    a_restarted_follower_returns_with_its_new_epoch,
    leadership_comes_and_goes,
]


@pytest.mark.parametrize("play", PLAYS, ids=[play.__name__ for play in PLAYS])
def test_a_leader_responds_as_kafka_does(leaders: list[Leader], play: Play) -> None:
    expected, ours = (play(leader) for leader in leaders)
    differences = list(_differences(ours, expected))
    assert not differences, "\n".join(map(str, differences))


def _differences(ours: Any, expected: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The places in nested lists where two plays differ, with what each has there."""
    nested = isinstance(ours, list | tuple) and isinstance(expected, list | tuple)
    if nested and len(ours) == len(expected):
        for index, pair in enumerate(zip(ours, expected, strict=True)):
            yield from _differences(*pair, f"{where}[{index}]")
    elif isinstance(ours, dict) and isinstance(expected, dict):
        for key in ours.keys() | expected.keys():
            yield from _differences(ours.get(key), expected.get(key), f"{where}.{key}")
    elif ours != expected:
        yield where, ours, expected
