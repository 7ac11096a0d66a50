"""Checks of the metadata quorum, and of the clock of its leader."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.doctor.cluster.facts import ClusterFacts, QuorumFacts, VoterFacts
from wirekafka.doctor.finding import Finding, Severity, duration

SILENT_MS = 10_000
"""The time without a Fetch after which a voter is silent; a follower fetches twice a second."""
_CLOCK_MS = 5_000
"""The difference between clocks that is reported: certificates, tokens and timestamps suffer."""


def check_quorum(facts: ClusterFacts) -> Iterator[Finding]:
    """Find voters that lag or are silent, and a quorum that tolerates less than it could."""
    quorum = facts.quorum
    if quorum is None:
        return
    if quorum.leader < 0:
        yield Finding(
            check="quorum-without-leader",
            severity=Severity.ERROR,
            subject="metadata quorum",
            problem="it has no leader: nothing can be created or elected",
            advice="Start controllers until a majority runs, and see their logs.",
            passing=True,
        )
        return
    for voter in quorum.voters:
        if voter.id != quorum.leader and (found := _lagging(voter, quorum)) is not None:
            yield found
    count = len(quorum.voters)
    if count % 2 == 0 and count:
        yield Finding(
            check="even-voters",
            severity=Severity.NOTE,
            subject="metadata quorum",
            problem=f"it has {count} voters, which tolerate no more failures than {count - 1} do",
            advice="Run an odd number of controllers: three tolerate one failure, five two.",
        )


def check_clock(facts: ClusterFacts) -> Iterator[Finding]:
    """Compare the quorum leader's clock with ours, which is the only clock that can be seen.

    The leader reports its own time in its description of the quorum.
    """
    quorum = facts.quorum
    if quorum is None or quorum.leader_clock_ms <= 0 or quorum.asked_ms < 0:
        return
    ahead_ms = max(quorum.leader_clock_ms - quorum.answered_ms, 0)
    behind_ms = max(quorum.asked_ms - quorum.leader_clock_ms, 0)
    if max(ahead_ms, behind_ms) > _CLOCK_MS:
        relation = "ahead of" if ahead_ms else "behind"
        yield Finding(
            check="clocks-differ",
            severity=Severity.WARNING,
            subject=f"controller {quorum.leader}",
            problem=f"its clock is {duration(max(ahead_ms, behind_ms))} {relation} the clock of"
            " this machine",
            advice="Synchronise both by NTP: retention, certificates, tokens and timestamps of"
            " records depend on clocks.",
        )


def _lagging(voter: VoterFacts, quorum: QuorumFacts) -> Finding | None:
    lag = quorum.end_offset - voter.end_offset
    clock_ms = quorum.leader_clock_ms
    silent_ms = clock_ms - voter.last_fetch_ms
    if voter.last_fetch_ms <= 0 or clock_ms <= 0:
        problem = "the quorum's leader has never had a Fetch from it" if lag > 0 else ""
    elif silent_ms > SILENT_MS:
        problem = f"it has not fetched for {duration(silent_ms)}"
    elif clock_ms - voter.last_caught_up_ms > SILENT_MS and lag > 0:
        problem = f"it is {lag} records behind, and was not caught up for"
        problem += f" {duration(clock_ms - voter.last_caught_up_ms)}"
    else:
        problem = ""
    if not problem:
        return None
    return Finding(
        check="voter-behind",
        severity=Severity.ERROR,
        subject=f"controller {voter.id}",
        problem=f"this voter of the metadata quorum is not up to date: {problem}",
        advice="Start the controller, or see its log and its connection to the quorum's leader."
        " A quorum needs a majority of its voters.",
        passing=True,
    )
