"""Transactions with partitions and coordinators on other brokers, which are simulated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.test_late_requests import FIRST, RawProducer
from tests.in_process import InProcessBroker, batch, now
from tests.manual_clock import ManualClock
from wirekafka.codec.message import Request
from wirekafka.coordinator.routing import TopicPartition
from wirekafka.coordinator.transactions.broker_queues import BrokerQueues, Queued
from wirekafka.coordinator.transactions.commands import ProducerIdentity
from wirekafka.coordinator.transactions.confirmation import Support, TransactionalWrite
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.protocol.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    PartitionResult,
    Topic,
    TopicResult,
)
from wirekafka.protocol.describe_transactions import DescribeTransactionsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.protocol.records.control import Marker, encode_marker
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest
from wirekafka.protocol.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from wirekafka.replication.partition.internal_topics import OFFSETS_TOPIC
from wirekafka.runtime.driver import start
from wirekafka.runtime.promise import Promise

OTHER = 2
HERE, THERE = ("t", 0), ("t", 1)


class OtherBrokers:
    """The other brokers; a request waits until the test responds to it."""

    request_timeout_ms = 30_000

    def __init__(self) -> None:
        self.requests: list[tuple[int, Request, Promise]] = []

    async def send(self, broker_id: int, client_id: str, request: Request) -> Any:
        promise = Response()
        self.requests.append((broker_id, request, promise))
        return await promise

    def respond(self, result: Any) -> None:
        """Respond to the oldest request, and run the tasks that waited for it.

        The result is an exception, or the errors by partition for each item of the request.
        """
        _, request, promise = self.requests.pop(0)
        promise.set(result if isinstance(result, Exception) else response_to(request, result))

    @property
    def items(self) -> Sequence[Any]:
        """The markers or transactions of the oldest request, which went to the other broker."""
        broker_id, request, _ = self.requests[0]
        assert broker_id == OTHER
        return items_of(request)


def items_of(request: Any) -> Sequence[Any]:
    is_of_markers = isinstance(request, WriteTxnMarkersRequest)
    return request.markers if is_of_markers else request.transactions


def response_to(request: Request, results: Sequence[dict[TopicPartition, Error]]) -> Any:
    """Make the response to a request, given the errors by partition for each of its items."""
    items = zip(items_of(request), results, strict=True)
    if isinstance(request, WriteTxnMarkersRequest):
        marker = WriteTxnMarkersResponse.WritableTxnMarkerResult
        written = marker.WritableTxnMarkerTopicResult
        partition = written.WritableTxnMarkerPartitionResult
        return WriteTxnMarkersResponse(markers=[
            marker(producer_id=each.producer_id, topics=[
                written(name=name, partitions=[
                    partition(partition_index=index, error_code=error)])
                for (name, index), error in errors.items()])
            for each, errors in items
        ])  # fmt: skip
    result = AddPartitionsToTxnResponse.Result
    return AddPartitionsToTxnResponse(results_by_transaction=[
        result(transactional_id=each.transactional_id, topic_results=[
            TopicResult(name=name, results_by_partition=[
                PartitionResult(partition_index=index, partition_error_code=error)])
            for (name, index), error in errors.items()])
        for each, errors in items
    ])  # fmt: skip


def partitions_of(item: Any) -> list[TopicPartition]:
    """Return the partitions of a marker or of a transaction."""
    return [
        (topic.name, index)
        for topic in item.topics
        for index in (topic.partitions if hasattr(topic, "partitions") else topic.partition_indexes)
    ]


class Response(Promise):
    """A promise that resumes its waiter at once, without an event loop."""

    __slots__ = ("_resume",)

    def __await__(self) -> Any:
        if not self.done:
            yield self
        return self.result()

    def add_done_callback(self, callback: Any) -> None:
        self._resume = callback

    def set(self, value: Any) -> None:
        super().set(value)
        self._resume(self)

    _asyncio_future_blocking = property(lambda self: True, lambda self, value: None)


class Cluster:
    """A broker whose metadata has another leader for the partitions in `there`."""

    def __init__(self, kafka: InProcessBroker):
        self.kafka = kafka
        self.others = OtherBrokers()
        self.there: dict[TopicPartition, int] = {}
        kafka.create("t", 2)
        for key_type in (0, 1):
            kafka.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), 4)
        routing, image = kafka.broker.routing, kafka.broker.image
        routing.links = self.others
        routing.leader_of = lambda topic, index: self.there.get(
            (topic, index), image.leader_of(topic, index)
        )

    def producer(self) -> RawProducer:
        """A producer of the first protocol, with both partitions in its transaction."""
        producer = RawProducer(self.kafka, "x")
        producer.versions = FIRST
        producer.start()
        producer.add_partitions()
        return producer

    def state(self) -> str:
        request = DescribeTransactionsRequest(transactional_ids=["x"])
        state: str = self.kafka.call(request, 0).transaction_states[0].transaction_state
        return state

    @property
    def coordinator_partition(self) -> TopicPartition:
        """The partition of the coordinator of "x"."""
        return "__transaction_state", self.kafka.broker.transactions.partition_for("x")


@pytest.fixture
def cluster(tmp_path: Path, manual_clock: ManualClock) -> Iterator[Cluster]:
    broker = InProcessBroker(
        tmp_path / "data",
        manual_clock,
        offsets_topic_num_partitions="1",
        transaction_state_log_num_partitions="1",
    )
    yield Cluster(broker)
    broker.stop()


# Markers


def test_markers_go_to_the_leader_of_each_partition(cluster: Cluster) -> None:
    producer = cluster.producer()
    cluster.there[THERE] = OTHER
    before = cluster.kafka.partition(*HERE).end_offset
    producer.end(commits=True)
    assert cluster.kafka.partition(*HERE).end_offset == before + 1
    [sent] = cluster.others.items
    assert partitions_of(sent) == [THERE] and sent.transaction_result
    assert (sent.producer_id, sent.producer_epoch) == producer.identity
    partition = cluster.kafka.partition(*cluster.coordinator_partition)
    assert sent.coordinator_epoch == partition.leader_epoch
    assert cluster.state() == "PrepareCommit"
    cluster.others.respond([{THERE: Error.NONE}])
    assert cluster.state() == "CompleteCommit"


@pytest.mark.parametrize(
    "response",
    [
        [{THERE: Error.NOT_LEADER_OR_FOLLOWER}],
        [{THERE: Error.UNKNOWN_TOPIC_OR_PARTITION}],
        [{THERE: Error.NOT_ENOUGH_REPLICAS}],
        [{THERE: Error.REQUEST_TIMED_OUT}],
        [{}],
        KafkaError(Error.NETWORK_EXCEPTION),
        RuntimeError("a bug"),
    ],
    ids=str,
)
def test_a_marker_that_was_not_written_is_sent_again(cluster: Cluster, response: Any) -> None:
    producer = cluster.producer()
    cluster.there[THERE] = OTHER
    producer.end(commits=False)
    cluster.others.respond(response)
    assert cluster.state() == "PrepareAbort" and not cluster.others.requests
    cluster.kafka.clock.advance(100)
    [sent] = cluster.others.items
    assert partitions_of(sent) == [THERE]
    cluster.others.respond([{THERE: Error.NONE}])
    cluster.kafka.clock.advance(1_000)
    assert cluster.state() == "CompleteAbort" and not cluster.others.requests


def test_a_marker_follows_the_leader_that_has_moved(cluster: Cluster) -> None:
    producer = cluster.producer()
    cluster.there[THERE] = OTHER
    producer.end(commits=True)
    del cluster.there[THERE]
    before = cluster.kafka.partition(*THERE).end_offset
    cluster.others.respond([{THERE: Error.NOT_LEADER_OR_FOLLOWER}])
    cluster.kafka.clock.advance(100)
    assert cluster.kafka.partition(*THERE).end_offset == before + 1
    assert cluster.state() == "CompleteCommit"


def test_a_marker_waits_for_a_leader(cluster: Cluster) -> None:
    producer = cluster.producer()
    cluster.there[THERE] = -1
    producer.end(commits=True)
    cluster.kafka.clock.advance(10_000)
    assert cluster.state() == "PrepareCommit"
    del cluster.there[THERE]
    cluster.kafka.clock.advance(100)
    assert cluster.state() == "CompleteCommit"


def test_a_deleted_partition_of_another_broker_needs_no_marker(cluster: Cluster) -> None:
    producer = cluster.producer()
    cluster.there[THERE] = OTHER
    producer.end(commits=True)
    cluster.others.respond(KafkaError(Error.BROKER_NOT_AVAILABLE))
    cluster.there.clear()
    now(cluster.kafka.broker.controller.submit(DeleteTopics([TopicReference(name="t")])))
    cluster.kafka.clock.advance(1_000)
    assert cluster.state() == "CompleteCommit"


def test_a_partition_without_a_local_log_does_not_count_as_deleted(cluster: Cluster) -> None:
    producer = cluster.producer()
    placed = cluster.kafka.broker.partitions.pop(THERE)
    producer.end(commits=True)
    cluster.kafka.clock.advance(1_000)
    assert cluster.state() == "PrepareCommit"
    cluster.kafka.broker.partitions[THERE] = placed
    cluster.kafka.clock.advance(100)
    assert cluster.state() == "CompleteCommit"


def test_a_fenced_coordinator_leaves_the_transaction_to_its_successor(cluster: Cluster) -> None:
    producer = cluster.producer()
    cluster.there[THERE] = OTHER
    producer.end(commits=True)
    cluster.others.respond([{THERE: Error.TRANSACTION_COORDINATOR_FENCED}])
    cluster.kafka.clock.advance(60_000)
    assert cluster.state() == "PrepareCommit" and not cluster.others.requests


def test_responses_to_an_earlier_term_complete_nothing(cluster: Cluster) -> None:
    producer = cluster.producer()
    cluster.there[THERE] = OTHER
    producer.end(commits=True)
    topic, index = cluster.coordinator_partition
    transactions = cluster.kafka.broker.transactions
    log = cluster.kafka.partition(topic, index)
    transactions.lead(index, log)
    cluster.kafka.clock.advance(0)
    end_offset = log.end_offset
    # The new term's marker waits behind the request of the earlier one.
    cluster.others.respond([{THERE: Error.NONE}])
    assert cluster.state() == "PrepareCommit" and log.end_offset == end_offset
    cluster.others.respond([{THERE: Error.NONE}])
    assert cluster.state() == "CompleteCommit"
    cluster.kafka.clock.advance(10_000)
    assert not cluster.others.requests


@pytest.mark.long
def test_a_decision_above_the_high_watermark_is_carried_out_once_it_is_committed(
    cluster: Cluster,
) -> None:
    producer = cluster.producer()
    cluster.there[THERE] = OTHER
    topic, index = cluster.coordinator_partition
    log = cluster.kafka.partition(topic, index)
    producer.end(commits=True)
    cluster.others.requests.clear()
    committed = log.high_watermark
    log.high_watermark = 0  # As on a new leader, before its followers' first fetches.
    cluster.kafka.broker.transactions.lead(index, log)
    cluster.kafka.clock.advance(1_000)
    assert not cluster.others.requests
    log.set_high_watermark(committed)
    cluster.kafka.clock.advance(1_000)
    assert cluster.state() == "PrepareCommit"


# Confirmations


def produce(cluster: Cluster, producer: RawProducer, version: int = 11) -> Any:
    """Send a transactional batch; returns the exchange."""
    producer_id, epoch = producer.identity
    records = batch(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True
    )
    kind = ProduceRequest.TopicProduceData
    part = kind.PartitionProduceData(index=0, records=records)
    return cluster.kafka.begin(
        ProduceRequest(transactional_id="x", acks=-1, timeout_ms=1_000,
                       topic_data=[kind(name="t", partition_data=[part])]), version)  # fmt: skip


CONFIRMATIONS: list[tuple[int, Any, Error]] = [
    (11, {HERE: Error.NONE}, Error.NONE),
    (12, {HERE: Error.NONE}, Error.NONE),
    (10, {HERE: Error.TRANSACTION_ABORTABLE}, Error.INVALID_TXN_STATE),
    (11, {HERE: Error.TRANSACTION_ABORTABLE}, Error.TRANSACTION_ABORTABLE),
    (11, {HERE: Error.PRODUCER_FENCED}, Error.INVALID_PRODUCER_EPOCH),
    (11, {HERE: Error.CONCURRENT_TRANSACTIONS}, Error.NOT_ENOUGH_REPLICAS),
    (11, {HERE: Error.NOT_COORDINATOR}, Error.NOT_ENOUGH_REPLICAS),
    (11, {HERE: Error.INVALID_PRODUCER_ID_MAPPING}, Error.INVALID_PRODUCER_ID_MAPPING),
    (11, KafkaError(Error.NETWORK_EXCEPTION), Error.NOT_ENOUGH_REPLICAS),
    (11, KafkaError(Error.REQUEST_TIMED_OUT), Error.NOT_ENOUGH_REPLICAS),
    (11, KafkaError(Error.BROKER_NOT_AVAILABLE), Error.NOT_ENOUGH_REPLICAS),
    (11, KafkaError(Error.CLUSTER_AUTHORIZATION_FAILED), Error.INVALID_TXN_STATE),
    (11, KafkaError(Error.UNSUPPORTED_VERSION), Error.NONE),
    (12, KafkaError(Error.UNSUPPORTED_VERSION), Error.UNSUPPORTED_VERSION),
]


def test_a_write_is_confirmed_by_a_coordinator_elsewhere(cluster: Cluster) -> None:
    cluster.there[cluster.coordinator_partition] = OTHER
    for version, response, expected in CONFIRMATIONS:
        found = asyncio.run(confirmed_elsewhere(cluster, version, response))
        assert found is expected, (version, response)


async def confirmed_elsewhere(cluster: Cluster, version: int, response: Any) -> Error:
    """The error for a write by a client of this version after a coordinator's response."""
    support = {10: Support.EXPLICIT, 11: Support.KNOWS_ABORTABLE, 12: Support.ADDS}[version]
    write = TransactionalWrite("x", ProducerIdentity(7, 0), frozenset({HERE}), support)
    confirmed = asyncio.create_task(cluster.kafka.broker.transactions.confirmations.confirm(write))
    await settled()
    [command] = cluster.others.items
    assert command.verify_only is (version < 12)
    assert partitions_of(command) == [HERE] and not confirmed.done()
    cluster.others.respond(response if isinstance(response, Exception) else [response])
    refused = await confirmed
    return refused[HERE].error if HERE in refused else Error.NONE


def test_a_produce_request_waits_for_the_end_of_the_last_transaction(cluster: Cluster) -> None:
    asyncio.run(ending_meanwhile(cluster))


async def ending_meanwhile(cluster: Cluster) -> None:
    producer = cluster.producer()
    cluster.there[cluster.coordinator_partition] = OTHER
    for attempts, expected in ((1, Error.NONE), (99, Error.CONCURRENT_TRANSACTIONS)):
        exchange = produce(cluster, producer, 12)
        for _ in range(attempts):
            cluster.others.respond([{HERE: Error.CONCURRENT_TRANSACTIONS}])
            await settled()
            cluster.kafka.clock.advance(20)
            await settled()
            if exchange.is_done:
                break
        else:
            cluster.others.respond([{HERE: Error.NONE}])
            await settled()
        [topic] = exchange.response.responses
        assert topic.partition_responses[0].error_code == expected
        if expected is Error.NONE:
            marker = encode_marker(
                *producer.identity, Marker(False, 0, cluster.kafka.clock.now_ms())
            )
            cluster.kafka.partition(*HERE).leading().append_marker(marker, 0)


async def settled() -> None:
    """Run the callbacks and tasks that are ready."""
    for _ in range(4):
        await asyncio.sleep(0)


def test_a_disabled_verification_sends_no_request(cluster: Cluster) -> None:
    producer = cluster.producer()
    cluster.there[cluster.coordinator_partition] = OTHER
    broker = cluster.kafka.broker
    broker.config = broker.config.with_dynamic(
        {"transaction.partition.verification.enable": "false"}, {}
    )
    exchange = produce(cluster, producer)
    assert exchange.response.responses[0].partition_responses[0].error_code == 0
    assert not cluster.others.requests


def test_a_newer_request_replaces_one_that_waits(cluster: Cluster) -> None:
    asyncio.run(replaced(cluster))


async def replaced(cluster: Cluster) -> None:
    transactions = cluster.kafka.broker.transactions
    cluster.there[cluster.coordinator_partition] = OTHER
    results: dict[str, Error] = {}

    async def confirm(name: str, epoch: int) -> None:
        write = TransactionalWrite("x", ProducerIdentity(7, epoch), frozenset({HERE}), Support.ADDS)
        refused = await transactions.confirmations.confirm(write)
        results[name] = refused[HERE].error if refused else Error.NONE

    start(confirm("sent", 1))
    start(confirm("waiting", 1))
    start(confirm("again", 1))
    await settled()
    assert results == {"waiting": Error.NOT_ENOUGH_REPLICAS}, "as for a lost connection"
    start(confirm("older", 0))
    assert results.pop("older") is Error.INVALID_PRODUCER_EPOCH
    start(confirm("newer", 2))
    await settled()
    assert results.pop("again") is Error.INVALID_PRODUCER_EPOCH
    cluster.others.respond([{HERE: Error.NONE}])
    [command] = cluster.others.items
    assert command.producer_epoch == 2
    cluster.others.respond([{HERE: Error.NONE}])
    await settled()
    assert results == dict.fromkeys(("sent", "newer"), Error.NONE) | {
        "waiting": Error.NOT_ENOUGH_REPLICAS
    }


# Transactional offset commits


def commit_offset(cluster: Cluster, producer: RawProducer) -> Any:
    kind = TxnOffsetCommitRequest.Topic
    topic = kind(name="t", partitions=[kind.Partition(partition_index=0, committed_offset=5)])
    return cluster.kafka.begin(
        TxnOffsetCommitRequest(
            transactional_id="x", group_id="x", producer_id=producer.identity[0],
            producer_epoch=producer.identity[1], topics=[topic],
        ), 4)  # fmt: skip


def offset_error(response: Any) -> Error:
    return Error(response.topics[0].partitions[0].error_code)


def test_a_group_that_is_coordinated_elsewhere_takes_no_offsets(cluster: Cluster) -> None:
    producer = cluster.producer()
    groups = cluster.kafka.broker.groups
    groups.resign(groups.partition_for("x"))
    assert offset_error(commit_offset(cluster, producer).response) is Error.NOT_COORDINATOR


def test_a_marker_that_overtakes_the_confirmation_refuses_the_offsets(cluster: Cluster) -> None:
    asyncio.run(overtaken(cluster))


async def overtaken(cluster: Cluster) -> None:
    producer = cluster.producer()
    cluster.there[cluster.coordinator_partition] = OTHER
    groups = OFFSETS_TOPIC, cluster.kafka.broker.groups.partition_for("x")
    exchange = commit_offset(cluster, producer)
    assert not exchange.is_done
    marker = encode_marker(*producer.identity, Marker(False, 0, cluster.kafka.clock.now_ms()))
    cluster.kafka.partition(*groups).leading().append_marker(marker, 0)
    cluster.others.respond([{groups: Error.NONE}])
    await exchange.settled()
    assert offset_error(exchange.response) is Error.INVALID_TXN_STATE
    exchange = commit_offset(cluster, producer)
    cluster.others.respond([{groups: Error.NONE}])
    await exchange.settled()
    assert offset_error(exchange.response) is Error.NONE


# Verification at the coordinator


def verified(cluster: Cluster, producer: RawProducer, *partitions: int) -> dict[int, Error]:
    kind = AddPartitionsToTxnRequest.Transaction
    response = cluster.kafka.call(
        AddPartitionsToTxnRequest(transactions=[
            kind(transactional_id="x", producer_id=producer.identity[0],
                 producer_epoch=producer.identity[1], verify_only=True,
                 topics=[Topic(name="t", partitions=list(partitions))])]),
        5,
    )  # fmt: skip
    return {
        each.partition_index: Error(each.partition_error_code)
        for each in response.results_by_transaction[0].topic_results[0].results_by_partition
    }


def test_nothing_is_verified_if_a_partition_does_not_exist(cluster: Cluster) -> None:
    producer = cluster.producer()
    assert verified(cluster, producer, 0, 1) == {0: Error.NONE, 1: Error.NONE}
    assert verified(cluster, producer, 0, 9) == {
        0: Error.OPERATION_NOT_ATTEMPTED,
        9: Error.UNKNOWN_TOPIC_OR_PARTITION,
    }


# Queues


def test_items_that_wait_for_a_broker_share_the_next_request() -> None:
    sent: list[tuple[int, Sequence[str], Response]] = []
    results: list[object] = []

    async def send(broker_id: int, items: Sequence[str]) -> Any:
        sent.append((broker_id, items, Response()))
        return await sent[-1][2]

    queues: BrokerQueues[str, str] = BrokerQueues(send)
    for broker_id, item in ((1, "a"), (1, "b"), (1, "c"), (2, "d")):
        queues.add(broker_id, Queued(item, results.append))
    assert [(broker_id, items) for broker_id, items, _ in sent] == [(1, ["a"]), (2, ["d"])]
    failure = KafkaError(Error.NETWORK_EXCEPTION)
    sent[0][2].set(failure)
    assert results == [failure] and sent[2][:2] == (1, ["b", "c"])
    sent[2][2].set(["B", "C"])
    sent[1][2].set(["D"])
    assert results == [failure, "B", "C", "D"]
    queues.add(1, Queued("e", results.append))
    assert sent[3][:2] == (1, ["e"])
