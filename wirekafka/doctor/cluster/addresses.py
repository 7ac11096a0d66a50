"""Checks of brokers: whether each answers at its advertised address, and is who it should be."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from wirekafka.doctor.cluster.facts import BrokerFacts, ClusterFacts, FailureCause, Unanswered
from wirekafka.doctor.finding import Finding, Severity

_LOCAL_NAMES = ("localhost", "localhost.localdomain")


def check_addresses(facts: ClusterFacts) -> Iterator[Finding]:
    """Find brokers that clients cannot reach at the addresses that Metadata returns."""
    yield from map(_silent, facts.silent)
    for broker in facts.brokers.values():
        local = _advertised_local(broker, facts)
        if local is not None:
            yield local
        if broker.is_fenced:
            yield _fenced(broker)
        elif broker.failure:
            if broker.cause is not FailureCause.CERTIFICATE:  # A check of its own.
                yield _unreachable(broker)
        elif facts.cluster_id and broker.cluster_id not in ("", facts.cluster_id):
            yield _other_cluster(broker, facts)
        elif broker.stranger:
            yield _stranger(broker)


def check_answers(facts: ClusterFacts) -> Iterator[Finding]:
    """Report what was not checked because a request was refused."""
    refused = [("the cluster", each) for each in facts.unanswered]
    for broker in facts.brokers.values():
        refused += [(f"broker {broker.id}", each) for each in broker.unanswered]
    for subject, each in refused:
        yield Finding(
            check="not-checked",
            severity=Severity.WARNING,
            subject=f"{subject}: {each.about}",
            problem=f"not checked: {each.reason}",
            advice="Give the user of --command-config DESCRIBE and DESCRIBE_CONFIGS on the cluster,"
            " on all topics, groups and transactional ids, and READ on topics; or look into the"
            " broker's log.",
        )


def _of_broker(broker: BrokerFacts, check: str, problem: str, advice: str) -> Finding:
    return Finding(
        check=check,
        severity=Severity.ERROR,
        subject=f"broker {broker.id}",
        problem=problem,
        advice=advice,
    )


def _silent(each: Unanswered) -> Finding:
    return Finding(
        check="bootstrap-unreachable",
        severity=Severity.WARNING,
        subject=f"bootstrap {each.about}",
        problem=f"no broker answers there: {each.reason}",
        advice="Take the address out of bootstrap.servers of the clients, or start its broker:"
        " clients that try it first start late, or not at all.",
    )


def _unreachable(broker: BrokerFacts) -> Finding:
    if broker.cause is FailureCause.NAME:
        return _of_broker(
            broker,
            "advertised-name-unknown",
            f"it advertises {broker.address}, a name that does not resolve here",
            "Set advertised.listeners to a name that all clients resolve, or add the name to"
            " their DNS; clients connect to the advertised address, not to the bootstrap address.",
        )
    return _of_broker(
        broker,
        "broker-unreachable",
        f"it does not answer at its advertised address: {broker.failure}",
        "See whether the broker runs and what its log says. If it does, its"
        " advertised.listeners is wrong, or a firewall is between.",
    )


def _fenced(broker: BrokerFacts) -> Finding:
    return _of_broker(
        broker,
        "broker-fenced",
        "it is registered, but fenced: the controller has had no heartbeat from it",
        "Start the broker, or see in its log why it does not reach the controller. If it is"
        " gone for good, reassign its replicas and run `wirekafka cluster unregister`.",
    )


def _stranger(broker: BrokerFacts) -> Finding:
    return _of_broker(
        broker,
        "other-broker-answers",
        f"another broker answers at its advertised address {broker.address}: {broker.stranger}",
        "Give each broker an advertised.listeners of its own; behind a proxy or a load"
        " balancer each broker needs its own name or port.",
    )


def _other_cluster(broker: BrokerFacts, facts: ClusterFacts) -> Finding:
    return _of_broker(
        broker,
        "other-cluster-answers",
        f"at its advertised address {broker.address} answers a broker of the cluster"
        f" {broker.cluster_id}, not of {facts.cluster_id}",
        "Correct advertised.listeners of the broker, or the DNS entry of its name.",
    )


def _advertised_local(broker: BrokerFacts, facts: ClusterFacts) -> Finding | None:
    if not _is_local(broker.address.host):
        return None
    if not facts.bootstrap or any(_is_local(each.host) for each in facts.bootstrap):
        return None
    return _of_broker(
        broker,
        "advertised-localhost",
        f"it advertises {broker.address}, where clients on other machines reach themselves",
        "Set advertised.listeners to the host's name or address as clients see it.",
    )


def _is_local(host: str) -> bool:
    if host.lower() in _LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
