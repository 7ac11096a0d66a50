"""Everything clients can see of a broker, as plain data, to compare two brokers."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from compat_tests.committed import committed_offsets
from compat_tests.reading import read_to_end
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.describe_transactions import DescribeTransactionsRequest
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.list_transactions import ListTransactionsRequest
from wirekafka.protocol.metadata import MetadataRequest

START_MS = int(time.time() * 1000) - 3_600_000
"""The time of the first timestamped record: in the past, but within retention."""


def view(bootstrap: str) -> dict[str, Any]:
    """Topics with ids, configs and every record; groups with offsets; transactions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wire = Wire.to(bootstrap)
    answer = wire.ask(MetadataRequest(topics=None), 12)
    partitions = _partitions(
        bootstrap,
        [
            (topic.name, each.partition_index)
            for topic in answer.topics
            if not topic.is_internal
            for each in topic.partitions
        ],
    )
    topics = {
        topic.name: {
            "id": topic.topic_id.hex(),
            "configs": _configs(admin, topic.name),
            "partitions": {
                index: seen for (name, index), seen in partitions.items() if name == topic.name
            },
        }
        for topic in answer.topics
        if not topic.is_internal
    }
    seen = {
        "cluster": answer.cluster_id,
        "topics": topics,
        "groups": _groups(bootstrap, admin),
        "consumer groups": eventually(lambda: _consumer_groups(wire)),
        "transactions": eventually(lambda: _transactions(wire)),
    }
    wire.close()
    return seen


def _configs(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(30)
    return {entry.name: entry.value for entry in found.values() if entry.source == 1}


def _partitions(bootstrap: str, places: list[tuple[str, int]]) -> dict[Any, dict[str, Any]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "visible-state"})
    starts = []
    seen: dict[Any, dict[str, Any]] = {}
    for topic, index in places:
        low, high = _watermarks(consumer, TopicPartition(topic, index))
        starts.append(TopicPartition(topic, index, low))
        at_time = consumer.offsets_for_times([TopicPartition(topic, index, START_MS + 50)], 30)
        seen[topic, index] = {"low": low, "high": high, "at a time": at_time[0].offset}
    consumer.close()
    for isolation in ("read_committed", "read_uncommitted"):
        for each in seen.values():
            each[isolation] = []
        for message in read_to_end(bootstrap, starts, isolation):
            seen[message.topic(), message.partition()][isolation].append(
                (
                    message.offset(),
                    message.timestamp(),
                    message.key(),
                    message.value(),
                    message.headers(),
                )
            )
    return seen


def _watermarks(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    """The offsets, once the partition has a leader: Kafka accepts connections before it leads."""
    found: tuple[int, int] = eventually(lambda: consumer.get_watermark_offsets(place, timeout=30))
    return found


def _groups(bootstrap: str, admin: AdminClient) -> dict[str, Any]:
    listed = admin.list_consumer_groups().result(30).valid
    groups = {}
    for group in sorted(each.group_id for each in listed if each.group_id != "visible-state"):
        described = admin.describe_consumer_groups([group])[group].result(30)
        groups[group] = (described.state.name, sorted(committed_offsets(bootstrap, group).items()))
    return groups


def _consumer_groups(wire: Wire) -> list[Any] | None:
    """Groups with server-side assignment: members, epochs, assignments and targets."""
    listed = wire.ask(ListGroupsRequest(states_filter=[], types_filter=["consumer"]), 5)
    if listed.error_code:
        return None
    ids = sorted(each.group_id for each in listed.groups)
    described = wire.ask(ConsumerGroupDescribeRequest(group_ids=ids), 1)
    if any(each.error_code for each in described.groups):
        return None
    for group in described.groups:
        group.members.sort(key=lambda member: member.member_id)
    return [str(each) for each in described.groups] or [()]


def _transactions(wire: Wire) -> list[tuple[Any, ...]] | None:
    listed = wire.ask(ListTransactionsRequest(), 0)
    if listed.error_code:
        return None
    ids = sorted(each.transactional_id for each in listed.transaction_states)
    answer = wire.ask(DescribeTransactionsRequest(transactional_ids=ids), 0)
    if any(each.error_code for each in answer.transaction_states):
        return None
    return [
        (
            each.transactional_id,
            each.transaction_state,
            each.producer_id,
            each.producer_epoch,
            sorted((topic.topic, tuple(sorted(topic.partitions))) for topic in each.topics),
        )
        for each in answer.transaction_states
    ] or [()]
