"""Apache Kafka over the wire beside our coordinator of streams groups in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compat_tests.consumer_pair import BothBrokers, Difference
from tests.eventually import eventually
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.protocol.add_offsets_to_txn import AddOffsetsToTxnRequest
from wirekafka.protocol.describe_transactions import DescribeTransactionsRequest
from wirekafka.protocol.end_txn import EndTxnRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeResponse
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest
from wirekafka.runtime.machine import Producer

_GROUP_RESOURCE = 32
_SET = 0
_TRANSACTION = 1
_ADDS_PARTITIONS = 5
"""The TxnOffsetCommit version that needs no AddOffsetsToTxn."""


class BothStreams(BothBrokers):
    """The two brokers; our metadata gets the internal topics that Kafka creates."""

    def __init__(self, address: tuple[str, int], data: Path, **settings: Any):
        super().__init__(address, data, **settings)
        self._created: set[str] = set()
        self._producers: dict[str, Producer] = {}

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, version: int, *, commits: bool
    ) -> None:
        """Send both the offsets of a transaction, which then ends.

        Kafka's transaction coordinator decides about it; ours gets the end marker only.
        """
        transactional_id = request.transactional_id
        producer = self._producers.get(transactional_id) or self._begin(transactional_id)
        request.producer_id, request.producer_epoch = producer
        identity = {"transactional_id": transactional_id, "producer_id": producer.id}
        identity["producer_epoch"] = producer.epoch
        if version < _ADDS_PARTITIONS:
            added = AddOffsetsToTxnRequest(**identity, group_id=request.group_id)
            assert not self._exchange(added, 4).error_code
        self.ask(request, version)
        ended = self._exchange(EndTxnRequest(**identity, committed=commits), 5)
        if ended.error_code == Error.INVALID_TXN_STATE:
            return  # The transaction is empty, as of an unknown topic.
        assert not ended.error_code, ended
        self._producers[transactional_id] = Producer(ended.producer_id, ended.producer_epoch)
        eventually(lambda: self._is_over(transactional_id), timeout_s=30)
        self.keep_time()
        groups = self.ours.groups
        groups.end_transaction(groups.partition_for(request.group_id), producer, commits)

    def _begin(self, transactional_id: str) -> Producer:
        find = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[transactional_id])
        init = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=60_000
        )
        eventually(lambda: not self._exchange(find, 4).coordinators[0].error_code, timeout_s=30)
        answer = eventually(
            lambda: (begun := self._exchange(init, 5)).error_code == 0 and begun, timeout_s=30
        )
        return Producer(answer.producer_id, answer.producer_epoch)

    def _is_over(self, transactional_id: str) -> bool:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        [found] = self._exchange(request, 0).transaction_states
        return found.transaction_state in ("CompleteCommit", "CompleteAbort")

    def configure_group(self, group_id: str, configs: dict[str, str]) -> None:
        """Set options of a group in Kafka."""
        kind = IncrementalAlterConfigsRequest.AlterConfigsResource
        answer = self._exchange(
            IncrementalAlterConfigsRequest(
                resources=[
                    kind(
                        resource_type=_GROUP_RESOURCE,
                        resource_name=group_id,
                        configs=[
                            kind.AlterableConfig(name=name, config_operation=_SET, value=value)
                            for name, value in configs.items()
                        ],
                    )
                ],
                validate_only=False,
            ),
            1,
        )
        assert not answer.responses[0].error_code, answer

    def ask(self, request: Request, version: int) -> Any:
        """Kafka's response; raises Difference if ours is not equal.

        Kafka lists the endpoints' active partitions in an order that differs from run to run. Its
        descriptions have the partitions of internal topics from the next write of any group on.
        """
        try:
            return super().ask(request, version)
        except Difference:
            asked = self.asked[-1]
            if asked.request is not request:
                raise
            if not _is_same(asked.kafkas, asked.ours):
                raise
            return asked.kafkas
        finally:
            self._follow_creations()

    def _follow_creations(self) -> None:
        wanted = self.ours.auto_creation.topics
        new = {
            name: topic.num_partitions
            for name, topic in wanted.items()
            if name not in self._created and name not in self._ids
        }
        wanted.clear()
        if new:
            self._created |= new.keys()
            self._follow(new)


def _is_same(kafkas: Any, ours: Any) -> bool:
    for answer in (kafkas, ours):
        if isinstance(answer, StreamsGroupDescribeResponse):
            _forget_partitions(answer)
            continue
        if not isinstance(answer, StreamsGroupHeartbeatResponse):
            return False
        for entry in answer.partitions_by_user_endpoint or ():
            for partitions in (entry.active_partitions, entry.standby_partitions):
                partitions.sort(key=lambda each: (each.topic, each.partitions))
    return bool(kafkas == ours)


def _forget_partitions(answer: StreamsGroupDescribeResponse) -> None:
    for group in answer.groups:
        for subtopology in group.topology.subtopologies if group.topology else ():
            for topic in (
                *subtopology.state_changelog_topics,
                *subtopology.repartition_source_topics,
            ):
                topic.partitions = 0
                topic.topic_configs.sort(key=lambda config: config.key)
