"""TLS contexts from Kafka's `ssl.*` options, of listeners and of outgoing connections.

Invalid values raise ConfigError, which names the option and never quotes a secret. Files are read
with the limits for files that a hostile client names: a node that serves clients reads them in a
thread.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.option import ConfigError, text_of
from wirekafka.config.options import SecurityOptions, rows
from wirekafka.config.reference import revealed
from wirekafka.config.small_file import read_small_file
from wirekafka.security.cipher_suites import TLS_1_3, openssl_name

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from wirekafka.security.key_material import Identity

logger = logging.getLogger(__name__)

TlsConfig = BrokerConfig | ClientConfig

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OBSOLETE = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
_STORES = ("JKS", "PKCS12")
"""Java reads PKCS#12 stores under both names."""
_PEM = "PEM"
_FAILED = "org.apache.kafka.common.KafkaException"
_INVALID = "org.apache.kafka.common.errors.InvalidConfigurationException"
_OPTIONS = [option for name, option in rows(SecurityOptions).items() if name.startswith("ssl.")]
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class UnusableStore(ConfigError):
    """A key store or trust store that cannot be used; its text has the reason.

    `outline` has none, worded as Kafka's message: a client must not find out which files exist.
    """

    def __init__(self, name: str, reason: str, outline: str):
        super().__init__(name, None, reason, f"{name}: {reason}")
        self.outline = outline


class Material(NamedTuple):
    """The content of the configured stores: this side's key, if any, and its trusted authorities.

    `trusted` is None where no trust store is configured: the system's authorities are trusted.
    """

    identity: Identity | None
    trusted: tuple[Certificate, ...] | None


class Settings(NamedTuple):
    """The inputs of a TLS context, which is made again when any of them changes."""

    values: tuple[object, ...]
    stamps: tuple[tuple[int, int] | None, ...]
    """Modification time and size of each store's file, which change when it is replaced."""


class Secured(NamedTuple):
    """A TLS context, and the TLS 1.3 suites to which its connections are limited.

    `ssl` cannot select among TLS 1.3 suites before a handshake: a connection with another suite
    must be refused.
    """

    context: ssl.SSLContext
    suites: frozenset[str]


def load_material(config: TlsConfig) -> Material:
    """Read the key store and the trust store. Raises ConfigError."""
    return Material(_identity(config), _trusted(config))


def server_context(config: TlsConfig, material: Material, client_auth: str) -> Secured:
    """The context of a listener; `client_auth` is none, requested or required.

    Raises ConfigError.
    """
    if material.identity is None:
        raise _wrong(config, "ssl.keystore.location", "a TLS listener needs a key store")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.verify_mode = _CLIENT_AUTH[client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        _trust(context, material, ssl.Purpose.CLIENT_AUTH)
    return _limited(context, config, material)


def client_context(config: TlsConfig) -> Secured:
    """The context of outgoing connections. Raises ConfigError.

    The server's certificate is always verified, and its host name unless
    `ssl.endpoint.identification.algorithm` is empty.
    """
    material = load_material(config)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    algorithm = config.ssl_endpoint_identification_algorithm
    if algorithm.lower() not in ("https", ""):
        name = "ssl.endpoint.identification.algorithm"
        raise _wrong(config, name, f"{algorithm} is not https or empty")
    context.check_hostname = algorithm.lower() == "https"
    _trust(context, material, ssl.Purpose.SERVER_AUTH)
    return _limited(context, config, material)


def settings_of(config: TlsConfig) -> Settings:
    """Return the inputs of a TLS context of this configuration."""
    return Settings(
        tuple(getattr(config, option.attribute) for option in _OPTIONS),
        tuple(
            _stamp(location)
            for location in (config.ssl_keystore_location, config.ssl_truststore_location)
        ),
    )


def _limited(context: ssl.SSLContext, config: TlsConfig, material: Material) -> Secured:
    if material.identity is not None:
        with _file_with(material.identity.pem()) as path:
            try:
                context.load_cert_chain(path)
            except ssl.SSLError as error:
                reason = f"OpenSSL refuses the certificate: {error.reason}"
                raise _wrong(config, "ssl.keystore.location", reason) from None
    versions = _versions(config)
    tls_1_3, older = _suites(config)
    if config.ssl_cipher_suites:
        if not tls_1_3:
            versions = [each for each in versions if each is not ssl.TLSVersion.TLSv1_3]
        if not older:
            versions = [each for each in versions if each is ssl.TLSVersion.TLSv1_3]
        if not versions:
            raise _wrong(config, "ssl.cipher.suites", "no suite fits ssl.enabled.protocols")
    if older:
        context.set_ciphers(":".join(older))
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    return Secured(context, tls_1_3 or TLS_1_3)


def _versions(config: TlsConfig) -> list[ssl.TLSVersion]:
    enabled = config.ssl_enabled_protocols
    for word in enabled:
        if word not in _VERSIONS and word not in _OBSOLETE:
            raise _wrong(config, "ssl.enabled.protocols", f"{word} is not a version of TLS")
    versions = [_VERSIONS[word] for word in enabled if word in _VERSIONS]
    if not versions:
        shown = text_of(enabled) or "an empty list"
        reason = f"{shown}: only TLSv1.2 and TLSv1.3 are supported"
        raise _wrong(config, "ssl.enabled.protocols", reason)
    return versions


def _suites(config: TlsConfig) -> tuple[frozenset[str], list[str]]:
    """The configured suites: of TLS 1.3, and OpenSSL's names of older suites."""
    tls_1_3 = frozenset(config.ssl_cipher_suites) & TLS_1_3
    older = []
    for suite in config.ssl_cipher_suites:
        name = openssl_name(suite)
        if suite in tls_1_3:
            continue
        if name is None or not _is_known(name):
            # As in Java, but there the connection would have failed only later.
            raise _wrong(config, "ssl.cipher.suites", f"{suite} is not supported")
        older.append(name)
    return tls_1_3, older


def _is_known(suite: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(suite)
    except ssl.SSLError:
        return False
    return True


def _trust(context: ssl.SSLContext, material: Material, purpose: ssl.Purpose) -> None:
    if material.trusted is None:
        context.load_default_certs(purpose)
        return
    # As in Java, a trusted certificate ends a chain even if it is not signed by itself.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    from cryptography.hazmat.primitives.serialization import Encoding

    context.load_verify_locations(
        cadata=b"".join(each.public_bytes(Encoding.DER) for each in material.trusted)
    )


def _identity(config: TlsConfig) -> Identity | None:
    kind = _store_type(config, "ssl.keystore.type", config.ssl_keystore_type)
    location, password = config.ssl_keystore_location, config.ssl_keystore_password
    key, chain = config.ssl_keystore_key, config.ssl_keystore_certificate_chain
    if key or chain:
        _check_inline(config, "ssl.keystore", kind, bool(location or password))
        if not key or not chain:
            missing = "ssl.keystore.certificate.chain" if key else "ssl.keystore.key"
            raise _wrong(config, missing, "key and certificates in PEM form need each other")
    elif not location:
        if password:
            raise _wrong(config, "ssl.keystore.location", "not set, but the store's password is")
        return None
    from wirekafka.security import key_material

    name = "ssl.keystore.key" if key else "ssl.keystore.location"
    with _naming(config, name):
        if key and chain:
            inline = f"{revealed(key)}\n{revealed(chain)}"
            return key_material.identity_from_pem(inline, config.ssl_key_password)
        assert location is not None
        if kind == _PEM:
            _check_no_password(config, "ssl.keystore.password", password)
            return key_material.identity_from_pem(_text(location), config.ssl_key_password)
        if password is None:
            raise _wrong(config, "ssl.keystore.password", "not set, but the store's location is")
        content = read_small_file(location)
        return key_material.identity_from_store(content, password, config.ssl_key_password)


def _trusted(config: TlsConfig) -> tuple[Certificate, ...] | None:
    kind = _store_type(config, "ssl.truststore.type", config.ssl_truststore_type)
    location, password = config.ssl_truststore_location, config.ssl_truststore_password
    inline = config.ssl_truststore_certificates
    if inline:
        _check_inline(config, "ssl.truststore", kind, bool(location or password))
    elif not location:
        if password:
            raise _wrong(config, "ssl.truststore.location", "not set, but the store's password is")
        return None
    from wirekafka.security import key_material

    name = "ssl.truststore.certificates" if inline else "ssl.truststore.location"
    with _naming(config, name):
        if inline:
            return key_material.certificates_from_pem(inline)
        assert location is not None
        if kind == _PEM:
            _check_no_password(config, "ssl.truststore.password", password)
            return key_material.certificates_from_pem(_text(location))
        return key_material.certificates_from_store(read_small_file(location), password)


def _store_type(config: TlsConfig, name: str, kind: str) -> str:
    if kind.upper() not in (*_STORES, _PEM):
        raise _wrong(config, name, f"{kind} is not one of {', '.join((*_STORES, _PEM))}")
    return kind.upper()


def _check_inline(config: TlsConfig, store: str, kind: str, has_file: bool) -> None:
    if kind != _PEM:
        raise _wrong(config, f"{store}.type", f"{kind}, but keys and certificates inline are PEM")
    if has_file:
        reason = "a store's file or its password, beside keys and certificates inline"
        raise _wrong(config, f"{store}.location", reason)


def _check_no_password(config: TlsConfig, name: str, password: str | None) -> None:
    if password is not None:
        raise _wrong(config, name, "a PEM file has no password, only its private key has")


@contextmanager
def _naming(config: TlsConfig, name: str) -> Iterator[None]:
    """Turn the failures of reading a store into UnusableStore."""
    from wirekafka.security.key_material import UnusableKeyMaterial

    location = config.sources.text(name) if name.endswith(".location") else None
    where = f"{location}: " if location else ""
    configured = config.sources.configured_name(name)
    try:
        yield
    except OSError as error:
        reason = f"{where}{error.strerror or error}"
        raise UnusableStore(configured, reason, _outline(config, name)) from None
    except UnusableKeyMaterial as error:
        raise UnusableStore(configured, f"{where}{error}", _outline(config, name)) from None


def _outline(config: TlsConfig, name: str) -> str:
    if not name.endswith(".location"):
        return f"{_INVALID}: Invalid PEM keystore configs"
    option = f"{name.removesuffix('.location')}.type"
    kind = _kind(config, option)
    # Kafka calls a trust store a key store too. A reference is shown as it was written.
    location = config.sources.text(name)
    if kind.upper() == _PEM:
        return f"{_INVALID}: Failed to load PEM SSL keystore {location}"
    shown = config.sources.text(option) or kind
    return f"{_FAILED}: Failed to load SSL keystore {location} of type {shown}"


def _kind(config: TlsConfig, name: str) -> str:
    is_own = name == "ssl.keystore.type"
    return config.ssl_keystore_type if is_own else config.ssl_truststore_type


def _wrong(config: TlsConfig, name: str, reason: str) -> ConfigError:
    configured = config.sources.configured_name(name)
    return ConfigError(configured, None, reason, f"{configured}: {reason}")


def _text(location: str) -> str:
    return read_small_file(location).decode("ascii", errors="replace")


def _stamp(location: str | None) -> tuple[int, int] | None:
    if not location:
        return None
    try:
        status = os.stat(location)
    except (OSError, ValueError):  # No such file, or a path with a zero byte.
        return None
    return status.st_mtime_ns, status.st_size


@contextmanager
def _file_with(content: bytes) -> Iterator[str]:
    """A file that nobody else can read, which `ssl` needs to load a key; in memory on Linux."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key")
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(content)
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.NamedTemporaryFile() as file:  # Created with mode 0600.
        file.write(content)
        file.flush()
        yield file.name
