"""Selects the replica that a consumer should fetch from: one in its own rack (KIP-392)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.fetch_reads import SelectReplica
from wirekafka.config.options.replication import RACK_AWARE_SELECTOR
from wirekafka.replication.partition.partition import Partition

_THIS = -1


class _Rack:
    """Selects replicas for a client in a rack, which connects to brokers at one listener."""

    __slots__ = ("_call", "_rack")

    def __init__(self, call: Call, rack: str):
        self._call = call
        self._rack = rack

    def select(self, partition: Partition, offset: int) -> int:
        """Return the broker id of the follower to read `offset` from, -1 for this replica.

        It is the in-sync follower in the rack with the highest log end offset that has `offset`.
        This replica is read if it is a follower or in the rack itself, or if there is no other.
        """
        leader = partition.leader
        if leader is None or self._has(partition.node_id):
            return _THIS
        candidates = [
            (follower.end_offset, follower.caught_up_ms, follower.broker_id)
            for follower in leader.followers.values()
            if follower.broker_id in partition.isr
            and follower.start_offset <= offset <= follower.end_offset
            and self._has(follower.broker_id)
        ]
        return max(candidates)[-1] if candidates else _THIS

    def _has(self, broker_id: int) -> bool:
        broker = self._call.broker.image.brokers.get(broker_id)
        return (
            broker is not None
            and not broker.fenced
            and broker.rack == self._rack
            and broker.endpoint(self._call.listener) is not None
        )


def rack_aware_selector(call: Call, rack: str) -> SelectReplica | None:
    """Return the selector for a client in this rack; None without `replica.selector.class`."""
    if call.broker.config.replica_selector_class != RACK_AWARE_SELECTOR:
        return None
    return _Rack(call, rack).select
