"""The current leader and its address, which responses add to leadership errors (KIP-951)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.errors import Error
from wirekafka.protocol.node_endpoints import NodeEndpoint
from wirekafka.replication.partition.replica import NO_EPOCH, NO_LEADER

MOVED = frozenset({Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH})
"""Errors with which the response has the current leader, so that the client continues there."""


class CurrentLeaders:
    """Looks up the leaders for one response, and collects their addresses.

    The addresses belong to the listener on which the request was received.
    """

    __slots__ = ("_call", "endpoints")

    def __init__(self, call: Call):
        self._call = call
        self.endpoints: dict[int, NodeEndpoint] = {}
        """The leaders looked up so far that are alive, by broker id."""

    def find(self, topic: str | bytes, index: int) -> tuple[int, int]:
        """Return (leader id, leader epoch) of a partition, by topic name or id; -1 if unknown."""
        leader_id, leader_epoch = self._leader(topic, index)
        broker = self._call.broker.image.brokers.get(leader_id)
        if broker is not None and not broker.fenced:
            address = broker.endpoint(self._call.listener)
            if address is not None:
                host, port = address
                self.endpoints[leader_id] = NodeEndpoint(
                    node_id=leader_id, host=host, port=port, rack=broker.rack
                )
        return leader_id, leader_epoch

    def _leader(self, topic: str | bytes, index: int) -> tuple[int, int]:
        broker = self._call.broker
        if isinstance(topic, bytes):
            found = broker.image.topics_by_id.get(topic)
            if found is None:
                return NO_LEADER, NO_EPOCH
            topic = found.name
        # The replica here, if any, knows the leader that its present role is based on.
        placed = broker.partitions.get((topic, index))
        if placed is not None:
            return placed.leader_id, placed.leader_epoch
        partition = broker.image.partition(topic, index)
        if partition is None:
            return NO_LEADER, NO_EPOCH
        return partition.leader, partition.leader_epoch
