"""Delivers transaction markers to the leaders of partitions, on this and on other brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from wirekafka.coordinator.routing import Routing, TopicPartition
from wirekafka.coordinator.transactions.broker_queues import BrokerQueues, Queued
from wirekafka.coordinator.transactions.markers import Ending, MarkerWriter
from wirekafka.coordinator.transactions.wire import MarkerBatch, PartitionErrors, write_markers
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.partition.replica import NO_LEADER


class Recipient(Protocol):
    """Receives the outcome of a delivery: once per partition, in any number of calls."""

    def delivered(self, errors: PartitionErrors) -> None:
        """Note the outcome for some partitions.

        NONE means that the marker is committed, or that the partition no longer exists. Errors are
        the errors of WriteTxnMarkers, and LEADER_NOT_AVAILABLE.
        """

    def failed(self, partitions: Iterable[TopicPartition], error: Exception) -> None:
        """Note that writing the markers of some partitions raised an unexpected error."""


class MarkerDelivery:
    """Delivers markers to the current leaders of their partitions.

    One request per broker is in flight at a time; it has all markers that wait for that broker.
    """

    def __init__(self, writer: MarkerWriter, routing: Routing):
        self._writer = writer
        self._routing = routing
        self._queues: BrokerQueues[MarkerBatch, PartitionErrors] = BrokerQueues(
            partial(write_markers, routing)
        )

    def deliver(
        self, ending: Ending, partitions: Iterable[TopicPartition], recipient: Recipient
    ) -> None:
        """Deliver a marker to each partition; partitions of one leader keep their order."""
        settled: dict[TopicPartition, Error] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for where in partitions:
            leader = self._routing.leader_of(*where)
            if leader is None:
                settled[where] = Error.NONE
            elif leader == NO_LEADER:
                settled[where] = Error.LEADER_NOT_AVAILABLE
            else:
                by_leader.setdefault(leader, []).append(where)
        for leader, led in by_leader.items():
            if leader == self._routing.node_id:
                self._append(ending, led, recipient)
            else:
                self._queues.add(
                    leader, Queued(MarkerBatch(ending, led), partial(_pass_on, recipient, led))
                )
        if settled or not by_leader:
            recipient.delivered(settled)

    def _append(
        self, ending: Ending, partitions: Sequence[TopicPartition], recipient: Recipient
    ) -> None:
        """Append markers to partitions led by this broker, and report them once committed."""
        try:
            errors = self._writer.write(ending, partitions)
        except Exception as error:
            recipient.failed(partitions, error)
            return
        refused = {where: error for where, error in errors.items() if error is not Error.NONE}
        written = [where for where in partitions if where not in refused]

        def settle(lost: frozenset[TopicPartition]) -> None:
            recipient.delivered(
                {
                    where: Error.NOT_LEADER_OR_FOLLOWER if where in lost else Error.NONE
                    for where in written
                }
            )

        if refused:
            recipient.delivered(refused)
        if written:
            self._writer.when_settled(written, settle)


def _pass_on(
    recipient: Recipient, partitions: Sequence[TopicPartition], result: PartitionErrors | KafkaError
) -> None:
    """Report the response of a broker, or the failure of the request, for all these partitions."""
    if isinstance(result, KafkaError):
        recipient.delivered(dict.fromkeys(partitions, result.error))
        return
    errors: Mapping[TopicPartition, Error] = result
    # A response that omits a partition says nothing about its marker.
    recipient.delivered(
        {where: errors.get(where, Error.UNKNOWN_SERVER_ERROR) for where in partitions}
    )
