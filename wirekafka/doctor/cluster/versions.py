"""Checks that brokers agree: on features, and on the metadata that each of them serves."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.client.admin.features import METADATA_VERSION
from wirekafka.doctor.cluster.facts import BrokerFacts, ClusterFacts
from wirekafka.doctor.finding import Finding, Severity, listed


def check_features(facts: ClusterFacts) -> Iterator[Finding]:
    """Find an upgrade that was not finalised, and brokers of different versions."""
    levels = {
        broker.id: broker.supported[METADATA_VERSION][1]
        for broker in facts.brokers.values()
        if METADATA_VERSION in broker.supported
    }
    finalized = facts.finalized.get(METADATA_VERSION, 0)
    if not levels or not finalized:
        return
    lowest = min(levels.values())
    if lowest < max(levels.values()):
        old = [id for id, level in levels.items() if level == lowest]
        yield Finding(
            check="mixed-versions",
            severity=Severity.NOTE,
            subject="brokers",
            problem=f"they are of several versions: brokers {listed(old)} support"
            f" {METADATA_VERSION} {lowest}, others up to {max(levels.values())}",
            advice="Complete the upgrade of all brokers and controllers.",
        )
    if finalized < lowest:
        yield Finding(
            check="upgrade-not-finalised",
            severity=Severity.NOTE,
            subject="cluster",
            problem=f"{METADATA_VERSION} is {finalized}, and all brokers support {lowest}:"
            " features of the newer version are off",
            advice="Once the new version has proved itself, `wirekafka features upgrade"
            " metadata.version=` with the release of the oldest broker; a downgrade of the software"
            " may then be impossible.",
        )


def check_metadata(facts: ClusterFacts) -> Iterator[Finding]:
    """Find brokers whose metadata differs from the newest, by topic ids and leader epochs."""
    newest: dict[tuple[str, int], int] = {}
    for broker in facts.brokers.values():
        for key, epoch in broker.leader_epochs.items():
            newest[key] = max(newest.get(key, -1), epoch)
    for broker in facts.brokers.values():
        if broker.topic_ids is None or broker.cluster_id != facts.cluster_id:
            continue
        old = [key for key, epoch in broker.leader_epochs.items() if epoch < newest[key]]
        unlike = _differing(broker, facts)
        if not old and not unlike:
            continue
        parts = [f"other topics: {listed(unlike)}"] if unlike else []
        parts += [f"older leaders: {listed(f'{name}-{at}' for name, at in old)}"] if old else []
        yield Finding(
            check="metadata-differs",
            severity=Severity.ERROR,
            subject=f"broker {broker.id}",
            problem=f"its metadata is not that of the other brokers; {'; '.join(parts)}",
            advice="It does not follow the metadata log: see its log and its connection to the"
            " controllers, and restart it.",
            passing=True,
        )


def _differing(broker: BrokerFacts, facts: ClusterFacts) -> list[str]:
    assert broker.topic_ids is not None
    wanted = {topic.name: topic.id for topic in facts.topics.values()}
    names = wanted.keys() | broker.topic_ids.keys()
    return sorted(name for name in names if wanted.get(name) != broker.topic_ids.get(name))
