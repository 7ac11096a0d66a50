"""Checks of groups: rebalances that do not end, and unread records that are or will be deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from shlex import quote

from wirekafka.doctor.cluster.facts import (
    ClusterFacts,
    GroupFacts,
    PartitionFacts,
    TopicFacts,
    TopicPartition,
)
from wirekafka.doctor.finding import Finding, Severity, duration, listed

_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
DUE_SHARE = 0.25
"""The last part of retention.ms, in which unread records are reported before they are deleted."""
_NEARLY = 0.9
"""The part of retention.bytes from which a log is about to lose its oldest segments."""


def check_groups(facts: ClusterFacts) -> Iterator[Finding]:
    """Find groups that make no progress, or that lose records."""
    partitions = {(each.topic, each.index): each for each in facts.partitions()}
    for group in facts.groups:
        if group.state in _REBALANCING:
            yield _rebalancing(group)
        known = {key: partitions[key] for key in group.offsets if key in partitions}
        yield from _outside(group, known)
        yield from _without_members(group, known)
        yield from _deleted_soon(group, known, facts.topics)


def _rebalancing(group: GroupFacts) -> Finding:
    return Finding(
        check="group-rebalancing",
        severity=Severity.ERROR,
        subject=f"group {group.name}",
        problem=f"it stays in {group.state}: nothing is read meanwhile",
        advice="A member does not rejoin: `wirekafka groups describe --members` names them."
        " Restart that member; its time for a batch of records exceeds max.poll.interval.ms, or"
        " it hangs.",
        passing=True,
    )


def _outside(
    group: GroupFacts, known: Mapping[TopicPartition, PartitionFacts]
) -> Iterator[Finding]:
    lost: dict[str, int] = {}
    above: dict[str, int] = {}
    for key, partition in known.items():
        offset = group.offsets[key]
        if 0 <= offset < partition.start_offset:
            lost[partition.name] = partition.start_offset - offset
        elif 0 <= partition.end_offset < offset:
            above[partition.name] = offset - partition.end_offset
    if lost:
        yield Finding(
            check="offset-below-start",
            severity=Severity.ERROR,
            subject=f"group {group.name}",
            problem=f"{sum(lost.values())} records were deleted before it read them, in"
            f" {listed(lost)}: its committed offsets are below the log start",
            advice="Raise retention of the topics, or read faster. The group continues by its"
            " auto.offset.reset; `wirekafka groups reset-offsets --to earliest` decides it now.",
        )
    if above:
        yield Finding(
            check="offset-above-end",
            severity=Severity.ERROR,
            subject=f"group {group.name}",
            problem=f"its committed offsets are up to {max(above.values())} above the log end, in"
            f" {listed(above)}: the topic was made again, or records were lost",
            advice="Find out which of both; then `wirekafka groups reset-offsets` with --to"
            " earliest or --to latest: without it new records below these offsets may be skipped.",
            passing=True,
        )


def _without_members(
    group: GroupFacts, known: Mapping[TopicPartition, PartitionFacts]
) -> Iterator[Finding]:
    lag = sum(max(_end(each) - group.offsets[key], 0) for key, each in known.items())
    if group.state == "Empty" and lag:
        yield Finding(
            check="group-without-members",
            severity=Severity.WARNING,
            subject=f"group {group.name}",
            problem=f"it has no members, and {lag} records are unread",
            advice="Start its consumers; or if nobody needs the group,"
            f" `wirekafka groups delete {quote(group.name)}`.",
        )


def _deleted_soon(
    group: GroupFacts,
    known: Mapping[TopicPartition, PartitionFacts],
    topics: Mapping[str, TopicFacts],
) -> Iterator[Finding]:
    by_time: dict[str, int] = {}
    by_size: dict[str, int] = {}
    spans: list[int] = []
    for key, partition in known.items():
        topic, offset = topics[key[0]], group.offsets[key]
        if not topic.is_deleted_by_retention or offset >= partition.end_offset:
            continue
        unread = max(offset, partition.start_offset)
        if unread < partition.due_offset:
            by_time[partition.name] = partition.due_offset - unread
            spans.append(topic.number("retention.ms") or 0)
        if (count := _due_by_size(partition, topic, unread)) > 0:
            by_size[partition.name] = count
    for found, why in (
        (by_time, f"within {duration(max(spans, default=0) * DUE_SHARE)} by retention.ms"),
        (by_size, "soon by retention.bytes (an estimate from sizes)"),
    ):
        if found:
            yield Finding(
                check="unread-records-expire",
                severity=Severity.ERROR,
                subject=f"group {group.name}: {listed(found)}",
                problem=f"{sum(found.values())} unread records are deleted {why}",
                advice="Raise retention.ms or retention.bytes of the topic now, with"
                " `wirekafka topics alter`, and let the group catch up.",
            )


def _end(partition: PartitionFacts) -> int:
    """The end for readers of committed records, who wait for open transactions."""
    has_stable = partition.stable_offset >= 0
    return partition.stable_offset if has_stable else partition.end_offset


def _due_by_size(partition: PartitionFacts, topic: TopicFacts, unread: int) -> int:
    """How many unread records lie in the oldest tenth of a log that has reached its size."""
    limit, size = topic.number("retention.bytes"), partition.size_bytes
    count = partition.end_offset - partition.start_offset
    if limit is None or limit <= 0 or count <= 0 or size < _NEARLY * limit:
        return 0
    kept = min(_NEARLY * limit / size, 1.0)
    return int(partition.end_offset - kept * count) - unread
