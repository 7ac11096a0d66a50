"""Checks of the log directories of brokers, as DescribeLogDirs reports them."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.doctor.cluster.facts import ClusterFacts
from wirekafka.doctor.finding import Finding, Severity

NEARLY_FULL = 0.15
FULL = 0.05
"""The shares of free space below which a volume is nearly full, and full."""


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
            else:
                found = space_finding(subject, directory.usable_bytes, directory.total_bytes)
                if found is not None:
                    yield found


def space_finding(subject: str, free_bytes: int, total_bytes: int) -> Finding | None:
    """What a volume's free space means; None with enough of it, or where it is not known."""
    if total_bytes <= 0 or free_bytes < 0 or free_bytes / total_bytes >= NEARLY_FULL:
        return None
    return Finding(
        check="disk-nearly-full",
        severity=Severity.ERROR if free_bytes / total_bytes < FULL else Severity.WARNING,
        subject=subject,
        problem=f"{free_bytes / (1 << 30):,.1f} GiB of {total_bytes / (1 << 30):,.1f} GiB are free"
        f" ({free_bytes / total_bytes:.0%})",
        advice="Lower retention.ms or retention.bytes of the largest topics, move replicas to"
        " another broker or directory, or enlarge the volume. A broker whose disk is full stops.",
    )
