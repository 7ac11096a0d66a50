"""A fenced wirekafka broker gives clients and brokers the responses of a fenced Apache broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from pprint import pformat
from typing import Any

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import HOST, KAFKA, WIREKAFKA, Shape
from compat_tests.cut_links import CONTROLLERS, REQUESTS, LinkedCluster, Links
from compat_tests.wire import Wire
from tests.eventually import eventually
from tests.in_process import batch
from wirekafka.codec.message import Part, Request
from wirekafka.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.protocol.describe_cluster import DescribeClusterRequest
from wirekafka.protocol.describe_producers import DescribeProducersRequest
from wirekafka.protocol.describe_topic_partitions import DescribeTopicPartitionsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.protocol.write_txn_markers import WriteTxnMarkersRequest

APACHE, OURS, OTHER = 1, 2, 3
TOPIC = {APACHE: "of-apache", OURS: "of-wirekafka"}
KEYS = [f"group-{number}" for number in range(8)]
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "30000",
    "min.insync.replicas": "1",
}
NOW_MS = int(time.time() * 1000)
"""The time of the records, which retention must not delete."""
_VARYING = frozenset({"throttle_time_ms", "topic_id", "cluster_id", "log_append_time_ms"})
_TAKEN = FetchRequest.Topic.Partition


class Stage:
    """Topics that are led by each engine's broker, and followed by a third one."""

    def __init__(self, cluster: LinkedCluster):
        self.cluster = cluster
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        topics = [NewTopic(name, 1, replica_assignment=[[id, OTHER]]) for id, name in TOPIC.items()]
        for created in admin.create_topics(topics).values():
            created.result(60)
        for id in TOPIC:
            eventually(lambda id=id: self._is_led(id), timeout_s=60)
            request, version = _requests(TOPIC[id])["Produce, acks=-1"]
            request.timeout_ms = 30_000
            response = self.ask(id, request, version)
            assert response.responses[0].partition_responses[0].error_code == 0
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=KEYS)
        for id in TOPIC:
            eventually(lambda id=id: self._knows_coordinators(id, find), timeout_s=60)

    def ask(self, broker: int, request: Request, version: int) -> Any:
        with closing(Wire((HOST, self.cluster.nodes[broker].port))) as wire:
            return wire.ask(request, version)

    def transcript(self, broker: int, kind: str) -> dict[str, Any]:
        """The responses of a broker that is fenced because this kind of its links is cut."""
        links = self.cluster.links
        links.cut(broker, [kind])
        witnesses = [OTHER, broker] if kind == REQUESTS else [OTHER]
        try:
            for each in witnesses:
                eventually(
                    lambda each=each: broker not in self.cluster.listed_by(each), timeout_s=60
                )
            asked = _requests(TOPIC[broker]) | (_coordinated() if kind == REQUESTS else {})
            return {
                name: self._plain(self.ask(broker, request, version), broker)
                for name, (request, version) in asked.items()
            }
        finally:
            links.heal()
            self.cluster.await_in_service(broker)
            self._lead_again(broker)

    def _is_led(self, id: int) -> bool:
        """Whether the broker knows that it leads its topic."""
        request, version = _requests(TOPIC[id])["OffsetForLeaderEpoch, epoch 0"]
        response = self.ask(id, request, version)
        code: int = response.topics[0].partitions[0].error_code
        return code == 0

    def _knows_coordinators(self, id: int, find: Request) -> bool:
        return all(each.error_code == 0 for each in self.ask(id, find, 4).coordinators)

    def _lead_again(self, id: int) -> None:
        """Wait until the broker is in sync, and let it lead its topic."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})

        def has_led() -> bool:
            admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC[id], 0)]).result(30)
            partition = admin.list_topics(TOPIC[id], 10).topics[TOPIC[id]].partitions[0]
            return partition.leader == id and len(partition.isrs) == 2

        eventually(has_led, timeout_s=60)

    def _plain(self, value: Any, broker: int) -> Any:
        """A response as plain data, with the broker called "self" and its topic "topic"."""
        if isinstance(value, list | tuple):
            # Brokers are listed in any order.
            return sorted((self._plain(each, broker) for each in value), key=repr)
        if hasattr(value, "fields") or isinstance(value, Part):
            found = {
                field.name: self._named(field.name, getattr(value, field.name), broker)
                for field in value.fields
                if field.name not in _VARYING
            }
            if "controller_id" in found:  # Apache Kafka chooses one of the brokers at random.
                found["controller_id"] = found["controller_id"] in [
                    each.get("node_id", each.get("broker_id"))
                    for each in found["brokers"]
                    if not each.get("is_fenced")
                ]
            return found
        if isinstance(value, str):
            return value.replace(TOPIC[broker], "topic")
        return value

    def _named(self, name: str, value: Any, broker: int) -> Any:
        """A field of a response; brokers and their ports have the names of their roles."""
        peer = OURS if broker == APACHE else APACHE
        ids = {broker: "self", peer: "peer", OTHER: "other"}
        if name == "port":
            ports = {self.cluster.nodes[id].port: ids[id] for id in ids}
            return ports.get(value, value)
        if name == "records":
            return len(value or b"")
        if name == "timestamp":  # That of a marker is the time at which it was written.
            return value > 0
        if name in ("replica_nodes", "isr_nodes", "offline_replicas"):
            return [ids.get(each, each) for each in value]
        if name.endswith(("node_id", "leader_id", "broker_id")) or name == "controller_id":
            return ids.get(value, value)
        return self._plain(value, broker)


def _requests(topic: str) -> dict[str, tuple[Request, int]]:
    """What clients, and the other brokers, ask about a topic that the fenced broker led."""
    produce = ProduceRequest.TopicProduceData
    data = produce(
        name=topic,
        partition_data=[produce.PartitionProduceData(index=0, records=batch(timestamp=NOW_MS))],
    )
    listed = ListOffsetsRequest.Topic
    asked = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    deleted = DeleteRecordsRequest.Topic
    found: dict[str, tuple[Request, int]] = {
        "Metadata": (MetadataRequest(topics=[MetadataRequest.Topic(name=topic)]), 12),
        "DescribeCluster": (DescribeClusterRequest(include_fenced_brokers=True), 2),
        "DescribeTopicPartitions": (
            DescribeTopicPartitionsRequest(
                topics=[DescribeTopicPartitionsRequest.TopicRequest(name=topic)]
            ),
            0,
        ),
        "DescribeProducers": (
            DescribeProducersRequest(
                topics=[DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[0])]
            ),
            0,
        ),
        "DeleteRecords": (
            DeleteRecordsRequest(
                topics=[
                    deleted(name=topic, partitions=[deleted.Partition(partition_index=0, offset=0)])
                ],
                timeout_ms=300,
            ),
            2,
        ),
        "WriteTxnMarkers": (
            WriteTxnMarkersRequest(
                markers=[
                    marker(
                        producer_id=7,
                        producer_epoch=0,
                        transaction_result=True,
                        coordinator_epoch=0,
                        topics=[marker.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
                    )
                ]
            ),
            1,
        ),
    }
    for acks in (-1, 1):
        request = ProduceRequest(acks=acks, timeout_ms=300, topic_data=[data])
        for version in (9, 10):
            found[f"Produce, acks={acks}" + (", v10" if version == 10 else "")] = request, version
    for timestamp in (-1, -2, -3):
        for replica in (-1, OTHER):
            partition = listed.Partition(partition_index=0, timestamp=timestamp)
            found[f"ListOffsets {timestamp} of {replica}"] = (
                ListOffsetsRequest(
                    replica_id=replica, topics=[listed(name=topic, partitions=[partition])]
                ),
                7,
            )
    for epoch in (-1, 0, 99):
        point = asked.OffsetForLeaderPartition(
            partition=0, current_leader_epoch=epoch, leader_epoch=0
        )
        found[f"OffsetForLeaderEpoch, epoch {epoch}"] = (
            OffsetForLeaderEpochRequest(
                replica_id=-1, topics=[asked(topic=topic, partitions=[point])]
            ),
            4,
        )
        taken = _TAKEN(
            partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=100
        )
        fetched = FetchRequest.Topic(topic=topic, partitions=[taken])
        found[f"Fetch, epoch {epoch}"] = (
            FetchRequest(max_wait_ms=0, max_bytes=100, topics=[fetched]),
            12,
        )
    return found


def _coordinated() -> dict[str, tuple[Request, int]]:
    """Requests to coordinators, which a broker that knows that it is fenced is no more."""
    groups = [OffsetFetchRequest.Group(group_id=key, topics=None) for key in KEYS]
    transaction = AddPartitionsToTxnRequest.Transaction(
        transactional_id="t", producer_id=1, producer_epoch=0, verify_only=True
    )
    return {
        "OffsetFetch": (OffsetFetchRequest(groups=groups), 8),
        "AddPartitionsToTxn": (AddPartitionsToTxnRequest(transactions=[transaction]), 4),
        **{
            f"Heartbeat {key}": (HeartbeatRequest(group_id=key, generation_id=1, member_id="m"), 4)
            for key in KEYS
        },
    }


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    shape = Shape(brokers=(KAFKA, WIREKAFKA, WIREKAFKA), is_combined=False, settings=SETTINGS)
    directory: Path = tmp_path_factory.mktemp("fenced")
    with Links.open() as links, LinkedCluster.linked(shape, directory, links) as cluster:
        yield Stage(cluster)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", [REQUESTS, CONTROLLERS])
def test_responses_are_those_of_a_fenced_apache_broker(stage: Stage, kind: str) -> None:
    expected = stage.transcript(APACHE, kind)
    found = stage.transcript(OURS, kind)
    assert expected.keys() == found.keys()
    differing = {
        name: (expected[name], found[name]) for name in expected if expected[name] != found[name]
    }
    assert not differing, pformat(differing, width=160)
