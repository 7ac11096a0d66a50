"""A cluster in numbers: its disks, its oldest open transaction, replicas that are not in sync."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from wirekafka.client.admin.cluster import log_directories
from wirekafka.client.client import Client, CliError, check
from wirekafka.console.render import now_ms
from wirekafka.console.source import (
    ClusterSummary,
    DirectorySample,
    Known,
    OpenTransaction,
    Unknown,
    Unsynced,
)
from wirekafka.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from wirekafka.protocol.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from wirekafka.protocol.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from wirekafka.protocol.metadata import MetadataResponse
from wirekafka.security.acl import Operation

_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
_MOST_DESCRIBED = 200


def summary(client: Client, metadata: MetadataResponse) -> ClusterSummary:
    """A summary of a cluster from all its metadata. Raises CliError."""
    brokers = [each.node_id for each in metadata.brokers]
    return ClusterSummary(
        brokers,
        len(metadata.topics),
        sum(len(topic.partitions) for topic in metadata.topics),
        unsynced(metadata),
        oldest_transaction(client, brokers),
        [disks(client, broker) for broker in brokers],
        _may_see_cluster(client),
    )


def unsynced(metadata: MetadataResponse) -> list[Unsynced]:
    """The partitions with fewer replicas in sync than they have, or without a leader."""
    return [
        Unsynced(topic.name or "", each.partition_index, each.replica_nodes, each.isr_nodes)
        for topic in metadata.topics
        for each in topic.partitions
        if len(each.isr_nodes) < len(each.replica_nodes) or each.leader_id < 0
    ]


def oldest_transaction(client: Client, brokers: Iterable[int]) -> Known[OpenTransaction | None]:
    """The open transaction that began first, None without any."""
    found: list[OpenTransaction] = []
    try:
        for broker in brokers:
            connection = client.node(broker)
            response = connection.send(
                ListTransactionsRequest(state_filters=list(_OPEN)), ListTransactionsResponse
            )
            check(response.error_code, f"transactions of broker {broker}")
            states: list[Any] = list(response.transaction_states)
            listed = [each.transactional_id for each in states]
            if not listed:
                continue
            described = connection.send(
                DescribeTransactionsRequest(transactional_ids=listed[:_MOST_DESCRIBED]),
                DescribeTransactionsResponse,
            )
            at_ms = now_ms()
            found += [
                OpenTransaction(
                    each.transactional_id,
                    each.transaction_state,
                    max(at_ms - each.transaction_start_time_ms, 0),
                )
                for each in described.transaction_states
                if not each.error_code and each.transaction_start_time_ms >= 0
            ]
    except CliError as error:
        return Unknown(str(error))
    return max(found, key=lambda each: each.age_ms, default=None)


def disks(client: Client, broker_id: int) -> Known[Sequence[DirectorySample]]:
    """The log directories of a broker whose address the client knows."""
    try:
        directories = log_directories(client, broker_id)
    except CliError as error:
        return Unknown(str(error))
    found = []
    for each in directories:
        sizes = [part.partition_size for topic in each.topics for part in topic.partitions]
        failure = f"error {each.error_code}" if each.error_code else None
        found.append(
            DirectorySample(
                broker_id,
                each.log_dir,
                failure,
                sum(sizes),
                each.total_bytes,
                each.usable_bytes,
                len(sizes),
            )
        )
    return found


def _may_see_cluster(client: Client) -> bool:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    operations = client.send(request, DescribeClusterResponse).cluster_authorized_operations
    return bool(operations >= 0 and operations >> Operation.DESCRIBE & 1)
