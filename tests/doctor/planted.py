"""Faults that are planted in any broker through its own APIs, for wirekafka and Apache Kafka.

Each function plants one fault in a new topic or group, and returns the check that is to find it
with a text of its subject.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tests.eventually import eventually
from wirekafka.client.client import Client, check
from wirekafka.client.configurations import BROKER, TOPIC, alter_configs
from wirekafka.client.membership import commit_offsets, fetch_offsets
from wirekafka.client.producer import IdempotentProducer
from wirekafka.client.topic_changes import TopicCreation, create_topics
from wirekafka.client.transactions import TransactionalProducer
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.protocol.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from wirekafka.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wirekafka.protocol.join_group import JoinGroupRequest, JoinGroupResponse
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse

RECORDS = 20
RECORD_BYTES = 1000
_HOUR_MS = 3_600_000
_VERIFICATION = "transaction.partition.verification.enable"
_NOT_ADDED_BY_LEADER = 11
"""The last version of Produce that leaves it to the client to add a partition to a transaction."""


class Planted(NamedTuple):
    """The check that is to find a fault, a part of its subject, and a part of its advice."""

    check: str
    subject: str
    advice: str


def too_high_min_isr(client: Client) -> Planted:
    topic_with(client, "narrow", {"min.insync.replicas": "2"})
    return Planted("min-isr-above-replicas", "topic narrow", "min.insync.replicas=1")


def no_retention(client: Client) -> Planted:
    topic_with(client, "shredder", {"retention.ms": "0"})
    return Planted("short-retention", "topic shredder", "retention.ms=604800000")


def unclean_elections(client: Client) -> Planted:
    topic_with(client, "unclean", {"unclean.leader.election.enable": "true"})
    return Planted("unclean-elections", "topic unclean", "unclean.leader.election.enable=false")


def deleted_offsets(client: Client) -> Planted:
    """The topic of committed offsets is deleted by retention."""
    topic_with(client, "read")
    committed(client, "reader", "read", 0)
    alter_configs(client, TOPIC, "__consumer_offsets", {"cleanup.policy": "delete"})
    return Planted(
        "internal-topic-not-compacted", "topic __consumer_offsets", "cleanup.policy=compact"
    )


def records_of_the_future(client: Client) -> Planted:
    configs = {"message.timestamp.after.max.ms": str(1 << 60)}
    topic_with(client, "future", configs)
    written(client, "future", at_ms=now_ms() + 48 * _HOUR_MS)
    return Planted("future-timestamps", "topic future", "unit of timestamps")


def deleted_unread_records(client: Client) -> Planted:
    topic_with(client, "truncated")
    written(client, "truncated")
    committed(client, "late", "truncated", 3)
    kind = DeleteRecordsRequest.Topic
    partition = kind.Partition(partition_index=0, offset=RECORDS - 5)
    leader = client.topic("truncated").partitions[0].leader_id
    response = client.node(leader).send(
        DeleteRecordsRequest(
            topics=[kind(name="truncated", partitions=[partition])], timeout_ms=10_000
        ),
        DeleteRecordsResponse,
    )
    check(response.topics[0].partitions[0].error_code, "truncated")
    return Planted("offset-below-start", "group late", "--to earliest")


def offsets_above_the_end(client: Client) -> Planted:
    topic_with(client, "short")
    committed(client, "ahead", "short", 1000)
    return Planted("offset-above-end", "group ahead", "reset-offsets")


def group_without_members(client: Client) -> Planted:
    topic_with(client, "unread")
    written(client, "unread")
    committed(client, "gone", "unread", 5)
    return Planted("group-without-members", "group gone", "wirekafka groups delete gone")


def unread_records_near_retention(client: Client) -> Planted:
    topic_with(client, "aging", {"retention.ms": str(100 * _HOUR_MS)})
    written(client, "aging", at_ms=now_ms() - 90 * _HOUR_MS)
    committed(client, "slow", "aging", 4)
    return Planted("unread-records-expire", "group slow: aging-0", "Raise retention.ms")


def unread_records_near_retention_bytes(client: Client) -> Planted:
    configs = {"retention.bytes": str(RECORDS * RECORD_BYTES * 21 // 20)}
    topic_with(client, "filling", configs)
    for _ in range(RECORDS):
        written(client, "filling", count=1)
    committed(client, "heavy", "filling", 0)
    return Planted("unread-records-expire", "group heavy: filling-0", "retention.bytes")


def rebalance_that_does_not_end(client: Client) -> Planted:
    """The only member never sends the assignment for which the group waits."""
    kind = JoinGroupRequest.Protocol
    request = JoinGroupRequest(
        group_id="stuck",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[kind(name="range", metadata=b"")],
    )
    coordinator = client.coordinator("stuck")
    eventually(lambda: not coordinator.send(request, JoinGroupResponse, most=3).error_code)
    return Planted("group-rebalancing", "group stuck", "max.poll.interval.ms")


def hanging_transaction(client: Client) -> Planted:
    """A transactional write without its coordinator, as old clients and brokers made them."""
    topic_with(client, "hung")
    leader = client.topic("hung").partitions[0].leader_id
    alter_configs(client, BROKER, "", {_VERIFICATION: "false"})
    coordinator = client.transaction_coordinator("hanging")
    request = InitProducerIdRequest(transactional_id="hanging", transaction_timeout_ms=60_000)

    def begun() -> InitProducerIdResponse | None:
        response = coordinator.send(request, InitProducerIdResponse)
        return None if response.error_code else response

    identity = eventually(begun, every_s=0.02)
    assert identity is not None
    batch = encode_batch(
        [Record(0, now_ms(), None, b"open", ())],
        options=BatchOptions(
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        ),
    )
    kind = ProduceRequest.TopicProduceData
    data = kind.PartitionProduceData(index=0, records=batch)

    def produced() -> int:
        response = client.node(leader).send(
            ProduceRequest(
                transactional_id="hanging",
                acks=-1,
                timeout_ms=10_000,
                topic_data=[kind(name="hung", partition_data=[data])],
            ),
            ProduceResponse,
            most=_NOT_ADDED_BY_LEADER,
        )
        return int(response.responses[0].partition_responses[0].error_code)

    eventually(lambda: not produced(), every_s=0.05)  # Until the broker has the new option.
    return Planted("hanging-transaction", "hung-0, producer id", "--start-offset 0")


def ordinary_state(client: Client) -> None:
    """What is no fault: a transaction that is open, and a group that has read up to it."""
    topic_with(client, "ordinary")
    written(client, "ordinary")
    producer = TransactionalProducer(client, "ordinary")
    producer.init()
    producer.send("ordinary", 0, [Record(value=b"a")])
    producer.commit()
    producer.send("ordinary", 0, [Record(value=b"b")])
    # A record and a marker of the first transaction follow the records before.
    committed(client, "done", "ordinary", RECORDS + 2)


ON_ONE_BROKER: tuple[Callable[[Client], Planted], ...] = (
    too_high_min_isr,
    no_retention,
    unclean_elections,
    deleted_offsets,
    records_of_the_future,
    deleted_unread_records,
    offsets_above_the_end,
    group_without_members,
    unread_records_near_retention,
    unread_records_near_retention_bytes,
    rebalance_that_does_not_end,
    hanging_transaction,
)


def topic_with(client: Client, name: str, configs: Mapping[str, str] | None = None) -> None:
    """A new topic of one partition."""
    new = TopicCreation(partitions=1, replication_factor=1, configs=configs or {})
    [made] = create_topics(client, [name], new)
    check(made.error_code, f"topic {name}", made.message)
    eventually(lambda: client.topic(name), every_s=0.02)


def written(client: Client, topic: str, *, at_ms: int = 0, count: int = RECORDS) -> None:
    """Write records of equal size in one batch, with one timestamp."""
    producer = IdempotentProducer(client)
    producer.init()
    record = Record(0, at_ms or now_ms(), None, bytes(RECORD_BYTES), ())
    producer.send(topic, 0, [record] * count)


def committed(client: Client, group: str, topic: str, offset: int) -> None:
    """Commit an offset of a group that has no members."""
    eventually(lambda: not commit_offsets(client, group, {(topic, 0): offset}), every_s=0.02)
    assert fetch_offsets(client, group, None)[topic, 0] == offset


def now_ms() -> int:
    return time.time_ns() // 1_000_000
