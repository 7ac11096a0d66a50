"""Makes a certificate authority and a broker's certificate, where nobody has provided them."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_PEM = serialization.Encoding.PEM
_AUTHORITY_LASTS = timedelta(days=3650)
_CERTIFICATE_LASTS = timedelta(days=730)
_RENEW_BEFORE_END = timedelta(days=60)
_CLOCK_SKEW = timedelta(hours=1)
_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key and its certificate, both as PEM text; the key is hidden in repr."""

    key_pem: str = field(repr=False)
    certificate_pem: str

    @property
    def pem(self) -> str:
        """Key and certificate in one text, the form of a PEM `ssl.keystore.location`."""
        return self.key_pem + self.certificate_pem


def new_authority(now: datetime) -> KeyPair:
    """A new certificate authority with an EC key, valid for ten years. `now` is in UTC."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    name = _name(f"wirekafka CA {serial:x}"[:32])
    certificate = (
        _unsigned(name, key.public_key(), now, _AUTHORITY_LASTS)
        .issuer_name(name)
        .serial_number(serial)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _pair(key, certificate)


def issue(authority: KeyPair, names: Sequence[str], now: datetime) -> KeyPair:
    """A new key with a server certificate of the authority, valid for two years.

    The certificate is for `names`, which are host names and IP addresses, and for this machine's
    loopback addresses. `now` is in UTC.
    """
    issuer_key = serialization.load_pem_private_key(authority.key_pem.encode(), None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(authority.certificate_pem.encode())
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _unsigned(_name("wirekafka"), key.public_key(), now, _CERTIFICATE_LASTS)
        .issuer_name(issuer.subject)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
        .add_extension(
            x509.SubjectAlternativeName([_general_name(each) for each in _all(names)]),
            critical=False,
        )
        .sign(issuer_key, hashes.SHA256())
    )
    return _pair(key, certificate)


def is_usable(certificate_pem: str, names: Sequence[str], now: datetime) -> bool:
    """Whether a certificate is for all `names` and is valid for another two months."""
    certificate = x509.load_pem_x509_certificate(certificate_pem.encode())
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return (
        all(_general_name(each) in found for each in _all(names))
        and certificate.not_valid_after_utc > now + _RENEW_BEFORE_END
    )


def _all(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys((*_LOCAL, *names)))


def _unsigned(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, lasts: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lasts)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """The key usage of an authority, or of a server or client (RFC 5280)."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name if name.isascii() else name.encode("idna").decode())


def _pair(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> KeyPair:
    private = key.private_bytes(
        _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(private.decode(), certificate.public_bytes(_PEM).decode())
