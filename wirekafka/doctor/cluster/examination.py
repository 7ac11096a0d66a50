"""Examines a cluster: gathers facts, checks them, and looks again at what may pass by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from wirekafka.client.client import CliError
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.doctor.cluster.addresses import check_addresses, check_answers
from wirekafka.doctor.cluster.certificates import certificate_findings, check_certificates
from wirekafka.doctor.cluster.disks import check_disks
from wirekafka.doctor.cluster.facts import ClusterFacts
from wirekafka.doctor.cluster.groups import check_groups
from wirekafka.doctor.cluster.probe import certificate_of
from wirekafka.doctor.cluster.quorum import check_clock, check_quorum
from wirekafka.doctor.cluster.replicas import check_replicas, check_replication_factors
from wirekafka.doctor.cluster.survey import gather
from wirekafka.doctor.cluster.topics import check_topics
from wirekafka.doctor.cluster.transactions import check_transactions
from wirekafka.doctor.cluster.versions import check_features, check_metadata
from wirekafka.doctor.finding import Finding, in_order

CHECKS: Mapping[str, Callable[[ClusterFacts], Iterator[Finding]]] = MappingProxyType(
    {
        "advertised addresses": check_addresses,
        "certificates": check_certificates,
        "replicas and leaders": check_replicas,
        "replication factors": check_replication_factors,
        "log directories": check_disks,
        "the metadata quorum": check_quorum,
        "the controller's clock": check_clock,
        "options of topics and timestamps": check_topics,
        "groups and unread records": check_groups,
        "transactions": check_transactions,
        "versions and features": check_features,
        "agreement on metadata": check_metadata,
        "permission to see all of it": check_answers,
    }
)
"""What is checked, and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookingTimes:
    """The longest wait for one answer, and the time before passing problems are checked again."""

    timeout_s: float = 5.0
    again_after_s: float = 3.0


@dataclass(frozen=True, slots=True)
class Examined:
    """A cluster that was examined; `facts` is None if only certificates could be read."""

    findings: Sequence[Finding]
    facts: ClusterFacts | None


def examine_cluster(
    bootstrap: Sequence[Address], config: ClientConfig | None, patience: LookingTimes
) -> Examined:
    """Examine a cluster. Raises CliError if it cannot be reached and nothing is found out why."""
    try:
        facts = gather(bootstrap, config, patience.timeout_s)
    except CliError:
        findings = list(_bootstrap_certificates(bootstrap, config, patience.timeout_s))
        if not findings:
            raise
        return Examined(in_order(findings), None)
    findings = findings_of(facts)
    if any(each.passing for each in findings):
        time.sleep(patience.again_after_s)
        facts = gather(bootstrap, config, patience.timeout_s)
        findings = confirmed(findings, findings_of(facts))
    return Examined(in_order(findings), facts)


def findings_of(facts: ClusterFacts) -> list[Finding]:
    """All findings that follow from facts."""
    return [finding for check in CHECKS.values() for finding in check(facts)]


def confirmed(earlier: Sequence[Finding], later: Sequence[Finding]) -> list[Finding]:
    """The later findings, without findings that may pass and were not there earlier."""
    seen = {each.key for each in earlier}
    return [each for each in later if not each.passing or each.key in seen]


def _bootstrap_certificates(
    bootstrap: Sequence[Address], config: ClientConfig | None, timeout_s: float
) -> Iterator[Finding]:
    for address in bootstrap:
        certificate = certificate_of(address, config, timeout_s)
        if certificate is not None:
            yield from certificate_findings(
                certificate, f"bootstrap {address}", address.host, time.time_ns() // 1_000_000
            )
