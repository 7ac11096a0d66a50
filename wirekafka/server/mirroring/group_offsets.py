"""Committed offsets of the source's groups, copied for consumers that move over."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from wirekafka.broker import Broker
from wirekafka.coordinator.groups.commands import CommitOffsets, FetchAllOffsets, OffsetToCommit
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.list_groups import ListGroupsRequest
from wirekafka.protocol.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from wirekafka.regex import Regex
from wirekafka.replication.mirroring.topic_plan import Key, TopicPlan
from wirekafka.replication.partition.internal_topics import OFFSETS_TOPIC
from wirekafka.server.mirroring.source_cluster import SourceCluster

logger = logging.getLogger(__name__)

_ONE_GROUP = 7
"""The newest version of OffsetFetch that asks for one group."""
_OUTSIDE = -1
"""The generation of a commit by no member."""
_ABSENT = frozenset({Error.GROUP_ID_NOT_FOUND, Error.NOT_COORDINATOR})


class GroupOffsets:
    """Copies the offsets of groups that have no members here.

    An offset here is never lowered, and never set beyond the end of the copy: as MirrorMaker does
    it. Offsets of topics that are not mirrored are left out.
    """

    def __init__(self, broker: Broker, source: SourceCluster, pattern: Regex):
        self._broker, self._source, self._pattern = broker, source, pattern
        self._copied: dict[str, dict[Key, OffsetToCommit]] = {}
        """What was committed here last, by group."""
        self.errors: dict[str, str] = {}
        """Why offsets of a group are not copied."""

    async def copy(self, plan: TopicPlan) -> None:
        """Copy what has changed. Raises KafkaError if the source does not answer."""
        if not plan.follow:
            return
        groups: set[str] = set()
        for response in await self._source.send_to_each(ListGroupsRequest()):
            groups.update(each.group_id for each in response.groups)
        wanted = sorted(each for each in groups if each and self._pattern.matches(each))
        for known in (self._copied, self.errors):
            for gone in known.keys() - set(wanted):
                del known[gone]
        if wanted:
            await self._broker.ensure_internal_topic(OFFSETS_TOPIC)
        for group_id in wanted:
            try:
                await self._copy_one(group_id, plan)
            except KafkaError as error:
                if self.errors.get(group_id) != str(error):
                    logger.warning("Offsets of group %s are not mirrored: %s", group_id, error)
                    self.errors[group_id] = str(error)
            else:
                self.errors.pop(group_id, None)

    async def _copy_one(self, group_id: str, plan: TopicPlan) -> None:
        coordinator = await self._source.coordinator(group_id)
        request = OffsetFetchRequest(group_id=group_id, topics=None)
        response = await self._source.send(coordinator, request, most=_ONE_GROUP)
        if response.error_code:
            raise KafkaError.of(response.error_code)
        offsets = self._mirrored(response, plan)
        known = self._copied.get(group_id, {})
        changed = {key: each for key, each in offsets.items() if known.get(key) != each}
        if not changed:
            return
        present = await self._present(group_id)
        raised = [each for key, each in changed.items() if each.offset > present.get(key, -1)]
        if raised:
            command = CommitOffsets(group_id, _OUTSIDE, "", raised)
            for error in await self._broker.groups.submit(group_id, command):
                if error:
                    raise KafkaError(error, "the group has members here")
        self._copied[group_id] = offsets

    def _mirrored(
        self, response: OffsetFetchResponse, plan: TopicPlan
    ) -> dict[Key, OffsetToCommit]:
        """The offsets in mirrored partitions, bounded by the ends of the copies."""
        found = {}
        for key, each in _partitions(response.topics):
            partition = self._broker.partitions.get(key)
            if key not in plan.follow or partition is None or partition.mirror is None:
                continue
            offset = min(each.committed_offset, partition.high_watermark)
            if each.committed_offset >= 0 and offset >= 0:
                found[key] = OffsetToCommit(
                    *key,
                    offset,
                    each.committed_leader_epoch if offset == each.committed_offset else -1,
                    each.metadata or "",
                    partition.topic_id,
                )
        return found

    async def _present(self, group_id: str) -> dict[Key, int]:
        """The offsets that the group has here."""
        try:
            found = await self._broker.groups.submit(group_id, FetchAllOffsets(group_id))
        except KafkaError as error:
            if error.error in _ABSENT:
                return {}
            raise
        return {(each.topic, each.partition): each.offset for each in found}


def _partitions(
    topics: Iterable[OffsetFetchResponse.Topic],
) -> Iterable[tuple[Key, OffsetFetchResponse.Topic.Partition]]:
    for topic in topics:
        for each in topic.partitions:
            if not each.error_code:
                yield (topic.name, each.partition_index), each
