"""SASL/SCRAM-SHA-256 and SCRAM-SHA-512: a password is proven without being sent (RFC 5802).

Beyond the RFC, an extension `tokenauth=true` logs in with a delegation token (KIP-48).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wirekafka.security.sasl.exchange import AuthenticationFailed, Challenge, Step, Success

LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
FEWEST_ITERATIONS, MOST_ITERATIONS = 4096, 16384
"""That Kafka accepts for a new password (KIP-554)."""

_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_BASE64 = r"(?:[A-Za-z0-9/+]{4})*(?:[A-Za-z0-9/+]{3}=|[A-Za-z0-9/+]{2}==)?"
_FIRST = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization_id>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>{_PRINTABLE})"
    rf"(?P<extensions>(?:,[A-Za-z]+={_VALUE})*))"
)
# The proof covers no extension after the nonce, as in Kafka; RFC 5802 section 5.1 includes them.
_FINAL = re.compile(
    rf"(?P<proven>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}))"
    rf"(?:,[A-Za-z]+={_VALUE})*,p=(?P<proof>{_BASE64})"
)
_INVALID = "Authentication failed: Invalid user credentials"
_OTHER_USER = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class Algorithm(NamedTuple):
    """A SCRAM mechanism: its SASL name, its number in records and requests, its hash function."""

    name: str
    number: int
    hash: Callable[..., Any]


SHA_256 = Algorithm("SCRAM-SHA-256", 1, hashlib.sha256)
SHA_512 = Algorithm("SCRAM-SHA-512", 2, hashlib.sha512)
ALGORITHMS = {each.name: each for each in (SHA_256, SHA_512)}


@dataclass(frozen=True, slots=True)
class Credential:
    """The stored form of a password (RFC 5802 section 3); hidden in repr."""

    salt: bytes = field(repr=False)
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def of_password(
        cls, password: str, algorithm: Algorithm, salt: bytes, iterations: int
    ) -> Credential:
        """Derive the credential of a password; takes milliseconds, by design."""
        name = algorithm.hash().name
        return cls.of_salted(
            hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations),
            algorithm,
            salt,
            iterations,
        )

    @classmethod
    def of_salted(
        cls, salted_password: bytes, algorithm: Algorithm, salt: bytes, iterations: int
    ) -> Credential:
        """Derive the stored and the server key from a salted password."""
        client_key = hmac.digest(salted_password, b"Client Key", algorithm.hash)
        return cls(
            salt,
            iterations,
            algorithm.hash(client_key).digest(),
            hmac.digest(salted_password, b"Server Key", algorithm.hash),
        )


class TokenLogin(NamedTuple):
    """A delegation token that may log in: the credential of its HMAC, its owner and its end."""

    credential: Credential
    owner: str
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scram:
    """One SCRAM mechanism of a listener."""

    algorithm: Algorithm
    credential: Callable[[str], Credential | None]
    """The credential of a user, None for an unknown user."""
    token: Callable[[str], TokenLogin | None] = lambda token_id: None
    """The delegation token of an id, None for an unknown or expired one."""
    new_nonce: Callable[[], str]
    """A random text of printable ASCII characters without commas."""

    def start(self) -> ScramExchange:
        return ScramExchange(self)


class ScramExchange:
    """One SCRAM authentication: the client's first message, then its final one."""

    def __init__(self, mechanism: Scram):
        self._mechanism = mechanism
        self._first: _First | None = None
        self._is_over = False

    def respond(self, token: bytes, now_ms: int) -> Step:
        """Answer the first or the final message. Raises AuthenticationFailed."""
        if self._is_over:
            raise AuthenticationFailed("a message after the end of the exchange")
        try:
            if self._first is None:
                return self._challenge(token)
            self._is_over = True
            return self._verify(self._first, token)
        except AuthenticationFailed:
            self._is_over = True
            raise

    def _challenge(self, token: bytes) -> Challenge:
        match = _FIRST.fullmatch(_text(token))
        if match is None:
            raise AuthenticationFailed("an invalid first SCRAM message")
        user = match["user"].replace("=2C", ",").replace("=3D", "=")
        identity = self._identity(user, match["extensions"])
        if match["authorization_id"] not in (None, match["user"]):
            raise AuthenticationFailed.public(_OTHER_USER)
        credential = identity.credential
        if credential.iterations < FEWEST_ITERATIONS:
            raise AuthenticationFailed(f"a credential of only {credential.iterations} iterations")
        nonce = match["nonce"] + self._mechanism.new_nonce()
        salt = base64.b64encode(credential.salt).decode()
        message = f"r={nonce},s={salt},i={credential.iterations}"
        self._first = _First(match["header"], match["bare"], message, nonce, identity)
        return Challenge(message.encode())

    def _identity(self, user: str, extensions: str) -> _Identity:
        options = dict(part.split("=", 1) for part in extensions.split(",")[1:])
        if options.get("tokenauth", "").lower() == "true":
            found = self._mechanism.token(user)
            if found is None:
                raise AuthenticationFailed("an unknown delegation token")
            return _Identity(found.owner, found.credential, found.expires_ms)
        credential = self._mechanism.credential(user)
        if credential is None:
            raise AuthenticationFailed(_INVALID)
        return _Identity(user, credential, None)

    def _verify(self, first: _First, token: bytes) -> Success:
        match = _FINAL.fullmatch(_text(token))
        if match is None:
            raise AuthenticationFailed("an invalid final SCRAM message")
        if not hmac.compare_digest(match["nonce"], first.nonce):
            raise AuthenticationFailed("a final SCRAM message with another nonce")
        if match["channel"] != base64.b64encode(first.header.encode()).decode():
            # Kafka ignores this; RFC 5802 section 6 requires the server to check it.
            raise AuthenticationFailed("a final SCRAM message with another channel binding")
        make, credential = self._mechanism.algorithm.hash, first.identity.credential
        signed = f"{first.bare},{first.message},{match['proven']}".encode()
        signature = hmac.digest(credential.stored_key, signed, make)
        proof = base64.b64decode(match["proof"])
        if len(proof) != len(signature):
            raise AuthenticationFailed("a SCRAM proof of another length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(make(client_key).digest(), credential.stored_key):
            raise AuthenticationFailed("Invalid client credentials")
        server_signature = hmac.digest(credential.server_key, signed, make)
        identity = first.identity
        return Success(
            b"v=" + base64.b64encode(server_signature),
            identity.user,
            identity.expires_ms,
            by_delegation_token=identity.expires_ms is not None,
        )


class _Identity(NamedTuple):
    user: str
    credential: Credential
    expires_ms: int | None


class _First(NamedTuple):
    """The parts of the first message and its answer that the check of the final message needs."""

    header: str
    bare: str
    message: str
    nonce: str
    identity: _Identity


def _text(token: bytes) -> str:
    try:
        return token.decode("ascii")
    except UnicodeDecodeError:
        raise AuthenticationFailed("a SCRAM message that is not ASCII") from None
