"""Checks of the certificates that brokers present."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from wirekafka.doctor.cluster.facts import BrokerFacts, CertificateFacts, ClusterFacts, FailureCause
from wirekafka.doctor.finding import Finding, Severity, duration

_SOON_MS = 30 * 86_400_000


def check_certificates(facts: ClusterFacts) -> Iterator[Finding]:
    """Find certificates that clients refuse, or will refuse within 30 days."""
    for broker in facts.brokers.values():
        subject = f"broker {broker.id}"
        found: list[Finding] = []
        if broker.certificate is not None:
            found += certificate_findings(
                broker.certificate, subject, broker.address.host, facts.now_ms
            )
        yield from found
        is_explained = any(each.severity is Severity.ERROR for each in found)
        is_refused = bool(broker.failure) and broker.cause is FailureCause.CERTIFICATE
        if is_refused and not broker.is_fenced and not is_explained:
            yield _refused(broker, subject)


def certificate_findings(
    certificate: CertificateFacts, subject: str, host: str, now_ms: int
) -> Iterator[Finding]:
    """What is wrong with a certificate for a host."""
    if certificate.ends_ms <= now_ms:
        yield _finding(
            "certificate-expired",
            subject,
            f"its certificate expired {duration(now_ms - certificate.ends_ms)} ago",
        )
    elif certificate.begins_ms > now_ms:
        yield _finding(
            "certificate-not-yet-valid",
            subject,
            f"its certificate is valid only in {duration(certificate.begins_ms - now_ms)},"
            " or a clock is wrong",
        )
    elif certificate.ends_ms - now_ms < _SOON_MS:
        yield Finding(
            check="certificate-expires",
            severity=Severity.WARNING,
            subject=subject,
            problem=f"its certificate expires in {duration(certificate.ends_ms - now_ms)}",
            advice="Renew the certificate in ssl.keystore.location; brokers read a keystore of the"
            " same name again when the option is set anew with `wirekafka configs alter`.",
        )
    if not _is_for(certificate, host):
        names = ", ".join(certificate.names) or "no name"
        yield _finding(
            "certificate-name",
            subject,
            f"its certificate is for {names}, and clients connect to {host}",
        )


def _finding(check: str, subject: str, problem: str) -> Finding:
    return Finding(
        check=check,
        severity=Severity.ERROR,
        subject=subject,
        problem=problem,
        advice="Clients refuse the connection. Issue a certificate whose subject alternative names"
        " have the advertised host, and replace ssl.keystore.location.",
    )


def _refused(broker: BrokerFacts, subject: str) -> Finding:
    return Finding(
        check="certificate-refused",
        severity=Severity.ERROR,
        subject=subject,
        problem=broker.failure,
        advice="Name the authority that issued it in ssl.truststore.location of the clients, or"
        " have it issued by an authority that they trust.",
    )


def _is_for(certificate: CertificateFacts, host: str) -> bool:
    return any(_matches(name.lower(), host.lower()) for name in certificate.names)


def _matches(name: str, host: str) -> bool:
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(host)
    except ValueError:
        pass
    if name.startswith("*."):
        return host.partition(".")[2] == name[2:]
    return name == host
