"""The cluster as seen by clients of one listener: reachable brokers and partition leaders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wirekafka.errors import Error
from wirekafka.metadata.image.image import BrokerImage, MetadataImage, PartitionImage
from wirekafka.replication.partition.replica import NO_LEADER


class ReachableBroker(NamedTuple):
    """A broker with the address that it advertises on the client's listener."""

    broker: BrokerImage
    host: str
    port: int


class PartitionView(NamedTuple):
    """A partition in a response; `offline` are the replicas on unreachable brokers or
    in failed log directories."""

    error: Error
    leader_id: int
    offline: list[int]


class View:
    """One listener's view of an image; created for each request."""

    def __init__(self, image: MetadataImage, listener: str):
        self._image = image
        self._reachable = {
            node.broker.id for node in nodes(image, listener) if not node.broker.fenced
        }

    def partition(self, partition: PartitionImage) -> PartitionView:
        """Describe a partition: LEADER_NOT_AVAILABLE if it has no leader, LISTENER_NOT_FOUND if its
        leader does not have the listener.
        """
        offline = [
            replica
            for replica in partition.replicas
            if replica not in self._reachable or not self._image.is_online(partition, replica)
        ]
        leader = partition.leader
        if leader in self._reachable:
            return PartitionView(Error.NONE, leader, offline)
        alive = self._image.brokers.get(leader)
        if leader == NO_LEADER or alive is None or alive.fenced:
            return PartitionView(Error.LEADER_NOT_AVAILABLE, NO_LEADER, offline)
        return PartitionView(Error.LISTENER_NOT_FOUND, NO_LEADER, offline)

    def reachable(self, replicas: Sequence[int]) -> list[int]:
        """The replicas whose broker is in service and has the listener."""
        return [replica for replica in replicas if replica in self._reachable]


def controller_for_clients(image: MetadataImage, node_id: int) -> int:
    """The broker that clients take for the controller, and that forwards their requests.

    This node itself, unless it is fenced: clients would not find it among the brokers.
    """
    own = image.brokers.get(node_id)
    if own is not None and not own.fenced:
        return node_id
    return next((broker.id for broker in image.live_brokers()), NO_LEADER)


def nodes(image: MetadataImage, listener: str) -> Iterator[ReachableBroker]:
    """Brokers that advertise the listener, fenced brokers included, ordered by id."""
    for id in sorted(image.brokers):
        endpoint = image.brokers[id].endpoint(listener)
        if endpoint is not None:
            yield ReachableBroker(image.brokers[id], *endpoint)
