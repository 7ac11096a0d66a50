"""What the tests of a cluster's metadata quorum observe: leader, voters, and each node's log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import HOST, Cluster, Node
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.codec.batch import batches
from wirekafka.log.directories.log_directory import METADATA_LOG
from wirekafka.protocol.describe_quorum import DescribeQuorumRequest
from wirekafka.replication.partition.internal_topics import METADATA_TOPIC


@dataclass(frozen=True)
class Described:
    """The quorum as its leader describes it; log end offsets by node id."""

    leader: int
    epoch: int
    high_watermark: int
    voters: dict[int, int]
    observers: dict[int, int]


def described(cluster: Cluster, *nodes: int) -> Described | None:
    """The quorum as one of these nodes reports it, by default a running controller.

    None while no leader is known.
    """
    asked = [cluster.nodes[id] for id in nodes] or [
        node for node in cluster.nodes.values() if node.is_controller and node.is_running
    ]
    for node in asked:
        partition = _asked(node)
        if partition is not None:
            return Described(
                partition.leader_id,
                partition.leader_epoch,
                partition.high_watermark,
                {each.replica_id: each.log_end_offset for each in partition.current_voters},
                {each.replica_id: each.log_end_offset for each in partition.observers},
            )
    return None


def await_leader(cluster: Cluster, *, after_epoch: int = -1, timeout_s: float = 60) -> Described:
    """The quorum once a leader of a newer epoch is known."""

    def found() -> Described | None:
        now = described(cluster)
        return now if now is not None and now.epoch > after_epoch else None

    result = eventually(found, timeout_s=timeout_s)
    assert result is not None
    return result


def await_followed(cluster: Cluster, *voters: int) -> None:
    """Wait until these voters have everything that the leader has committed by now."""
    committed = await_leader(cluster).high_watermark

    def have_followed() -> bool:
        now = described(cluster)
        return now is not None and all(now.voters[id] >= committed for id in voters)

    eventually(have_followed, timeout_s=60)


def create(cluster: Cluster, name: str, *, replicas: int = 1) -> None:
    """Create a topic of two partitions through any broker."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, 2, replicas)])[name].result(60)


def make(cluster: Cluster, name: str, *, replicas: int = 1) -> None:
    """As `create`, and write to the topic with acks=all."""
    create(cluster, name, replicas=replicas)
    client = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    producer = Producer(client | {"acks": "all"})
    delivered: list[str] = []
    producer.produce(name, b"x", on_delivery=lambda error, message: delivered.append(str(error)))
    assert producer.flush(60) == 0 and delivered == ["None"]


def metadata_batches(node: Node) -> Iterator[bytes]:
    """The batches in the first segment of a node's metadata log, which may be written meanwhile."""
    data = (node.data / METADATA_LOG / f"{0:020d}.log").read_bytes()
    for at, header in batches(data):
        yield data[at : at + header.size_bytes]


def assert_equal_metadata(*nodes: Node) -> int:
    """Check that the logs are equal as far as all of them go; returns how many batches that is."""
    logs = [list(metadata_batches(node)) for node in nodes]
    common = min(map(len, logs))
    for log in logs[1:]:
        assert log[:common] == logs[0][:common]
    return common


def _asked(node: Node) -> Any:
    port = node.controller_port if node.is_controller else node.port
    wire = Wire((HOST, port), timeout_s=5)
    topic = DescribeQuorumRequest.TopicData
    partitions = [topic.PartitionData(partition_index=0)]
    request = DescribeQuorumRequest(
        topics=[topic(topic_name=METADATA_TOPIC, partitions=partitions)]
    )
    try:
        response = wire.ask(request, 2)
    except OSError:
        return None
    finally:
        wire.close()
    if isinstance(response, str) or not response.topics:
        return None
    [partition] = response.topics[0].partitions
    return None if partition.error_code else partition
