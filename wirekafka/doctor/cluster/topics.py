"""Checks of topics: options with surprising effects, and records that retention never deletes."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from wirekafka.doctor.cluster.facts import ClusterFacts, TopicFacts
from wirekafka.doctor.finding import Finding, Severity, duration, listed

_KEPT_IN = {"__consumer_offsets": "committed offsets", "__transaction_state": "transactions"}
"""What internal topics keep, which only compaction may clean."""
_FUTURE_MS = 3_600_000
_SHORT_MS = 60_000


def check_topics(facts: ClusterFacts) -> Iterator[Finding]:
    """Find options of topics by which records are lost, or never deleted."""
    for topic in facts.topics.values():
        yield from _cleanup_policy(topic)
        yield from _unclean(topic)
        yield from _short_retention(topic)
        yield from _future(topic, facts.now_ms)


def _cleanup_policy(topic: TopicFacts) -> Iterator[Finding]:
    policy = topic.configs.get("cleanup.policy")
    if policy is None or topic.name not in _KEPT_IN or policy == "compact":
        return
    yield Finding(
        check="internal-topic-not-compacted",
        severity=Severity.ERROR,
        subject=f"topic {topic.name}",
        problem=f"cleanup.policy is {policy}: retention deletes {_KEPT_IN[topic.name]} that are"
        " still in use",
        advice=f"`wirekafka topics alter {quote(topic.name)} --config cleanup.policy=compact`",
    )


def _unclean(topic: TopicFacts) -> Iterator[Finding]:
    if topic.configs.get("unclean.leader.election.enable") == "true":
        yield Finding(
            check="unclean-elections",
            severity=Severity.WARNING,
            subject=f"topic {topic.name}",
            problem="unclean.leader.election.enable is true: records that were acknowledged are"
            " lost when a replica that is out of sync becomes leader",
            advice=f"`wirekafka topics alter {quote(topic.name)} --config"
            " unclean.leader.election.enable=false`, unless availability counts more than records.",
        )


def _short_retention(topic: TopicFacts) -> Iterator[Finding]:
    if not topic.is_deleted_by_retention or topic.is_internal:
        return
    retention_ms, size = topic.number("retention.ms"), topic.number("retention.bytes")
    limits = []
    if retention_ms is not None and 0 <= retention_ms < _SHORT_MS:
        limits.append(f"retention.ms is {retention_ms}")
    if size == 0:
        limits.append("retention.bytes is 0")
    if limits:
        yield Finding(
            check="short-retention",
            severity=Severity.WARNING,
            subject=f"topic {topic.name}",
            problem=f"{' and '.join(limits)}: records are deleted at the next check of retention,"
            " whether or not they were read",
            advice=f"`wirekafka topics alter {quote(topic.name)} --config"
            " retention.ms=604800000`, or -1 for no limit."
            " To empty a topic once, DeleteRecords is meant.",
        )


def _future(topic: TopicFacts, now_ms: int) -> Iterator[Finding]:
    retention_ms = topic.number("retention.ms")
    if not topic.is_deleted_by_retention or retention_ms is None or retention_ms < 0:
        return
    found = [each for each in topic.partitions if each.newest_ms > now_ms + _FUTURE_MS]
    if found:
        ahead_ms = max(each.newest_ms for each in found) - now_ms
        yield Finding(
            check="future-timestamps",
            severity=Severity.WARNING,
            subject=f"topic {topic.name}",
            problem=f"records have timestamps up to {duration(ahead_ms)} in the future (partitions"
            f" {listed(each.index for each in found)}): retention.ms deletes them, and what is in"
            " their segments, only that much later",
            advice="Correct the clock or the unit of timestamps of the producers;"
            " message.timestamp.after.max.ms refuses such records from now on. Until then limit"
            " the topic by retention.bytes.",
        )
