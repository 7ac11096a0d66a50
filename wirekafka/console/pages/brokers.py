"""The page of the brokers, their disks, and the quorum of controllers."""

from __future__ import annotations

from wirekafka.client.client import Client, CliError, check
from wirekafka.console.pages.page import Page, PageView, Visit
from wirekafka.console.render import now_ms
from wirekafka.console.source import Known, Unknown
from wirekafka.console.summary import disks
from wirekafka.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from wirekafka.protocol.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

LINK = ("Brokers", "/brokers", "b")

_METADATA = "__cluster_metadata"
_FENCED = 2
"""From this version on, DescribeCluster can list fenced brokers."""


def show(visit: Visit) -> PageView:
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
    return PageView("brokers.html", values)


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


ENTRIES = (Page("/brokers", show),)
