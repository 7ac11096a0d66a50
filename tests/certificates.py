"""Certificate authorities and certificates for tests, as PEM and PKCS#12 files."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from tests.planted_secrets import planted
from wirekafka.security.certificates import key_usage

PASSWORD = planted("of-a-keystore")
_PEM = serialization.Encoding.PEM
_OIDS = {
    "CN": NameOID.COMMON_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "C": NameOID.COUNTRY_NAME,
}


@dataclass(frozen=True)
class Issued:
    """A private key, its certificate and those of its issuers."""

    key: Any
    chain: tuple[x509.Certificate, ...]
    directory: Path
    name: str

    @property
    def chain_pem(self) -> str:
        return "".join(each.public_bytes(_PEM).decode() for each in self.chain)

    def key_pem(self, password: str | None = None) -> str:
        encryption: Any = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        pem: bytes = self.key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption)
        return pem.decode()

    def pem(self, password: str | None = None) -> str:
        """The path of a file with key and chain."""
        return self._file(".pem", (self.key_pem(password) + self.chain_pem).encode())

    def chain_file(self) -> str:
        return self._file("-chain.pem", self.chain_pem.encode())

    def key_file(self) -> str:
        return self._file("-key.pem", self.key_pem().encode())

    def pkcs12(self, password: str = PASSWORD) -> str:
        """The path of a PKCS#12 store."""
        # Of the kind that older Java versions can read too.
        encryption = (
            serialization.PrivateFormat.PKCS12.encryption_builder()
            .kdf_rounds(2048)
            .key_cert_algorithm(pkcs12.PBES.PBESv1SHA1And3KeyTripleDESCBC)
            .hmac_hash(hashes.SHA1())
            .build(password.encode())
        )
        content = pkcs12.serialize_key_and_certificates(
            b"key", self.key, self.chain[0], self.chain[1:], encryption
        )
        return self._file(".p12", content)

    def _file(self, suffix: str, content: bytes) -> str:
        path = self.directory / (self.name + suffix)
        path.write_bytes(content)
        return str(path)


class Authority:
    """A certificate authority."""

    def __init__(self, directory: Path, name: str = "Test CA"):
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._serial = 0
        self.certificate = (
            self._unsigned(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(key_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(_PEM).decode()

    @property
    def file(self) -> str:
        path = self._directory / f"ca-{self.certificate.serial_number}.pem"
        path.write_text(self.pem)
        return str(path)

    def issue(
        self,
        subject: str,
        *names: str,
        key: str = "ec",
        days: float = 30,
        begins_in_days: float = -1,
    ) -> Issued:
        """A certificate; `subject` is such as "O=Example,CN=alice", `names` are hosts."""
        private: Any = (
            ec.generate_private_key(ec.SECP256R1())
            if key == "ec"
            else rsa.generate_private_key(public_exponent=65537, key_size=2048)
        )
        attributes = [pair.partition("=") for pair in subject.split(",")]
        builder = self._unsigned(
            x509.Name([x509.NameAttribute(_OIDS[kind], text) for kind, _, text in attributes]),
            private.public_key(),
            days,
            begins_in_days,
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        file_name = f"{subject.rpartition('=')[2]}-{certificate.serial_number % 10**9}"
        return Issued(private, (certificate, self.certificate), self._directory, file_name)

    def _unsigned(
        self, subject: x509.Name, public_key: Any, days: float = 30, begins_in_days: float = -1
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + datetime.timedelta(days=begins_in_days))
            .not_valid_after(now + datetime.timedelta(days=days))
            # Clients in Python 3.13 demand both identifiers.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )


def client_context(authority: Authority, own: Issued | None = None) -> ssl.SSLContext:
    """A client's context that trusts the authority, perhaps with a certificate of its own."""
    context = ssl.create_default_context(cadata=authority.pem)
    if own is not None:
        context.load_cert_chain(own.pem())
    return context


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
