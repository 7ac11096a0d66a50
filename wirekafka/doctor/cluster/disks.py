"""Checks of the log directories of brokers, as DescribeLogDirs reports them."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.config.own import DISK_BUDGET, DISK_POLICY, KEEP_UNREAD
from wirekafka.doctor.cluster.facts import (
    BrokerFacts,
    ClusterFacts,
    DirectoryFacts,
    TopicPartition,
    whole_number,
)
from wirekafka.doctor.finding import Finding, Severity

NEARLY_FULL = 0.15
FULL = 0.05
"""The shares of free space below which a volume is nearly full, and full."""
BUDGET_USED = 0.9
"""The share of a disk budget from which its use is reported."""


def check_disks(facts: ClusterFacts) -> Iterator[Finding]:
    """Find failed log directories, and those on volumes that are nearly full."""
    for broker in facts.brokers.values():
        for directory in broker.directories:
            subject = f"broker {broker.id}: {directory.path}"
            if directory.error:
                yield Finding(
                    check="log-directory-offline",
                    severity=Severity.ERROR,
                    subject=subject,
                    problem=f"the log directory is offline: {directory.error}",
                    advice="See the broker's log for the disk's error; repair or replace the disk"
                    " and restart the broker, which copies the replicas from the others.",
                )
                continue
            found = space_finding(subject, directory.usable_bytes, directory.total_bytes)
            if found is not None:
                yield found
            if (found := _budget(facts, broker, directory, subject)) is not None:
                yield found


def _budget(
    facts: ClusterFacts, broker: BrokerFacts, directory: DirectoryFacts, subject: str
) -> Finding | None:
    """What a wirekafka broker's disk budget means, once the logs have nearly used it up."""
    budget_bytes = whole_number(broker.configs.get(DISK_BUDGET, ""))
    if not budget_bytes or directory.used_bytes < budget_bytes * BUDGET_USED:
        return None
    unread_bytes = sum(_unread_bytes(facts, broker))
    is_kept = broker.configs.get(DISK_POLICY) == KEEP_UNREAD
    then = "appends are refused" if is_kept else "records go that groups have not read"
    return Finding(
        check="disk-budget-used",
        severity=Severity.WARNING if unread_bytes >= budget_bytes / 2 else Severity.NOTE,
        subject=subject,
        problem=f"its logs take {_gib(directory.used_bytes)} of a budget of {_gib(budget_bytes)},"
        f" and groups have yet to read {_gib(unread_bytes)} on this broker: {then} once only these"
        " are left",
        advice="`wirekafka groups lag` shows which groups are behind: start their consumers, or"
        f" delete groups that nobody needs; or raise {DISK_BUDGET}.",
    )


def _unread_bytes(facts: ClusterFacts, broker: BrokerFacts) -> Iterator[int]:
    """The bytes that some group has yet to read in each partition led, by its share of offsets."""
    read: dict[TopicPartition, int] = {}
    for group in facts.groups:
        for key, offset in group.offsets.items():
            read[key] = min(offset, read.get(key, offset))
    for each in facts.partitions():
        lowest = read.get((each.topic, each.index))
        if lowest is None or each.leader != broker.id or each.end_offset <= each.start_offset:
            continue
        unread = each.end_offset - max(lowest, each.start_offset)
        yield max(each.size_bytes * unread // (each.end_offset - each.start_offset), 0)


def space_finding(subject: str, free_bytes: int, total_bytes: int) -> Finding | None:
    """What a volume's free space means; None with enough of it, or where it is not known."""
    if total_bytes <= 0 or free_bytes < 0 or free_bytes / total_bytes >= NEARLY_FULL:
        return None
    return Finding(
        check="disk-nearly-full",
        severity=Severity.ERROR if free_bytes / total_bytes < FULL else Severity.WARNING,
        subject=subject,
        problem=f"{_gib(free_bytes)} of {_gib(total_bytes)} are free"
        f" ({free_bytes / total_bytes:.0%})",
        advice="Lower retention.ms or retention.bytes of the largest topics, move replicas to"
        " another broker or directory, or enlarge the volume. A broker whose disk is full stops.",
    )


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 30):,.1f} GiB"
