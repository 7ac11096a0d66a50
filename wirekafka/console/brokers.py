"""The page of the brokers, their disks, and the quorum of controllers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wirekafka.apis.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from wirekafka.apis.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from wirekafka.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from wirekafka.client.client import Client, CliError, check
from wirekafka.console.page import Page, View, Visit
from wirekafka.console.render import now_ms
from wirekafka.console.source import Known, Unknown

LINK = ("Brokers", "/brokers", "b")

_METADATA = "__cluster_metadata"
_FENCED = 2
"""From this version on, DescribeCluster can list fenced brokers."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A log directory of a broker; sizes below 0 are not known."""

    broker: int
    path: str
    error: str | None
    used_bytes: int
    """By the logs in it."""
    total_bytes: int
    free_bytes: int
    logs: int

    @property
    def filled(self) -> float | None:
        """The share of the volume that is in use, from 0 to 1."""
        if self.total_bytes <= 0:
            return None
        return 1 - self.free_bytes / self.total_bytes


def show(visit: Visit) -> View:
    """All brokers and controllers."""
    client = visit.client
    cluster = client.send(_every_broker(client), DescribeClusterResponse)
    check(cluster.error_code, "the cluster", cluster.error_message)
    client.metadata([])
    values = {
        "title": "Brokers",
        "cluster": cluster,
        "disks": [
            disks(client, broker.broker_id) for broker in cluster.brokers if not broker.is_fenced
        ],
        "quorum": _quorum(client),
        "now_ms": now_ms(),
    }
    return View("brokers.html", values)


def _every_broker(client: Client) -> DescribeClusterRequest:
    """Fenced brokers included, where the broker knows that request."""
    is_known = client.any().version_of(DescribeClusterRequest) >= _FENCED
    return DescribeClusterRequest(include_fenced_brokers=is_known)


def _quorum(client: Client) -> Known[DescribeQuorumResponse.TopicData.PartitionData]:
    topic = DescribeQuorumRequest.TopicData
    request = DescribeQuorumRequest(
        topics=[topic(topic_name=_METADATA, partitions=[topic.PartitionData(partition_index=0)])]
    )
    try:
        response = client.send(request, DescribeQuorumResponse)
        check(response.error_code, "the quorum", response.error_message)
        partition = response.topics[0].partitions[0]
        check(partition.error_code, "the quorum", partition.error_message)
    except (CliError, IndexError) as error:
        return Unknown(str(error) or "The quorum is not described.")
    return partition


def disks(client: Client, broker_id: int) -> Known[Sequence[Disk]]:
    """The log directories of a broker whose address the client knows."""
    try:
        response = client.node(broker_id).send(
            DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
        )
        check(response.error_code, f"broker {broker_id}")
    except CliError as error:
        return Unknown(str(error))
    found = []
    for each in response.results:
        sizes = [part.partition_size for topic in each.topics for part in topic.partitions]
        failure = f"error {each.error_code}" if each.error_code else None
        found.append(
            Disk(
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


ENTRIES = (Page("/brokers", show),)
