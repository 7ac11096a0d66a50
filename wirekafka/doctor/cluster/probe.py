"""Questions to one broker, whose refusals are noted rather than raised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from cryptography import x509

from wirekafka.client.client import BrokerConnection, CliError, ConnectionFailure
from wirekafka.client.peer_certificate import peer_certificate
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.doctor.cluster.facts import CertificateFacts, Unanswered
from wirekafka.doctor.finding import listed
from wirekafka.errors import Error

CLIENT_ID = "wirekafka-doctor"


class BrokerLost(Exception):
    """A connection that broke, so that no more is asked of the broker."""


class Refusals:
    """The requests that were refused."""

    def __init__(self) -> None:
        self.found: list[Unanswered] = []

    @contextmanager
    def noted(self, about: str) -> Iterator[None]:
        """Note a refusal within the block. Raises BrokerLost."""
        try:
            yield
        except ConnectionFailure as error:
            raise BrokerLost(str(error)) from None
        except CliError as error:
            self.found.append(Unanswered(about, str(error)))

    def note_codes(self, about: str, codes: Mapping[str, int]) -> None:
        """Note the error codes of a response's elements by their names; 0 is no error.

        Errors that pass, such as of a leader that has just moved, are left out.
        """
        lasting: dict[str, list[str]] = {}
        for name, code in codes.items():
            if code and not (error := Error.of(code)).retriable:
                lasting.setdefault(error.name, []).append(name)
        for error_name, names in lasting.items():
            self.found.append(Unanswered(about, f"{listed(names)}: {error_name}"))


def connected(address: Address, config: ClientConfig | None, timeout_s: float) -> BrokerConnection:
    """A connection whose every wait is bounded. Raises CliError."""
    return BrokerConnection(address, config, client_id=CLIENT_ID, timeout_s=timeout_s)


def certificate_of(
    address: Address, config: ClientConfig | None, timeout_s: float
) -> CertificateFacts | None:
    """The certificate that a broker presents; None without TLS, and for what is no certificate."""
    if config is None or not config.uses_tls:
        return None
    encoded = peer_certificate(address, config, timeout_s)
    if encoded is None:
        return None
    try:
        certificate = x509.load_der_x509_certificate(encoded)
        return CertificateFacts(
            int(certificate.not_valid_before_utc.timestamp() * 1000),
            int(certificate.not_valid_after_utc.timestamp() * 1000),
            _names(certificate),
        )
    except (ValueError, x509.InvalidVersion):
        return None


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        kind = x509.SubjectAlternativeName
        found = certificate.extensions.get_extension_for_class(kind).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return []
    addresses = found.get_values_for_type(x509.IPAddress)
    return [*found.get_values_for_type(x509.DNSName), *map(str, addresses)]
