"""Transactions and their producers: open transactions, and hanging transactions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from wirekafka.client.client import BrokerConnection, Client, CliError, check, only
from wirekafka.errors import Error, error_name
from wirekafka.protocol.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from wirekafka.protocol.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from wirekafka.protocol.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from wirekafka.protocol.metadata import MetadataResponse
from wirekafka.protocol.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

ACTIVE = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""The states in which a transaction has not ended."""
MOST_DESCRIBED = 2_000
_AT_ONCE = 500
_NOBODY = -1

TopicPartition: TypeAlias = tuple[str, int]


class NotFound(CliError):
    """There is no such transactional id."""


@dataclass(slots=True)
class TransactionRow:
    """A transaction as its coordinator knows it; -1 for unknown values."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int
    producer_epoch: int = -1
    start_ms: int = -1
    timeout_ms: int = -1
    partitions: list[TopicPartition] = field(default_factory=list)
    error: str = ""

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    def is_overdue(self, now_ms: int) -> bool:
        """Whether the transaction lasts longer than its timeout, after which it is aborted."""
        return self.is_active and 0 < self.start_ms + self.timeout_ms < now_ms


@dataclass(slots=True)
class Transactions:
    """The transactions of a cluster, the oldest first."""

    listed: list[TransactionRow] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    """Why some coordinators could not be asked, by their node ids."""
    undescribed: int = 0
    """How many transactions have no start time here, since there are too many."""


@dataclass(slots=True)
class OpenProducer:
    """An active producer of a partition, at the partition's leader."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    start_offset: int
    """The first offset of the producer's open transaction in this partition; -1 for none."""
    transaction: TransactionRow | None = None
    """The transaction of its transactional id, if a coordinator knows one."""

    @property
    def is_open(self) -> bool:
        return self.start_offset >= 0

    @property
    def is_hanging(self) -> bool:
        """Whether the transaction is open here although no coordinator will ever end it."""
        if not self.is_open:
            return False
        found = self.transaction
        return found is None or not found.is_active or self.partition not in found.partitions


@dataclass(slots=True)
class HangingTransactions:
    """The result of a search for hanging transactions."""

    producers: list[OpenProducer] = field(default_factory=list)
    leaderless: list[TopicPartition] = field(default_factory=list)
    """Partitions without a leader, in which nothing could be looked for."""


def list_transactions(client: Client, *, ended: bool = False) -> Transactions:
    """The transactions of all coordinators; with `ended`, completed transactions too."""
    found = Transactions()
    states = [] if ended else list(ACTIVE)
    for node, listed in _listed(
        client, ListTransactionsRequest(state_filters=states), found.failed
    ):
        room = max(0, MOST_DESCRIBED - len(found.listed))
        found.undescribed += max(0, len(listed) - room)
        described(client.node(node), listed[:room])
        found.listed += listed[:room]
        found.listed += listed[room:]
    found.listed.sort(key=lambda each: (each.start_ms < 0, each.start_ms, each.transactional_id))
    return found


def describe_transaction(client: Client, transactional_id: str) -> TransactionRow:
    """One transaction, as its coordinator knows it. Raises CliError."""
    coordinator = client.transaction_coordinator(transactional_id)
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    response = coordinator.send(request, DescribeTransactionsResponse)
    state = only(response.transaction_states, f"transactional id {transactional_id}")
    if state.error_code == Error.TRANSACTIONAL_ID_NOT_FOUND:
        raise NotFound(f"There is no transactional id {transactional_id}.")
    check(state.error_code, f"transactional id {transactional_id}")
    found = TransactionRow(transactional_id, "", -1, -1)
    _fill(found, state)
    return found


def producers(client: Client, topic: str, partitions: Iterable[int] = ()) -> list[OpenProducer]:
    """The active producers of some partitions of a topic, or of all. Raises CliError.

    An open producer has its transaction, if a coordinator knows it.
    """
    shape = only(client.topics([topic]), f"topic {topic}")
    wanted = set(partitions)
    if missing := wanted - {each.partition_index for each in shape.partitions}:
        raise CliError(f"topic {topic} has no partition {', '.join(map(str, sorted(missing)))}")
    found: list[OpenProducer] = []
    for leader, led in _by_leader([shape], wanted).items():
        if leader == _NOBODY:
            continue
        found += _examined(client, leader, led)
    found.sort(key=lambda each: (not each.is_open, each.partition, each.producer_id))
    return found


def find_hanging(client: Client, topics: Sequence[str] | None = None) -> HangingTransactions:
    """The hanging transactions in some topics, or in all, sorted by partition. Raises CliError."""
    by_leader = _by_leader(client.topics(topics))
    found = HangingTransactions()
    for topic, indexes in by_leader.pop(_NOBODY, {}).items():
        found.leaderless += [(topic, index) for index in sorted(indexes)]
    for leader, led in by_leader.items():
        found.producers += [each for each in _examined(client, leader, led) if each.is_hanging]
    found.producers.sort(key=lambda each: (each.partition, each.producer_id))
    return found


def abort(client: Client, partition: TopicPartition, producer_id: int, start_offset: int) -> None:
    """End a hanging transaction in one partition by an abort marker, as Kafka's tool does.

    Raises CliError if the producer has no such transaction there, or a coordinator knows it.
    """
    topic, index = partition
    found = next(
        (
            each
            for each in producers(client, topic, [index])
            if (each.producer_id, each.start_offset) == (producer_id, start_offset)
        ),
        None,
    )
    where = f"{topic}-{index}"
    if found is None or not found.is_open:
        raise CliError(f"{where}: no open transaction of producer {producer_id}")
    if not found.is_hanging and found.transaction is not None:
        name = found.transaction.transactional_id
        raise CliError(
            f"{where}: the transaction of {name} is not hanging; its coordinator ends it"
        )
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    request = WriteTxnMarkersRequest(
        markers=[
            marker(
                producer_id=producer_id,
                producer_epoch=found.producer_epoch,
                transaction_result=False,
                coordinator_epoch=max(0, found.coordinator_epoch),
                topics=[marker.WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
            )
        ]
    )
    shape = only(client.metadata([topic]).topics, f"topic {topic}")
    leaders = [each.leader_id for each in shape.partitions if each.partition_index == index]
    node = client.node(only(leaders, where))
    written = only(node.send(request, WriteTxnMarkersResponse).markers, where)
    answered = only(only(written.topics, where).partitions, where)
    check(answered.error_code, where)


def coordinated(
    connection: BrokerConnection, node: int, request: ListTransactionsRequest
) -> list[TransactionRow]:
    """The transactions that one broker coordinates, without times and partitions. CliError."""
    response = connection.send(request, ListTransactionsResponse)
    check(response.error_code, f"broker {node}")
    # Its class is named like the coordinator's states, for which type checkers take it.
    states: Sequence[Any] = response.transaction_states
    return [
        TransactionRow(each.transactional_id, each.transaction_state, each.producer_id, node)
        for each in states
    ]


def described(connection: BrokerConnection, listed: Iterable[TransactionRow]) -> None:
    """Complete transactions by what their coordinator answers, or set their errors. CliError."""
    left = iter(listed)
    while some := list(islice(left, _AT_ONCE)):
        by_id = {each.transactional_id: each for each in some}
        request = DescribeTransactionsRequest(transactional_ids=list(by_id))
        response = connection.send(request, DescribeTransactionsResponse)
        for state in response.transaction_states:
            found = by_id.get(state.transactional_id)
            if found is not None:
                _fill(found, state)


def _listed(
    client: Client, request: ListTransactionsRequest, failed: dict[int, str]
) -> Iterator[tuple[int, list[TransactionRow]]]:
    """The transactions of each coordinator; an unreachable broker gets an entry in `failed`."""
    for broker in client.metadata([]).brokers:
        node = broker.node_id
        try:
            listed = coordinated(client.node(node), node, request)
        except CliError as error:
            failed[node] = str(error)
            continue
        yield node, listed


def _fill(found: TransactionRow, state: DescribeTransactionsResponse.TransactionState) -> None:
    if state.error_code:
        found.error = error_name(state.error_code)
        return
    found.state = state.transaction_state
    found.producer_id, found.producer_epoch = state.producer_id, state.producer_epoch
    found.start_ms, found.timeout_ms = state.transaction_start_time_ms, state.transaction_timeout_ms
    found.partitions = sorted(
        (topic.topic, index) for topic in state.topics for index in topic.partitions
    )


def _by_leader(
    shapes: Iterable[MetadataResponse.Topic], wanted: Collection[int] = ()
) -> dict[int, dict[str, list[int]]]:
    """The partitions of topics, all or the wanted, by leader and topic; _NOBODY for no leader."""
    found: dict[int, dict[str, list[int]]] = {}
    for shape in shapes:
        for each in shape.partitions:
            if not wanted or each.partition_index in wanted:
                led = found.setdefault(max(_NOBODY, each.leader_id), {})
                led.setdefault(shape.name or "", []).append(each.partition_index)
    return found


def _examined(client: Client, leader: int, led: Mapping[str, list[int]]) -> list[OpenProducer]:
    """The active producers of a leader's partitions; an open producer has its transaction."""
    found = list(_producers_at(client, leader, led))
    _find_transactions(client, [each for each in found if each.is_open])
    hanging: dict[str, set[int]] = {}
    for each in found:
        if each.is_hanging:
            hanging.setdefault(each.partition[0], set()).add(each.partition[1])
    again = {topic: sorted(indexes) for topic, indexes in hanging.items()}
    _confirm(found, list(_producers_at(client, leader, again)))
    return found


def _producers_at(
    client: Client, leader: int, led: Mapping[str, list[int]]
) -> Iterator[OpenProducer]:
    if not led:
        return
    kind = DescribeProducersRequest.TopicRequest
    wanted = [kind(name=name, partition_indexes=indexes) for name, indexes in led.items()]
    response = client.node(leader).send(
        DescribeProducersRequest(topics=wanted), DescribeProducersResponse
    )
    for topic in response.topics:
        for found in topic.partitions:
            partition = (topic.name, found.partition_index)
            check(found.error_code, f"{topic.name}-{found.partition_index}", found.error_message)
            for each in found.active_producers:
                yield OpenProducer(
                    partition,
                    each.producer_id,
                    each.producer_epoch,
                    each.coordinator_epoch,
                    each.last_sequence,
                    each.last_timestamp,
                    each.current_txn_start_offset,
                )


def _confirm(found: list[OpenProducer], afterwards: list[OpenProducer]) -> None:
    """Close the producers whose transactions have ended between the two requests.

    A coordinator adds a partition before the first record, and forgets it after the marker: a
    transaction that it does not know, and that was open before and after asking it, is hanging.
    """
    still = {(each.partition, each.producer_id, each.start_offset) for each in afterwards}
    for each in found:
        key = (each.partition, each.producer_id, each.start_offset)
        if each.is_hanging and key not in still:
            each.start_offset = -1


def _find_transactions(client: Client, opened: list[OpenProducer]) -> None:
    """Set the transactions of producers. Raises CliError where a coordinator cannot be asked."""
    if not opened:
        return
    failed: dict[int, str] = {}
    ids = sorted({each.producer_id for each in opened})
    by_producer: dict[int, TransactionRow] = {}
    request = ListTransactionsRequest(producer_id_filters=ids)
    for node, listed in _listed(client, request, failed):
        described(client.node(node), listed)
        by_producer |= {each.producer_id: each for each in listed}
    if failed:
        raise CliError("; ".join(failed.values()))
    for each in opened:
        each.transaction = by_producer.get(each.producer_id)
