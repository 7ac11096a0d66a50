"""The high watermarks of partitions, from which the lag of share groups is computed (KIP-1226)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from wirekafka.coordinator.groups.share.leader_requests import latest_offsets
from wirekafka.coordinator.routing import Routing, TopicPartition
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.partition.replica import NO_LEADER
from wirekafka.runtime.driver import start
from wirekafka.runtime.promise import Promise


class Led(Protocol):
    """A partition with a replica on this broker."""

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition."""

    @property
    def high_watermark(self) -> int:
        """The offset up to which records are committed."""


class LatestOffsets:
    """Finds high watermarks: at once of partitions led here, else at their leaders.

    `partition` returns a partition of this broker, by topic name and index, or raises `KafkaError`.
    """

    def __init__(self, partition: Callable[[str, int], Led], routing: Routing):
        self._partition = partition
        self._routing = routing

    async def of(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int | KafkaError]:
        """The high watermark of each partition, or why it is not known."""
        found: dict[TopicPartition, int | KafkaError] = {}
        elsewhere: dict[int, list[TopicPartition]] = {}
        for where in partitions:
            leader_id = self._routing.leader_of(*where)
            if leader_id == NO_LEADER:
                found[where] = KafkaError(Error.LEADER_NOT_AVAILABLE)
            elif leader_id is None or leader_id == self._routing.node_id:
                found[where] = self._here(where)
            else:
                elsewhere.setdefault(leader_id, []).append(where)
        # All requests are sent before the first response is awaited.
        requests: list[Promise[dict[TopicPartition, int | KafkaError]]] = [
            Promise() for _ in elsewhere
        ]
        for (leader_id, wanted), request in zip(elsewhere.items(), requests, strict=True):
            start(self._request(leader_id, wanted, request))
        for request in requests:
            found.update(await request)
        return found

    def _here(self, where: TopicPartition) -> int | KafkaError:
        try:
            partition = self._partition(*where)
        except KafkaError as error:
            return error
        if not partition.is_leader:
            return KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        return partition.high_watermark

    async def _request(
        self,
        leader_id: int,
        wanted: list[TopicPartition],
        request: Promise[dict[TopicPartition, int | KafkaError]],
    ) -> None:
        unknown = KafkaError(Error.UNKNOWN_SERVER_ERROR, "The response omits the partition")
        try:
            offsets = await latest_offsets(self._routing, leader_id, wanted)
            request.set({where: offsets.get(where, unknown) for where in wanted})
        except KafkaError as error:
            request.set(dict.fromkeys(wanted, error))
