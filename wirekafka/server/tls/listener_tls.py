"""The TLS of one listener: certificates and their replacement, handshakes under way, principals."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from wirekafka.config.address import Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.config.prefixed_names import STORES
from wirekafka.config.reference import reason_about
from wirekafka.config.security_protocol import logs_in
from wirekafka.security import distinguished_name, tls_context
from wirekafka.security.principal_rules import NoMatchingRule, PrincipalRules
from wirekafka.security.tls_context import Material, Secured, Settings, UnusableStore
from wirekafka.server.connections.admission import Admission
from wirekafka.server.connections.listener import ADMISSION, PRINCIPAL, SWEPT_AT_ONCE, Listener
from wirekafka.server.tls.tls import INBOX_BYTES, Handshakes, TlsLink, TlsTransport

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

logger = logging.getLogger(__name__)

_HANDSHAKE_MS = 20_000
"""How long a handshake may take from the moment that the connection is accepted."""
_MOST_BEGUN = 800
"""How many handshakes may be under way: a stalled one takes up to 50 KB. An honest one is complete
within milliseconds, so that beyond this the oldest are given up."""


class _Loaded(NamedTuple):
    """The stores of a listener, their sources, and the TLS context with them."""

    settings: Settings
    material: Material
    secured: Secured


class ListenerTls:
    """Encrypts the connections of a listener (`TlsOwner`).

    Key store and trust store are read again when the broker's dynamic configuration changes
    (KIP-226), for connections that are accepted afterwards; all other options apply from the start
    of the listener to its end, as in Kafka. Raises ConfigError if they cannot be used.
    """

    def __init__(self, listener: Listener, protocol: str, config: BrokerConfig):
        self.inbox = memoryview(bytearray(INBOX_BYTES))
        self.handshakes = Handshakes()
        self._listener = listener
        self._has_principal = not logs_in(protocol)
        """With SASL_SSL, the client's principal comes from its SASL login."""
        self._config = config
        self._links: dict[TlsLink, Admission] = {}
        """The connections whose handshake is not complete."""
        self._begun: dict[TlsLink, None] = {}
        """The connections in a handshake that have sent something, the oldest first."""
        self._wanted: BrokerConfig | None = None
        """A configuration whose stores have still to be read."""
        self._reload: asyncio.Task[None] | None = None
        own = config.for_listener(listener.name)
        self._use(own, self._loaded(own))

    def start(self, config: BrokerConfig) -> None:
        """Use the dynamic settings too, before the first connection; log unusable settings."""
        self._config = config
        own = config.for_listener(self._listener.name)
        try:
            if tls_context.settings_of(own) != self._current.settings:
                self._use(own, self._loaded(own))
        except ConfigError as error:
            logger.error("Listener %s starts without them: %s", self._listener.name, error)

    def check(self, config: BrokerConfig) -> None:
        """Raise ConfigError, worded as Kafka's, if a new configuration cannot be used.

        It reads files, so that it is called in a thread.
        """
        own = self._with_stores_of(config)
        try:
            if tls_context.settings_of(own) != self._current.settings:
                self._check_compatible(own, self._loaded(own).material)
        except UnusableStore as error:
            logger.warning("Listener %s: a change is refused: %s", self._listener.name, error)
            raise _invalid_update(error.name, error.outline) from None
        except ConfigError as error:
            raise _invalid_update(error.name, str(error)) from None

    def configured(self, config: BrokerConfig) -> None:
        """Read the stores again, in a thread, if a new dynamic configuration has other stores."""
        self._config = self._wanted = config
        if self._reload is None:
            self._reload = asyncio.get_running_loop().create_task(self._reload_stores())

    # For connections (`TlsOwner`).

    def link(self) -> TlsLink:
        """Create the protocol of a new connection."""
        return TlsLink(self)

    def admit(self, link: TlsLink, transport: asyncio.Transport) -> Secured | None:
        """Count a new connection; None if a limit refuses it."""
        admission = self._listener.admit(transport)
        broker = self._listener.broker
        if admission is None or broker is None:
            return None
        self._links[link] = admission
        link.since_ms = broker.clock.now_ms()
        if broker.config is not self._config:
            self.configured(broker.config)
        return self._current.secured

    def begun(self, link: TlsLink) -> None:
        """Note that a handshake has begun, and give up the oldest if they are too many."""
        self._begun[link] = None
        if len(self._begun) > _MOST_BEGUN:
            next(iter(self._begun)).give_up("too many others are under way")

    def established(
        self, link: TlsLink, transport: TlsTransport
    ) -> asyncio.BufferedProtocol | None:
        """Identify the client and return the protocol of its connection; None to close it."""
        if self._has_principal:
            try:
                principal = self._principal(transport.get_extra_info("ssl_object"))
            except (NoMatchingRule, ValueError):
                self.failed(link, "the client's name is not mapped by ssl.principal.mapping.rules")
                return None
            transport.set_extra_info(PRINCIPAL, principal)
        transport.set_extra_info(ADMISSION, self._links.pop(link))
        self._begun.pop(link, None)
        return self._listener.connection(self._listener)

    def failed(self, link: TlsLink, reason: str) -> None:
        """Log why a handshake has failed, once a minute for each host and reason."""
        admission = self._links.get(link)
        if admission is not None:
            kind = f"a failed TLS handshake ({reason})"
            peer = Address(admission.host, admission.port)
            message = f"Closing the connection of {peer} at {self._listener.name}: {kind}"
            self._listener.warn(admission.host, kind, message)

    def rejected(self) -> None:
        """Count a handshake in which one side has refused the other."""
        self._listener.authentications.failures += 1

    def departed(self, link: TlsLink) -> None:
        """Uncount a connection that was closed before it was established."""
        admission = self._links.pop(link, None)
        self._begun.pop(link, None)
        if admission is not None:
            self._listener.release(admission.host)

    # For the listener.

    def sweep(self, now_ms: int) -> Iterator[None]:
        """Close the connections whose handshake takes too long; yields after some of them."""
        for number, link in enumerate(tuple(self._links), 1):
            if number % SWEPT_AT_ONCE == 0:
                yield
            if now_ms - link.since_ms > _HANDSHAKE_MS:
                link.give_up("it takes too long")

    def abort(self) -> None:
        """Close the connections whose handshake is not complete, and end the threads."""
        for link in tuple(self._links):
            link.abort()
        self.handshakes.stop()

    # Certificates.

    async def _reload_stores(self) -> None:
        while (config := self._wanted) is not None:
            self._wanted = None
            try:
                changed = await asyncio.to_thread(self._changed, config)
            except ConfigError as error:
                logger.error("Listener %s keeps its certificates: %s", self._listener.name, error)
                continue
            if changed is not None:
                self._current = changed
                logger.info("Listener %s uses new certificates", self._listener.name)
        self._reload = None

    def _changed(self, config: BrokerConfig) -> _Loaded | None:
        """The stores of a new configuration; None if they have not changed."""
        own = self._with_stores_of(config)
        if tls_context.settings_of(own) == self._current.settings:
            return None
        loaded = self._loaded(own)
        self._check_compatible(own, loaded.material)
        return loaded

    def _use(self, own: BrokerConfig, loaded: _Loaded) -> None:
        self._rules = _rules(own)
        self._own, self._current = own, loaded

    def _with_stores_of(self, config: BrokerConfig) -> BrokerConfig:
        """This listener's options, with the stores of another configuration."""
        return self._own.with_options_of(config.for_listener(self._listener.name), STORES)

    def _loaded(self, own: BrokerConfig) -> _Loaded:
        # Read first: a file that is replaced meanwhile is then read once more.
        settings = tls_context.settings_of(own)
        material = tls_context.load_material(own)
        return _Loaded(settings, material, self._context(own, material))

    def _context(self, own: BrokerConfig, material: Material) -> Secured:
        client_auth = own.ssl_client_auth
        name = "ssl.client.auth"
        if not self._has_principal and own.sources.configured_name(name) == name:
            # Beside SASL a certificate is needed only where the listener's own option says so
            # (KIP-684).
            client_auth = "none"
        return tls_context.server_context(own, material, client_auth)

    def _check_compatible(self, own: BrokerConfig, material: Material) -> None:
        """Raise ConfigError if the stores may not replace the present stores."""
        present = self._current.material
        if present.trusted is None and material.trusted is not None:
            raise _incompatible(
                own,
                "ssl.truststore.location",
                "Cannot add SSL truststore to an existing listener for which no truststore was "
                "configured.",
            )
        old, new = present.identity, material.identity
        if old is not None and new is not None:
            self._check_names(own, old.chain[0], new.chain[0])

    def _check_names(self, own: BrokerConfig, old: Certificate, new: Certificate) -> None:
        names = [_distinguished_name(each) for each in (old, new)]
        if names[0] != names[1] and not own.ssl_allow_dn_changes:
            raise _incompatible(
                own,
                "ssl.keystore.location",
                f"Keystore DistinguishedName does not match:  existing={{alias=kafka, "
                f"DN={names[0]}}}, new={{alias=kafka, DN={names[1]}}}",
            )
        alternatives = [_alternative_names(each) for each in (old, new)]
        is_lost = not set(alternatives[0]) <= set(alternatives[1])
        if is_lost and not own.ssl_allow_san_changes:
            before, after = (", ".join(each) for each in alternatives)
            raise _incompatible(
                own,
                "ssl.keystore.location",
                f"Keystore SubjectAltNames do not match:  existing={{alias=kafka, SAN=[{before}]}}"
                f", new={{alias=kafka, SAN=[{after}]}}",
            )

    def _principal(self, tls: ssl.SSLObject) -> str:
        """The client's principal. Raises NoMatchingRule, or ValueError for a malformed name."""
        certificate = tls.getpeercert(binary_form=True)
        if certificate is None:
            return "User:ANONYMOUS"
        subject = distinguished_name.subject_of(certificate)
        return "User:" + self._rules.user_name(distinguished_name.rfc2253(subject))


def _rules(own: BrokerConfig) -> PrincipalRules:
    try:
        return PrincipalRules(own.ssl_principal_mapping_rules)
    except ValueError as error:
        reason = reason_about(own.ssl_principal_mapping_rules, str(error))
        raise _refused(own, "ssl.principal.mapping.rules", reason) from None


def _distinguished_name(certificate: Certificate) -> str:
    # Java's other text of a name has a blank behind each comma.
    text = distinguished_name.rfc2253(certificate.subject.public_bytes())
    return re.sub(r"(?<!\\),", ", ", text)


def _alternative_names(certificate: Certificate) -> list[str]:
    """The certificate's alternative names as Java shows them: [2, host], [7, address]."""
    from cryptography.x509 import DNSName, ExtensionNotFound, IPAddress, SubjectAlternativeName

    try:
        found = certificate.extensions.get_extension_for_class(SubjectAlternativeName)
    except ExtensionNotFound:
        return []
    kinds: dict[type, int] = {DNSName: 2, IPAddress: 7}
    return [f"[{kinds.get(type(name), type(name).__name__)}, {name.value}]" for name in found.value]


def _invalid_update(name: str, reason: str) -> ConfigError:
    message = f"Validation of dynamic config update of SSLFactory failed: {reason}"
    return ConfigError(name, None, message, message)


def _incompatible(own: BrokerConfig, name: str, reason: str) -> ConfigError:
    message = f"org.apache.kafka.common.config.ConfigException: {reason}"
    return ConfigError(own.sources.configured_name(name), None, reason, message)


def _refused(own: BrokerConfig, name: str, reason: str) -> ConfigError:
    configured = own.sources.configured_name(name)
    return ConfigError(configured, None, reason, f"{configured}: {reason}")
