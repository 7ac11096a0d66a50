"""Checks of partitions: leaders, replicas in sync, and whether acks=all can succeed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from shlex import quote

from wirekafka.doctor.cluster.facts import ClusterFacts, PartitionFacts, TopicFacts
from wirekafka.doctor.finding import Finding, Severity, listed

_NO_LEADER = -1
_FEW_COPIES_FROM = 3
"""With so many brokers, an internal topic with one replica is an oversight."""


def check_replicas(facts: ClusterFacts) -> Iterator[Finding]:
    """Find partitions without a leader, with too few replicas, or with a wrong leader."""
    yield from _offline(facts)
    yield from _unregistered(facts)
    yield from _in_sync(facts)
    yield from _not_preferred(facts)


def check_replication_factors(facts: ClusterFacts) -> Iterator[Finding]:
    """Find topics that cannot be written with acks=all, and internal topics without a copy."""
    for topic in facts.topics.values():
        factor = _replication_factor(topic)
        wanted = topic.number("min.insync.replicas")
        if factor and wanted is not None and wanted > factor:
            yield Finding(
                check="min-isr-above-replicas",
                severity=Severity.ERROR,
                subject=f"topic {topic.name}",
                problem=f"min.insync.replicas is {wanted}, and its replication factor {factor}:"
                " producers with acks=all never succeed",
                advice=f"`wirekafka topics alter {quote(topic.name)} --config min.insync.replicas="
                f"{max(factor - 1, 1)}`, or add replicas: `wirekafka reassign apply`.",
            )
        is_alone = topic.is_internal and factor == 1
        if is_alone and len(facts.brokers) >= _FEW_COPIES_FROM:
            yield Finding(
                check="internal-topic-single-copy",
                severity=Severity.WARNING,
                subject=f"topic {topic.name}",
                problem=f"it has one replica in a cluster of {len(facts.brokers)} brokers: groups"
                " or transactions stop with one broker, and their state is lost with its disk",
                advice=f"Add replicas, `wirekafka reassign apply --topic {quote(topic.name)}"
                " --replication-factor 3`, and set the options that"
                " end in .replication.factor before the topic is created.",
            )


def _offline(facts: ClusterFacts) -> Iterator[Finding]:
    found = [each for each in facts.partitions() if each.leader == _NO_LEADER]
    if found:
        wanted = sorted({broker for each in found for broker in each.isr or each.replicas})
        yield _partitions(
            "no-leader",
            Severity.ERROR,
            found,
            "no leader: they are neither written nor read",
            f"Start a broker that was in sync last: {listed(wanted)}. Only if these are lost for"
            " good, `wirekafka elect --unclean` loses the newest records.",
        )


def _unregistered(facts: ClusterFacts) -> Iterator[Finding]:
    missing: dict[int, list[PartitionFacts]] = {}
    for partition in facts.partitions():
        for broker in partition.replicas:
            if broker not in facts.brokers:
                missing.setdefault(broker, []).append(partition)
    for broker, partitions in sorted(missing.items()):
        yield Finding(
            check="replica-without-broker",
            severity=Severity.ERROR,
            subject=f"broker {broker}",
            problem=f"{len(partitions)} partitions have a replica there, and it is not running:"
            f" {listed(each.name for each in partitions)}",
            advice="Start the broker; or if it is gone for good, reassign the replicas to others"
            " with `wirekafka reassign apply`.",
        )


def _in_sync(facts: ClusterFacts) -> Iterator[Finding]:
    led = [each for each in facts.partitions() if each.leader != _NO_LEADER]
    too_few = _chosen(led, facts, lambda in_sync, wanted: in_sync < wanted)
    if too_few:
        yield _partitions(
            "under-min-isr",
            Severity.ERROR,
            too_few,
            "fewer replicas in sync than min.insync.replicas: producers with acks=all fail",
            "Bring the missing replicas back (see the brokers that do not answer, full disks and"
            " failed directories); lowering min.insync.replicas gives up safety.",
        )
    behind = [each for each in led if len(each.isr) < len(each.replicas)]
    at_least = _chosen(behind, facts, lambda in_sync, wanted: in_sync == wanted)
    if at_least:
        yield _partitions(
            "at-min-isr",
            Severity.WARNING,
            at_least,
            "just min.insync.replicas in sync: one more failure stops producers with acks=all",
            "Bring the missing replicas back before any broker is restarted.",
        )
    if behind:
        lacking = sorted({id for each in behind for id in set(each.replicas) - set(each.isr)})
        yield _partitions(
            "under-replicated",
            Severity.WARNING,
            behind,
            f"replicas out of sync, on brokers {listed(lacking)}",
            "See whether these brokers run, whether their disks or the network are too slow, and"
            " what their logs say. During a reassignment this is expected.",
        )


def _not_preferred(facts: ClusterFacts) -> Iterator[Finding]:
    found = [
        each
        for each in facts.partitions()
        if each.leader != _NO_LEADER
        and each.replicas
        and each.leader != each.replicas[0]
        and each.replicas[0] in each.isr
    ]
    if found:
        yield _partitions(
            "not-preferred-leader",
            Severity.WARNING,
            found,
            "another leader than the first replica, which is in sync: load is spread unevenly",
            "`wirekafka elect --all`; with"
            " auto.leader.rebalance.enable the controller does so within five minutes.",
        )


def _chosen(
    partitions: list[PartitionFacts], facts: ClusterFacts, rule: Callable[[int, int], bool]
) -> list[PartitionFacts]:
    """The partitions whose number of replicas in sync and minimum fulfil a rule.

    A minimum above the number of replicas is a finding of its own.
    """
    found = []
    for each in partitions:
        wanted = facts.topics[each.topic].number("min.insync.replicas")
        if wanted is not None and 1 < wanted <= len(each.replicas) and rule(len(each.isr), wanted):
            found.append(each)
    return found


def _replication_factor(topic: TopicFacts) -> int:
    return min((len(each.replicas) for each in topic.partitions), default=0)


def _partitions(
    check: str, severity: Severity, partitions: list[PartitionFacts], problem: str, advice: str
) -> Finding:
    names = listed(each.name for each in partitions)
    count = f"{len(partitions)} partitions" if len(partitions) > 1 else "partition"
    return Finding(
        check=check,
        severity=severity,
        subject=f"{count} {names}" if len(partitions) == 1 else f"{count}: {names}",
        problem=problem,
        advice=advice,
    )
