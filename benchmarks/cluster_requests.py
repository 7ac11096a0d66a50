"""Requests to a cluster under measurement, and what its nodes use of the machine.

Requests are false, or raise OSError or RequestFailed, until they succeed; `until` repeats them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress

import psutil

from benchmarks.driver import (
    ALL,
    CREATE_VERSION,
    PRODUCE_VERSION,
    TOPIC_ALREADY_EXISTS,
    Connection,
    RequestFailed,
    batch_of,
)
from compat_tests.cluster import HOST, Cluster, Node
from wirekafka.protocol.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from wirekafka.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from wirekafka.protocol.metadata import MetadataRequest, MetadataResponse
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse

Key = tuple[str, int]
"""A partition: topic and index."""

LIMIT_S = 600.0
_METADATA_VERSION = 9
_REASSIGN_VERSION = 0
_LOOK_S = 0.01
_AT_A_TIME = 500


def until(holds: Callable[[], bool]) -> None:
    """Repeat a request until it succeeds. Raises RequestFailed."""
    deadline = time.perf_counter() + LIMIT_S
    while True:
        with suppress(OSError, RequestFailed):
            if holds():
                return
        if time.perf_counter() > deadline:
            raise RequestFailed(f"not within {LIMIT_S:.0f} s")
        time.sleep(_LOOK_S)


def create(
    node: Node,
    name: str,
    partitions: int,
    replicas: int,
    placed: Sequence[Sequence[int]] | None = None,
) -> bool:
    """Create a topic, with the replicas of each partition as in `placed`, if that is given."""
    wanted = CreateTopicsRequest.CreatableTopic(name=name)
    if placed is None:
        wanted.num_partitions, wanted.replication_factor = partitions, replicas
    else:
        wanted.num_partitions = wanted.replication_factor = -1
        wanted.assignments = [
            wanted.CreatableReplicaAssignment(partition_index=index, broker_ids=list(each))
            for index, each in enumerate(placed)
        ]
    request = CreateTopicsRequest(timeout_ms=60_000, topics=[wanted])
    with closing(Connection(HOST, node.port)) as connection:
        response = connection.ask(request, CreateTopicsResponse, CREATE_VERSION)
    return response.topics[0].error_code in (0, TOPIC_ALREADY_EXISTS)


def assign(node: Node, topic: str, replicas: Sequence[int]) -> None:
    """Reassign the first partition of a topic. Raises RequestFailed."""
    wanted = AlterPartitionReassignmentsRequest.ReassignableTopic
    partition = wanted.ReassignablePartition(partition_index=0, replicas=list(replicas))
    request = AlterPartitionReassignmentsRequest(
        topics=[wanted(name=topic, partitions=[partition])]
    )
    with closing(Connection(HOST, node.port)) as connection:
        response = connection.ask(request, AlterPartitionReassignmentsResponse, _REASSIGN_VERSION)
    error = response.error_code or response.responses[0].partitions[0].error_code
    if error:
        raise RequestFailed(f"AlterPartitionReassignments: error {error}")


def in_sync(node: Node, topic: str) -> Sequence[int]:
    """The in-sync replicas of the first partition of a topic, as one node knows them."""
    [found] = _described(node, [topic]).topics
    return next((each.isr_nodes for each in found.partitions if not each.partition_index), ())


def leaders(node: Node, topics: Sequence[str]) -> dict[Key, int]:
    """The leader of each partition, as one node knows it; without those that have none."""
    return {
        (topic.name, each.partition_index): each.leader_id
        for topic in _described(node, topics).topics
        for each in topic.partitions
        if each.leader_id >= 0
    }


def produced_to(cluster: Cluster, partitions: Sequence[Key]) -> bool:
    """Whether a record is acknowledged in each of the partitions, by all of its replicas."""
    running = next(node for node in cluster.nodes.values() if node.is_running)
    led_by = leaders(running, sorted({topic for topic, _ in partitions}))
    by_leader: dict[tuple[int, str], list[int]] = {}
    for topic, index in partitions:
        by_leader.setdefault((led_by.get((topic, index), -1), topic), []).append(index)
    return all(
        id in cluster.nodes and _are_acknowledged(cluster.nodes[id], topic, indexes)
        for (id, topic), indexes in by_leader.items()
    )


def _described(node: Node, topics: Sequence[str]) -> MetadataResponse:
    request = MetadataRequest(topics=[MetadataRequest.Topic(name=topic) for topic in topics])
    with closing(Connection(HOST, node.port)) as connection:
        return connection.ask(request, MetadataResponse, _METADATA_VERSION)


def _are_acknowledged(leader: Node, topic: str, indexes: Sequence[int]) -> bool:
    records = batch_of(1, 200)
    data = ProduceRequest.TopicProduceData
    with closing(Connection(HOST, leader.port)) as connection:
        for first in range(0, len(indexes), _AT_A_TIME):
            wanted = [
                data.PartitionProduceData(index=index, records=records)
                for index in indexes[first : first + _AT_A_TIME]
            ]
            request = ProduceRequest(
                acks=ALL, timeout_ms=30_000, topic_data=[data(name=topic, partition_data=wanted)]
            )
            response = connection.ask(request, ProduceResponse, PRODUCE_VERSION)
            if any(each.error_code for each in response.responses[0].partition_responses):
                return False
    return True


# What the nodes use.


def processes(nodes: Sequence[Node]) -> list[psutil.Process]:
    """The processes of the nodes that run."""
    return [psutil.Process(node.process.pid) for node in nodes if node.process is not None]


def cpu_s(nodes: Sequence[Node]) -> float:
    """User and system time of the nodes' processes so far."""
    return sum(sum(process.cpu_times()[:2]) for process in processes(nodes))


def resident_mib(node: Node) -> float:
    """The resident memory of a node that runs."""
    [process] = processes([node])
    return float(process.memory_info().rss) / (1 << 20)
