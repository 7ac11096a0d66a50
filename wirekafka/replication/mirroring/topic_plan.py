"""Decides which topics of a source are mirrored, from the topics of both clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from wirekafka.log.checkpoints import uuid_text

NO_ID = bytes(16)
_NO_ID_TEXT = "-"

Key = tuple[str, int]
"""A topic's name and a partition index."""


class SourcePartition(NamedTuple):
    """A partition's leader at the source; -1 for none, and for an unknown leader epoch."""

    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A topic of the source. Its id, 16 bytes, is zero where the source has none."""

    name: str
    id: bytes
    partitions: Mapping[int, SourcePartition]


@dataclass(frozen=True, slots=True)
class SourceView:
    """What the source's metadata says: its cluster id, and the topics that the mirror may see."""

    cluster_id: str
    topics: Mapping[str, SourceTopic]


@dataclass(frozen=True, slots=True)
class LocalTopic:
    """A topic of this cluster: the origin of a mirror, empty for others, and its leader epochs."""

    name: str
    origin: str
    is_promoted: bool
    leader_epochs: Mapping[int, int]


@dataclass(slots=True)
class TopicPlan:
    """The changes that make this cluster's topics mirrors of the source's."""

    create: list[SourceTopic] = field(default_factory=list)
    grow: dict[str, int] = field(default_factory=dict)
    """The new number of partitions, by topic."""
    epochs: dict[Key, int] = field(default_factory=dict)
    """The least leader epoch of partitions whose present epoch is below it."""
    follow: dict[Key, SourcePartition] = field(default_factory=dict)
    """The partitions to fetch, as far as they exist here."""
    refused: dict[str, str] = field(default_factory=dict)
    """Why a topic is not copied, by topic."""
    promoted: list[str] = field(default_factory=list)
    is_over: bool = False
    """Whether all mirrored topics are promoted: no further topics are mirrored."""


def origin_of(cluster_id: str, topic_id: bytes) -> str:
    """The text that notes in a mirrored topic's configuration what it is copied from."""
    return f"{cluster_id}/{_NO_ID_TEXT if topic_id == NO_ID else uuid_text(topic_id)}"


def topic_plan(
    source: SourceView, local: Mapping[str, LocalTopic], is_wanted: Callable[[str], bool]
) -> TopicPlan:
    """Compare the topics whose names are wanted; nothing of a topic that differs is touched."""
    plan = TopicPlan()
    mirrors = [topic for topic in local.values() if topic.origin and is_wanted(topic.name)]
    plan.promoted = sorted(topic.name for topic in mirrors if topic.is_promoted)
    plan.is_over = bool(mirrors) and len(plan.promoted) == len(mirrors)
    for mirror in mirrors:
        if mirror.name not in source.topics and not mirror.is_promoted:
            plan.refused[mirror.name] = "the source has no such topic, or hides it"
    if plan.is_over:
        return plan
    for name, topic in sorted(source.topics.items()):
        if not is_wanted(name):
            continue
        known = local.get(name)
        if known is None:
            plan.create.append(topic)
        elif not known.is_promoted:
            _compare(topic, known, source.cluster_id, plan)
    return plan


def _compare(topic: SourceTopic, known: LocalTopic, cluster_id: str, plan: TopicPlan) -> None:
    name = topic.name
    reason = _difference(topic, known, cluster_id)
    if reason is not None:
        plan.refused[name] = reason
        return
    count = len(known.leader_epochs)
    if len(topic.partitions) > count:
        plan.grow[name] = len(topic.partitions)
    for index, partition in topic.partitions.items():
        # Above all epochs of the source's batches: clients ignore metadata with an older epoch
        # than they have seen in a batch.
        least = partition.leader_epoch + 1
        if known.leader_epochs.get(index, 0) < least:
            plan.epochs[name, index] = least
        if index < count:
            plan.follow[name, index] = partition


def _difference(topic: SourceTopic, known: LocalTopic, cluster_id: str) -> str | None:
    """Why a topic cannot be copied into the topic of the same name here; None if it can."""
    if not known.origin:
        return "this cluster has a topic of this name that is no mirror"
    of_cluster, _, of_topic = known.origin.rpartition("/")
    if of_cluster != cluster_id:
        return f"it is a mirror of cluster {of_cluster}, but the source is cluster {cluster_id}"
    has_ids = topic.id != NO_ID and of_topic != _NO_ID_TEXT
    if has_ids and of_topic != uuid_text(topic.id):
        return (
            "the source has deleted the topic and created it again; the copy of the old topic is"
            " kept: delete it here to mirror the new topic, or promote it"
        )
    if len(topic.partitions) < len(known.leader_epochs):
        return "the source's topic has fewer partitions"
    return None
