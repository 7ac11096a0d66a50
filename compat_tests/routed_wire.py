"""Raw requests to a cluster, each sent to the broker that must handle it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.codec.message import Request
from wirekafka.coordinator.java_hash import coordinator_partition
from wirekafka.coordinator.share_state.states import ShareKey, coordinator_key
from wirekafka.protocol.add_offsets_to_txn import AddOffsetsToTxnRequest
from wirekafka.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.describe_transactions import DescribeTransactionsRequest
from wirekafka.protocol.end_txn import EndTxnRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest
from wirekafka.replication.partition.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)

_KEY_TYPES = {OFFSETS_TOPIC: 0, TRANSACTIONS_TOPIC: 1, SHARE_STATE_TOPIC: 2}


class RoutedWire:
    """One connection per broker. New topics get the broker `leaders[i]` for partition i.

    Every topic that this creates has the same leaders; its coordinators are found in the
    metadata.
    """

    def __init__(self, addresses: Mapping[int, tuple[str, int]], leaders: list[int]):
        self._wires = {id: Wire(address) for id, address in addresses.items()}
        self._leaders = leaders
        self._any = self._wires[min(self._wires)]
        self._led: dict[str, dict[int, int]] = {}

    def ask(self, request: Request, version: int) -> Any:
        """The response of the broker that leads or coordinates what the request is about."""
        return self._wire_for(request).ask(self._placed(request), version)

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()

    def coordinator(self, topic: str, key: str) -> int:
        """The broker that coordinates a key, by the leaders of an internal topic."""
        led = self._leaders_of(topic)
        return led[coordinator_partition(key, len(led))]

    def name(self, transactions_at: int, groups_at: int) -> Callable[[str], str]:
        """Make names for which "x-NAME" and "g-NAME" are coordinated by these brokers."""

        def named(stem: str) -> str:
            return next(
                name
                for name in (f"{stem}-{number}" for number in range(10_000))
                if self.coordinator(TRANSACTIONS_TOPIC, f"x-{name}") == transactions_at
                and self.coordinator(OFFSETS_TOPIC, f"g-{name}") == groups_at
            )

        return named

    def share_group(self, at: int, topic_id: bytes) -> str:
        """A group whose share of partition 0 of a topic is coordinated by this broker."""
        return next(
            group
            for group in (f"s-{number}" for number in range(10_000))
            if self.coordinator(SHARE_STATE_TOPIC, coordinator_key(ShareKey(group, topic_id, 0)))
            == at
        )

    def _wire_for(self, request: Any) -> Wire:
        match request:
            case InitProducerIdRequest() | AddOffsetsToTxnRequest() | EndTxnRequest():
                if request.transactional_id is None:
                    return self._any
                return self._of(TRANSACTIONS_TOPIC, request.transactional_id)
            case AddPartitionsToTxnRequest():
                return self._of(TRANSACTIONS_TOPIC, request.v3_and_below_transactional_id)
            case DescribeTransactionsRequest():
                return self._of(TRANSACTIONS_TOPIC, request.transactional_ids[0])
            case TxnOffsetCommitRequest():
                return self._of(OFFSETS_TOPIC, request.group_id)
            case OffsetFetchRequest():
                return self._of(OFFSETS_TOPIC, request.groups[0].group_id)
            case ProduceRequest():
                return self._leader(request.topic_data[0].partition_data[0].index)
            case FetchRequest():
                return self._leader(request.topics[0].partitions[0].partition)
            case ListOffsetsRequest():
                return self._leader(request.topics[0].partitions[0].partition_index)
            case _:
                return self._any

    def _of(self, topic: str, key: str) -> Wire:
        return self._wires[self.coordinator(topic, key)]

    def _leader(self, partition: int) -> Wire:
        return self._wires[self._leaders[partition]]

    def _placed(self, request: Any) -> Any:
        if isinstance(request, CreateTopicsRequest):
            kind = CreateTopicsRequest.CreatableTopic
            for topic in request.topics:
                topic.num_partitions = topic.replication_factor = -1
                topic.assignments = [
                    kind.CreatableReplicaAssignment(partition_index=index, broker_ids=[leader])
                    for index, leader in enumerate(self._leaders)
                ]
        return request

    def _leaders_of(self, topic: str) -> dict[int, int]:
        """The leaders of an internal topic, which is created if it does not exist."""
        if topic not in self._led:
            request = FindCoordinatorRequest(
                key_type=_KEY_TYPES[topic], coordinator_keys=[f"any:{'A' * 22}:0"]
            )
            eventually(lambda: self._any.ask(request, 6).coordinators[0].error_code == 0)

            def led() -> dict[int, int]:
                topics = [MetadataRequest.Topic(name=topic)]
                [found] = self._any.ask(MetadataRequest(topics=topics), 12).topics
                leaders = {each.partition_index: each.leader_id for each in found.partitions}
                return leaders if all(id >= 0 for id in leaders.values()) else {}

            self._led[topic] = eventually(led)
        return self._led[topic]
