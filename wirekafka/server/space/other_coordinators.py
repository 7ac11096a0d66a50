"""Committed offsets of groups that other brokers coordinate, requested from these."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias
from zlib import crc32

from wirekafka.broker import Broker
from wirekafka.codec.message import Request
from wirekafka.coordinator.java_hash import coordinator_partition
from wirekafka.coordinator.routing import TopicPartition
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.describe_cluster import DescribeClusterRequest
from wirekafka.protocol.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest
from wirekafka.replication.partition.internal_topics import OFFSETS_TOPIC
from wirekafka.security.acl import DESCRIBE

_CLIENT_ID = "wirekafka-disk-space"
_SHARE = "share"
_GROUPS = 20
"""How many groups a request is about, as long as it is not known how many offsets they have."""
_MOST_GROUPS = 500
_OFFSETS = 1_000
"""How many offsets a response should have: it is decoded in a few milliseconds."""
_TOPICS = 500
_UNREADABLE = -1
"""The start offset of a share partition whose state could not be read, or does not exist yet."""
_GONE = (Error.NONE, Error.GROUP_ID_NOT_FOUND)
Positions: TypeAlias = dict[TopicPartition, dict[str, int]]
"""The committed offset of each group, by partition; -1 if all of it may be unread."""


class OtherCoordinators:
    """Requests the offsets that groups of other brokers have committed in some partitions.

    All is complete, or an error is raised: groups that this broker may not see are an error too.
    """

    def __init__(self, broker: Broker):
        self._broker = broker

    async def read(
        self, broker_ids: Collection[int], keys: Collection[TopicPartition]
    ) -> Positions:
        """The positions in these partitions of the groups of these brokers. Raises KafkaError."""
        found: Positions = {}
        if not keys:
            return found
        for broker_id in broker_ids:
            await self._check_sees_all(broker_id)
            await self._check_has_all(broker_id, sorted({topic for topic, _ in keys}))
            response = await self._send(broker_id, ListGroupsRequest())
            _check(response.error_code)
            share = [each.group_id for each in response.groups if each.group_type == _SHARE]
            others = [each.group_id for each in response.groups if each.group_type != _SHARE]
            at, size = 0, _GROUPS
            while at < len(others):
                offsets = await self._read_committed(broker_id, others[at : at + size], found)
                at += size
                size = min(max(size * _OFFSETS // max(offsets, 1), 1), _MOST_GROUPS)
            for group_ids in _parts(share):
                await self._read_share(broker_id, group_ids, found)
        return found

    async def _check_sees_all(self, broker_id: int) -> None:
        """ListGroups leaves out groups that the client may not see, unless it sees the cluster."""
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = await self._send(broker_id, request)
        _check(response.error_code)
        if not response.cluster_authorized_operations >> DESCRIBE & 1:
            raise KafkaError(
                Error.CLUSTER_AUTHORIZATION_FAILED,
                f"broker {broker_id} does not let this broker describe the cluster and its groups",
            )

    async def _check_has_all(self, broker_id: int, names: Sequence[str]) -> None:
        """Check what responses leave out without an error.

        ListGroups leaves out groups of partitions that the broker does not know to lead yet, or
        cannot load; offsets of all topics leave out topics that this broker may not describe.
        """
        topics, kind = self._broker.image.topics, OffsetFetchRequest.Group
        if OFFSETS_TOPIC not in topics:
            return
        offsets = topics[OFFSETS_TOPIC].partitions
        nobody = _groups_of_nobody(len(offsets))
        own = [nobody[index] for index, each in offsets.items() if each.leader == broker_id]
        for group_ids in _parts(own):
            await self._read_committed(broker_id, group_ids, {})
        places = [
            kind.Topics(name=name, topic_id=topics[name].id, partition_indexes=[0])
            for name in names
            if name in topics
        ]
        for at in range(0, len(places) if own else 0, _TOPICS):
            group = kind(group_id=own[0], topics=places[at : at + _TOPICS])
            for answer in (await self._send(broker_id, OffsetFetchRequest(groups=[group]))).groups:
                _check(answer.error_code)
                for topic in answer.topics:
                    for each in topic.partitions:
                        _check(each.error_code)

    async def _read_committed(
        self, broker_id: int, group_ids: Collection[str], found: Positions
    ) -> int:
        """Add the offsets of these groups; returns how many there were."""
        kind = OffsetFetchRequest.Group
        groups = [kind(group_id=each, topics=None) for each in group_ids]
        response = await self._send(broker_id, OffsetFetchRequest(groups=groups))
        answered = set()
        offsets = 0
        for group in response.groups:
            answered.add(group.group_id)
            _check(group.error_code)
            for topic in group.topics:
                name = topic.name or self._name_of(topic.topic_id)
                offsets += len(topic.partitions)
                for each in topic.partitions:
                    _check(each.error_code)
                    if each.committed_offset >= 0:
                        places = found.setdefault((name, each.partition_index), {})
                        places[group.group_id] = each.committed_offset
        if answered != set(group_ids):
            raise KafkaError(Error.UNKNOWN_SERVER_ERROR, "The response omits a group")
        return offsets

    async def _read_share(
        self, broker_id: int, group_ids: Collection[str], found: Positions
    ) -> None:
        kind = DescribeShareGroupOffsetsRequest.Group
        groups = [kind(group_id=each, topics=None) for each in group_ids]
        request = DescribeShareGroupOffsetsRequest(groups=groups)
        for group in (await self._send(broker_id, request)).groups:
            _check(group.error_code)
            for topic in group.topics:
                for each in topic.partitions:
                    failed = each.error_code not in _GONE
                    offset = _UNREADABLE if failed else each.start_offset
                    places = found.setdefault((topic.topic_name, each.partition_index), {})
                    places[group.group_id] = offset

    def _name_of(self, topic_id: bytes) -> str:
        topic = self._broker.image.topics_by_id.get(topic_id)
        return "" if topic is None else topic.name

    async def _send(self, broker_id: int, request: Request) -> Any:
        return await self._broker.routing.links.send(broker_id, _CLIENT_ID, request)


@lru_cache(maxsize=1)
def _groups_of_nobody(count: int) -> Mapping[int, str]:
    """For each of so many partitions a group id that it would coordinate."""
    found: dict[int, str] = {}
    for number in range(1_000 * count):
        group_id = f"{_CLIENT_ID}-{crc32(b'%d' % number):08x}"
        found.setdefault(coordinator_partition(group_id, count), group_id)
        if len(found) == count:
            break
    return found


def _parts(group_ids: list[str]) -> list[list[str]]:
    return [group_ids[at : at + _GROUPS] for at in range(0, len(group_ids), _GROUPS)]


def _check(error_code: int) -> None:
    if error_code not in _GONE:
        raise KafkaError(Error.of(error_code))
