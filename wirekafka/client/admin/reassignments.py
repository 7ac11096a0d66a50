"""Reassignments of partitions to other brokers (KIP-455): planned, started, followed, cancelled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from wirekafka.client.admin.cluster import describe_cluster, log_directories
from wirekafka.client.admin.replica_plan import BrokersOfPartitions
from wirekafka.client.client import Client, CliError, check
from wirekafka.protocol.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from wirekafka.protocol.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

_Partition = AlterPartitionReassignmentsRequest.ReassignableTopic.ReassignablePartition


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition on its way to other brokers."""

    topic: str
    partition: int
    replicas: Sequence[int]
    """All of its brokers, the leaving ones too."""
    adding: Sequence[int]
    removing: Sequence[int]
    copied_bytes: int | None = None
    """What the new brokers have by now; None if it is not known."""
    all_bytes: int | None = None
    """What they will have: the size of the largest replica for each of them."""

    @property
    def fraction(self) -> float | None:
        """How much is copied, from 0 to 1; None if it is not known."""
        if self.copied_bytes is None or self.all_bytes is None:
            return None
        # Segments that the leader deletes meanwhile, and different batches, make a copy larger.
        return min(1.0, self.copied_bytes / self.all_bytes) if self.all_bytes else 1.0


class PartitionFailure(NamedTuple):
    """The failure of one partition, in one line."""

    topic: str
    partition: int
    reason: str


def current_assignment(client: Client, topics: Sequence[str] | None = None) -> BrokersOfPartitions:
    """The brokers of each partition of some topics, or of all. Raises CliError."""
    found: BrokersOfPartitions = {}
    for topic in client.topics(topics):
        for each in topic.partitions:
            found[topic.name or "", each.partition_index] = list(each.replica_nodes)
    return dict(sorted(found.items()))


def racks_of(client: Client, brokers: Sequence[int] | None = None) -> dict[int, str | None]:
    """The rack of each of these brokers, or of all that are in service. Raises CliError."""
    known = {
        each.broker_id: each.rack for each in describe_cluster(client).brokers if not each.is_fenced
    }
    if brokers is None:
        return known
    if missing := [str(each) for each in brokers if each not in known]:
        raise CliError(f"no broker {', '.join(missing)} in service")
    return {each: known[each] for each in brokers}


def reassign(
    client: Client, wanted: Mapping[tuple[str, int], Sequence[int] | None]
) -> list[PartitionFailure]:
    """Start moves of partitions to brokers, or cancel those with None; returns the failures.

    Raises CliError if the whole request is refused.
    """
    kind = AlterPartitionReassignmentsRequest.ReassignableTopic
    topics: dict[str, list[_Partition]] = {}
    for (topic, index), brokers in wanted.items():
        replicas = None if brokers is None else list(brokers)
        partition = _Partition(partition_index=index, replicas=replicas)
        topics.setdefault(topic, []).append(partition)
    request = AlterPartitionReassignmentsRequest(
        topics=[kind(name=name, partitions=some) for name, some in topics.items()]
    )
    response = client.send(request, AlterPartitionReassignmentsResponse)
    check(response.error_code, "the reassignment", response.error_message)
    failures = []
    for answered in response.responses:
        for each in answered.partitions:
            subject = f"{answered.name}-{each.partition_index}"
            try:
                check(each.error_code, subject, each.error_message)
            except CliError as error:
                failures.append(PartitionFailure(answered.name, each.partition_index, str(error)))
    return failures


def list_reassignments(client: Client) -> list[Reassignment]:
    """All reassignments in progress, sorted, without sizes. Raises CliError."""
    request = ListPartitionReassignmentsRequest(topics=None)
    response = client.send(request, ListPartitionReassignmentsResponse)
    check(response.error_code, "reassignments", response.error_message)
    found = [
        Reassignment(
            topic.name,
            each.partition_index,
            each.replicas,
            each.adding_replicas,
            each.removing_replicas,
        )
        for topic in response.topics
        for each in topic.partitions
    ]
    return sorted(found, key=lambda each: (each.topic, each.partition))


def with_sizes(client: Client, found: Sequence[Reassignment]) -> list[Reassignment]:
    """The same reassignments with the sizes of their replicas, as far as brokers answer."""
    brokers = {broker for each in found for broker in each.replicas}
    client.metadata([])
    sizes: dict[tuple[str, int], dict[int, int]] = {}
    for broker in sorted(brokers):
        for partition, size in _sizes_at(client, broker).items():
            sizes.setdefault(partition, {})[broker] = size
    return [_with_size(each, sizes.get((each.topic, each.partition), {})) for each in found]


def _with_size(found: Reassignment, sizes: Mapping[int, int]) -> Reassignment:
    kept = [each for each in found.replicas if each not in found.adding]
    largest = max((sizes[each] for each in kept if each in sizes), default=None)
    if largest is None:
        return found
    return replace(
        found,
        copied_bytes=sum(sizes.get(each, 0) for each in found.adding),
        all_bytes=largest * len(found.adding),
    )


def _sizes_at(client: Client, broker: int) -> dict[tuple[str, int], int]:
    try:
        directories = log_directories(client, broker)
    except CliError:
        return {}
    return {
        (topic.name, each.partition_index): each.partition_size
        for directory in directories
        for topic in directory.topics
        for each in topic.partitions
        if not each.is_future_key
    }


def moved(
    current: Mapping[tuple[str, int], Sequence[int]],
    wanted: Mapping[tuple[str, int], Sequence[int]],
) -> Iterable[tuple[str, int]]:
    """The partitions whose wanted brokers, or whose order of brokers, differ from the current."""
    return [each for each in wanted if list(wanted[each]) != list(current.get(each, ()))]
