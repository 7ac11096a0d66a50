"""Private keys and certificates, decoded from PEM text and from PKCS#12 stores.

JKS stores are not read: no maintained library reads them, and `keytool -importkeystore` converts
them. Java has made PKCS#12 stores by default since version 9, also under the name of JKS.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

_PEM_BLOCK = re.compile(
    r"-+BEGIN ([A-Z0-9 ]+)-+\s(?P<body>[^-]*?)\s?-+END \1-+", re.DOTALL | re.ASCII
)
_CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
_ENCRYPTED = "ENCRYPTED PRIVATE KEY"
_KEYS = ("PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", _ENCRYPTED)
_JKS_MAGIC = bytes.fromhex("feedfeed")

T = TypeVar("T")


class UnusableKeyMaterial(Exception):
    """A store that cannot be read, with a reason of one line that reveals no secret."""


class Identity(NamedTuple):
    """A private key and its chain of certificates, the key's own certificate first."""

    key: Any
    chain: tuple[x509.Certificate, ...]

    def __repr__(self) -> str:
        return f"Identity({self.chain[0].subject.rfc4514_string()})"

    def pem(self) -> bytes:
        """The key, not encrypted, and the chain as PEM text."""
        key: bytes = self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        chain = [each.public_bytes(serialization.Encoding.PEM) for each in self.chain]
        return b"".join([key, *chain])


def identity_from_pem(text: str, key_password: str | None) -> Identity:
    """Decode a private key and its certificates. Raises UnusableKeyMaterial."""
    keys = [(label, der) for label, der in _blocks(text) if label in _KEYS]
    if len(keys) != 1:
        raise UnusableKeyMaterial(f"{len(keys) or 'no'} private keys in PEM form, one is needed")
    [(label, der)] = keys
    if label == _ENCRYPTED and not key_password:
        raise UnusableKeyMaterial("the private key is encrypted and ssl.key.password is not set")
    password = key_password.encode() if key_password and label == _ENCRYPTED else None
    key = _decoded(
        lambda: serialization.load_der_private_key(der, password),
        "the private key cannot be decrypted: wrong ssl.key.password?"
        if password
        else "the private key cannot be decoded",
    )
    return _identity(key, certificates_from_pem(text))


def certificates_from_pem(text: str) -> tuple[x509.Certificate, ...]:
    """Decode one or more certificates. Raises UnusableKeyMaterial."""
    found = tuple(
        _decoded(partial(x509.load_der_x509_certificate, der), "a certificate is malformed")
        for label, der in _blocks(text)
        if label in _CERTIFICATES
    )
    if not found:
        raise UnusableKeyMaterial("no certificate in PEM form")
    return found


def identity_from_store(store: bytes, password: str, key_password: str | None) -> Identity:
    """Decode the key and the certificates of a PKCS#12 store. Raises UnusableKeyMaterial."""
    if key_password is not None and key_password != password:
        raise UnusableKeyMaterial(
            "a key password that differs from the store's is not supported in PKCS#12 stores"
        )
    content = _pkcs12(store, password)
    if content.key is None or content.cert is None:
        raise UnusableKeyMaterial("no private key in the store")
    others = [each.certificate for each in content.additional_certs]
    return _identity(content.key, (content.cert.certificate, *others))


def certificates_from_store(store: bytes, password: str | None) -> tuple[x509.Certificate, ...]:
    """Decode the trusted certificates of a PKCS#12 store. Raises UnusableKeyMaterial.

    Beside a private key only certificates with a name are trusted, as in Java: unnamed certificates
    are the chain of the key.
    """
    content = _pkcs12(store, password)
    trusted = [
        each.certificate
        for each in content.additional_certs
        if content.key is None or each.friendly_name
    ]
    if content.cert is not None:
        trusted.append(content.cert.certificate)
    if not trusted:
        raise UnusableKeyMaterial("no certificate in the store")
    return tuple(trusted)


def _pkcs12(store: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    if store.startswith(_JKS_MAGIC):
        raise UnusableKeyMaterial(
            "this is a JKS store; convert it with "
            "keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12"
        )
    return _decoded(
        lambda: pkcs12.load_pkcs12(store, password.encode() if password else None),
        "not a PKCS#12 store, or its password is wrong",
    )


def _identity(key: Any, certificates: Sequence[x509.Certificate]) -> Identity:
    own = [each for each in certificates if each.public_key() == key.public_key()]
    if not own:
        raise UnusableKeyMaterial("no certificate belongs to the private key")
    chain, rest = [own[0]], [each for each in certificates if each not in own]
    while rest:
        issuers = [each for each in rest if each.subject == chain[-1].issuer]
        if not issuers:
            break
        chain.append(issuers[0])
        rest.remove(issuers[0])
    return Identity(key, tuple(chain))


def _blocks(text: str) -> list[tuple[str, bytes]]:
    """The label and the content of each PEM block; lines may be joined by blanks."""
    return [(found[1], _base64(found["body"])) for found in _PEM_BLOCK.finditer(text)]


def _base64(body: str) -> bytes:
    try:
        return base64.b64decode("".join(body.split()), validate=True)
    except binascii.Error:
        raise UnusableKeyMaterial("a PEM block is not base64; keys must be PKCS#8") from None


def _decoded(decode: Callable[[], T], reason: str) -> T:
    try:
        return decode()
    # UnsupportedAlgorithm and the like; their texts may quote what they could not read.
    except Exception:
        raise UnusableKeyMaterial(reason) from None
