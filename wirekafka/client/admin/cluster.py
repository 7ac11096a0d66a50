"""A cluster as a whole: its brokers, their disks, and the quorum of its controllers."""

from __future__ import annotations

from wirekafka.client.client import Client, check, only
from wirekafka.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from wirekafka.protocol.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from wirekafka.protocol.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

_METADATA_TOPIC = "__cluster_metadata"
_LISTS_FENCED = 2
"""From this version on, DescribeCluster can list fenced brokers."""

Quorum = DescribeQuorumResponse.TopicData.PartitionData


def describe_cluster(client: Client) -> DescribeClusterResponse:
    """The cluster's id, controller and brokers, with fenced brokers where they are known.

    Raises CliError.
    """
    is_known = client.any().version_of(DescribeClusterRequest) >= _LISTS_FENCED
    request = DescribeClusterRequest(include_fenced_brokers=is_known)
    response = client.send(request, DescribeClusterResponse)
    check(response.error_code, "the cluster", response.error_message)
    return response


def describe_quorum(client: Client) -> DescribeQuorumResponse:
    """The quorum of controllers: one topic with one partition. Raises CliError."""
    topic = DescribeQuorumRequest.TopicData
    partitions = [topic.PartitionData(partition_index=0)]
    request = DescribeQuorumRequest(
        topics=[topic(topic_name=_METADATA_TOPIC, partitions=partitions)]
    )
    response = client.send(request, DescribeQuorumResponse)
    check(response.error_code, "the quorum", response.error_message)
    partition = only(only(response.topics, "the quorum").partitions, "the quorum")
    check(partition.error_code, "the quorum", partition.error_message)
    return response


def quorum_of(response: DescribeQuorumResponse) -> Quorum:
    """The only partition of a response of `describe_quorum`."""
    return response.topics[0].partitions[0]


def log_directories(client: Client, broker_id: int) -> list[DescribeLogDirsResponse.Result]:
    """The log directories of a broker whose address the client knows. Raises CliError."""
    request = DescribeLogDirsRequest(topics=None)
    response = client.node(broker_id).send(request, DescribeLogDirsResponse)
    check(response.error_code, f"broker {broker_id}")
    return response.results


def unregister_broker(client: Client, broker_id: int) -> None:
    """Remove the registration of a broker that does not return. Raises CliError."""
    request = UnregisterBrokerRequest(broker_id=broker_id)
    response = client.send(request, UnregisterBrokerResponse)
    check(response.error_code, f"broker {broker_id}", response.error_message)
