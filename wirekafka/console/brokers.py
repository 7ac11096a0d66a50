"""The page of the brokers, their disks, and the quorum of controllers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wirekafka.apis.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from wirekafka.apis.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from wirekafka.client.client import Client, CliError, check
from wirekafka.console.page import Page, View, Visit
from wirekafka.console.source import Known, Unknown

LINK = ("Brokers", "/brokers", "b")


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
    cluster = client.send(DescribeClusterRequest(), DescribeClusterResponse)
    check(cluster.error_code, "the cluster", cluster.error_message)
    client.metadata([])
    values = {
        "title": "Brokers",
        "cluster": cluster,
        "disks": [disks(client, broker.broker_id) for broker in cluster.brokers],
    }
    return View("brokers.html", values)


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
