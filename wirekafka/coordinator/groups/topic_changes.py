"""The changes of topics that concern a shard of groups, as commands of a few groups each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from wirekafka.coordinator.groups.commands import ForgetPartitions, TopicsChanged
from wirekafka.coordinator.groups.shard import GroupShard
from wirekafka.coordinator.groups.share.commands import ForgetShareTopics
from wirekafka.coordinator.groups.share.group import ShareGroup
from wirekafka.coordinator.topic_changes import Pieces

_GROUPS_PER_PIECE = 100


def deleted(partitions: Mapping[str, frozenset[int]]) -> Pieces:
    """Delete the offsets committed for deleted partitions, given by topic."""

    def pieces(shard: Callable[[], GroupShard]) -> Iterator[ForgetPartitions]:
        for group_ids in _portions(shard().offsets.group_ids()):
            while shard().offsets.has_any_of(group_ids, partitions):
                yield ForgetPartitions(partitions, group_ids)

    return pieces


def gone(topic_ids: frozenset[bytes]) -> Pieces:
    """Forget the stored states of share partitions of deleted topics."""

    def pieces(shard: Callable[[], GroupShard]) -> Iterator[ForgetShareTopics]:
        groups = shard().groups
        for group_id in [id for id in groups if isinstance(groups[id], ShareGroup)]:
            yield ForgetShareTopics(group_id, topic_ids)

    return pieces


def changed(topics: frozenset[str]) -> Pieces:
    """Notify groups that topics of these names were created, deleted or extended."""

    def pieces(shard: Callable[[], GroupShard]) -> Iterator[TopicsChanged]:
        concerned = [
            group_id for group_id, group in shard().groups.items() if group.is_affected_by(topics)
        ]
        for group_ids in _portions(concerned):
            yield TopicsChanged(topics, group_ids)

    return pieces


def _portions(group_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(group_ids), _GROUPS_PER_PIECE):
        yield group_ids[start : start + _GROUPS_PER_PIECE]
