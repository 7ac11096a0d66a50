"""Shared by the requests among the nodes of the metadata quorum: checks, and the leader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.quorum_endpoints import QuorumNodeEndpoint
from wirekafka.replication.partition.internal_topics import METADATA_TOPIC
from wirekafka.replication.raft.messages import Endpoints, LeaderAndEpoch, ReplicaKey


def check_cluster_id(cluster_id: str | None, call: ControllerCall) -> None:
    """Raise INCONSISTENT_CLUSTER_ID for a request that was meant for another cluster."""
    expected = call.controller.cluster_id
    if cluster_id not in (None, expected):
        raise KafkaError(
            Error.INCONSISTENT_CLUSTER_ID,
            f'The given id "{cluster_id}" doesn\'t match the cluster id "{expected}"',
        )


def metadata_partition(topics: Sequence[Any]) -> Any:
    """Return the only partition of a request. Raises INVALID_REQUEST for any but the metadata's."""
    if len(topics) == 1 and topics[0].topic_name == METADATA_TOPIC:
        partitions = topics[0].partitions
        if len(partitions) == 1 and partitions[0].partition_index == 0:
            return partitions[0]
    raise KafkaError(Error.INVALID_REQUEST)


def addressed(id: int, directory_id: bytes, call: ControllerCall) -> ReplicaKey:
    """Return the replica that a request is for; before KIP-853, requests do not name it."""
    return ReplicaKey(id if id >= 0 else call.controller.node_id, directory_id)


def endpoints_of(listeners: Sequence[Any]) -> Endpoints:
    """Return the listeners of a request as endpoints."""
    return tuple((each.name, each.host, each.port) for each in listeners)


def leader_nodes(leadership: LeaderAndEpoch, call: ControllerCall) -> list[QuorumNodeEndpoint]:
    """Return the leader's address at the listener of the request; none if it is not known."""
    return [
        QuorumNodeEndpoint(node_id=leadership.leader_id, host=host, port=port)
        for name, host, port in leadership.endpoints
        if name == call.listener and leadership.leader_id >= 0
    ]
