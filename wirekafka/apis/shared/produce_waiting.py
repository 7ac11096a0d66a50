"""Waits until the batches of a Produce request with acks=all are on all in-sync replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from wirekafka.apis.shared.call import Call
from wirekafka.errors import Error
from wirekafka.replication.partition.leader import Leader
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.waiting import Watched

Uncommitted: TypeAlias = tuple[Partition, Leader, int, Any]
"""A partition, the leader that appended a batch, the batch's end, and its part of the response."""


async def are_replicated(uncommitted: Sequence[Uncommitted], timeout_ms: int, call: Call) -> bool:
    """Wait until all in-sync replicas have the batches; False if a response now has an error."""

    def done(_: Watched) -> bool:
        return all(_settled(*waiting[:3]) for waiting in uncommitted)

    await call.broker.waiting.until(
        done, {partition for partition, *_ in uncommitted}, call.now_ms + timeout_ms
    )
    has_failed = False
    for partition, leader, end_offset, response in uncommitted:
        error = outcome(partition, leader, end_offset)
        if error is not Error.NONE:
            response.error_code = error
            has_failed = True  # The response keeps the offset, as in Kafka.
    return not has_failed


def outcome(partition: Partition, leader: Leader, end_offset: int) -> Error:
    """Return the error of an appended batch whose wait has ended, NONE if it is replicated."""
    if partition.log.has_failed and partition.high_watermark < end_offset:
        return Error.KAFKA_STORAGE_ERROR
    if partition.leader is not leader:
        # It may lead again meanwhile, with other records at these offsets.
        return Error.NOT_LEADER_OR_FOLLOWER
    if partition.high_watermark < end_offset:
        return Error.REQUEST_TIMED_OUT
    if leader.lacks_maximal_replicas:
        # Written, but to fewer replicas than min.insync.replicas.
        return Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return Error.NONE


def _settled(partition: Partition, leader: Leader, end_offset: int) -> bool:
    return (
        partition.high_watermark >= end_offset
        or partition.leader is not leader
        or partition.log.has_failed
    )
