"""The stored offsets of share groups, from which their lag follows (KIP-1226)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

from wirekafka.broker import Broker
from wirekafka.coordinator.groups.shard import GroupShard
from wirekafka.coordinator.groups.share.groups import NO_LAG
from wirekafka.errors import KafkaError

SHARE = "share"
_END = Callable[[tuple[str, int]], int | None]


class ShareProgress(NamedTuple):
    """The progress of a share group in a partition."""

    start_offset: int
    """The start offset of the share partition: all records below it are settled."""
    position: int
    """As far from the end as there are records to deliver; some after the start are delivered."""


class ShareOffsets:
    """The progress of the share groups that this broker coordinates, as last read.

    The states come from the share coordinators, which can be on other brokers.
    """

    def __init__(self, broker: Broker, end: _END):
        """`end` returns the high watermark of a partition, or None."""
        self._broker = broker
        self._end = end
        self.known: dict[tuple[str, str, int], ShareProgress] = {}
        """By group, topic and partition."""

    async def read(self) -> None:
        """Read the states of all share groups again."""
        found: dict[tuple[str, str, int], ShareProgress] = {}
        for group_id in self._group_ids():
            try:
                found.update(await self._of(group_id))
            except KafkaError:  # A coordinator is moving: the next reading will have it.
                before = self.known.items()
                found.update((key, progress) for key, progress in before if key[0] == group_id)
        self.known = found

    def _group_ids(self) -> list[str]:
        return [
            group.group_id
            for machine in self._broker.groups.machines()
            for group in list(cast(GroupShard, machine).groups.values())
            if group.type_name == SHARE
        ]

    async def _of(self, group_id: str) -> dict[tuple[str, str, int], ShareProgress]:
        groups, topics = self._broker.share_groups, self._broker.image.topics_by_id
        partitions = await groups.initialized(group_id)
        found = {}
        for id, offsets in (await groups.describe_offsets(group_id, partitions)).items():
            for offset in offsets:
                topic = topics.get(id)
                if topic is None or offset.lag == NO_LAG:
                    continue
                end_offset = self._end((topic.name, offset.partition))
                if end_offset is not None:
                    key = group_id, topic.name, offset.partition
                    found[key] = ShareProgress(offset.start_offset, end_offset - offset.lag)
        return found
