"""The cluster as a client on one listener sees it: who can be reached, and who leads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from wirekafka.errors import Error
from wirekafka.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage


class Node(NamedTuple):
    """A broker under the address it advertises on the client's listener."""

    broker: BrokerImage
    host: str
    port: int


class PartitionView(NamedTuple):
    """What a client is told of a partition; `offline` are replicas that cannot be reached."""

    error: Error
    leader_id: int
    offline: list[int]


class View:
    """One listener's view of an image; made anew for each request."""

    def __init__(self, image: MetadataImage, listener: str):
        self._image = image
        self._reachable = {
            node.broker.id for node in nodes(image, listener) if not node.broker.fenced}

    def partition(self, partition: PartitionImage) -> PartitionView:
        """LEADER_NOT_AVAILABLE without a leader, LISTENER_NOT_FOUND for one that is elsewhere."""
        offline = [replica for replica in partition.replicas if replica not in self._reachable]
        leader = partition.leader
        if leader in self._reachable:
            return PartitionView(Error.NONE, leader, offline)
        alive = self._image.brokers.get(leader)
        if leader == NO_LEADER or alive is None or alive.fenced:
            return PartitionView(Error.LEADER_NOT_AVAILABLE, NO_LEADER, offline)
        return PartitionView(Error.LISTENER_NOT_FOUND, NO_LEADER, offline)


def nodes(image: MetadataImage, listener: str) -> Iterator[Node]:
    """Brokers that advertise the listener, fenced ones too, by id."""
    for id in sorted(image.brokers):
        endpoint = image.brokers[id].endpoint(listener)
        if endpoint is not None:
            yield Node(image.brokers[id], *endpoint)
