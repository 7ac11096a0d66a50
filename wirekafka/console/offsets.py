"""Offsets of many groups and partitions at once, without the unreadable ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from wirekafka.client.client import BrokerConnection, Client, CliError, check, list_offsets
from wirekafka.client.group_types import CLASSIC, TYPES
from wirekafka.client.membership import TopicPartition, fetch_offsets
from wirekafka.protocol.list_groups import ListGroupsRequest, ListGroupsResponse
from wirekafka.protocol.list_offsets import ListOffsetsResponse
from wirekafka.protocol.metadata import MetadataResponse
from wirekafka.protocol.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

EARLIEST, LATEST = -2, -1
_NAMED = 9
"""From version 10 on, OffsetFetch names topics by id."""
_SEVERAL = 8
"""From this version on, OffsetFetch takes several groups."""
_AT_ONCE = 100
_SHARE = "share"


class GroupListing(NamedTuple):
    """A group as ListGroups names it, and the broker that coordinates it."""

    name: str
    type: str
    state: str
    protocol: str
    coordinator: int


def list_groups(client: Client, brokers: Iterable[int]) -> tuple[list[GroupListing], list[str]]:
    """The groups of these brokers, and a sentence for each broker that did not list its own."""
    found, problems = [], []
    for broker in brokers:
        try:
            response = client.node(broker).send(ListGroupsRequest(), ListGroupsResponse)
            check(response.error_code, f"groups of broker {broker}")
        except CliError as error:
            problems.append(str(error))
            continue
        found += [
            GroupListing(
                each.group_id,
                # Brokers before 3.8 do not report a type: all their groups are classic.
                (each.group_type or CLASSIC).lower(),
                each.group_state,
                each.protocol_type,
                broker,
            )
            for each in response.groups
        ]
    return found, problems


def committed(
    client: Client, groups: Sequence[GroupListing], topic: str | None = None
) -> tuple[dict[str, dict[TopicPartition, int]], list[str]]:
    """The committed offsets by group and partition, and the failures.

    With `topic`, only offsets in this topic: groups may have tens of thousands of others.
    """
    found: dict[str, dict[TopicPartition, int]] = {}
    problems: list[str] = []
    by_coordinator: dict[int, list[str]] = {}
    for each in groups:
        if each.type == _SHARE:
            try:
                offsets = TYPES[_SHARE].offsets(client, each.name)
                found[each.name] = {
                    key: at.offset for key, at in offsets.items() if topic in (None, key[0])
                }
            except CliError as error:
                problems.append(str(error))
        else:
            by_coordinator.setdefault(each.coordinator, []).append(each.name)
    for coordinator, names in by_coordinator.items():
        try:
            for name, offsets_of in _fetched(client, client.node(coordinator), names, topic):
                found[name] = offsets_of
        except CliError as error:
            problems.append(str(error))
    return found, problems


def offsets_at(
    client: Client,
    topics: Iterable[MetadataResponse.Topic],
    timestamp: int,
    wanted: Iterable[TopicPartition] | None = None,
) -> dict[TopicPartition, int]:
    """The offset for a timestamp in each partition that has a leader and answers."""
    only = None if wanted is None else set(wanted)
    by_leader: dict[int, dict[str, list[int]]] = {}
    for topic in topics:
        for partition in topic.partitions:
            key = (topic.name or "", partition.partition_index)
            if partition.leader_id >= 0 and (only is None or key in only):
                indexes = by_leader.setdefault(partition.leader_id, {}).setdefault(key[0], [])
                indexes.append(partition.partition_index)
    found: dict[TopicPartition, int] = {}
    for leader, names in by_leader.items():
        try:
            request = list_offsets(names, timestamp)
            response = client.node(leader).send(request, ListOffsetsResponse)
        except CliError:
            continue
        found |= {
            (topic.name, each.partition_index): each.offset
            for topic in response.topics
            for each in topic.partitions
            if not each.error_code and each.offset >= 0
        }
    return found


def _fetched(
    client: Client, connection: BrokerConnection, names: Sequence[str], only: str | None
) -> Iterator[tuple[str, dict[TopicPartition, int]]]:
    if connection.version_of(OffsetFetchRequest) < _SEVERAL:
        for name in names:
            offsets = fetch_offsets(client, name, None)
            yield name, {key: at for key, at in offsets.items() if only in (None, key[0])}
        return
    kind = OffsetFetchRequest.Group
    for at in range(0, len(names), _AT_ONCE):
        request = OffsetFetchRequest(
            groups=[kind(group_id=name, topics=None) for name in names[at : at + _AT_ONCE]]
        )
        response = connection.send(request, OffsetFetchResponse, most=_NAMED)
        for group in response.groups:
            if not group.error_code:
                yield (
                    group.group_id,
                    {
                        (topic.name, each.partition_index): each.committed_offset
                        for topic in group.topics
                        if only in (None, topic.name)
                        for each in topic.partitions
                        if each.committed_offset >= 0 and not each.error_code
                    },
                )
