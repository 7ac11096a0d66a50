"""The client's side of SASL, by which commands and nodes log in at brokers and controllers."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Protocol

from wirekafka.security.jaas import LoginModule
from wirekafka.security.sasl import plain
from wirekafka.security.sasl.exchange import AuthenticationFailed
from wirekafka.security.sasl.scram import ALGORITHMS, FEWEST_ITERATIONS, Algorithm

_MOST_ITERATIONS = 1_000_000
_CHALLENGE = re.compile(r"r=(?P<nonce>[^,]+),s=(?P<salt>[^,]+),i=(?P<iterations>\d{1,7})(?:,.*)?")
_HEADER = "n,,"

MECHANISMS = (plain.NAME, *ALGORITHMS)
"""The mechanisms of this module."""


class ClientExchange(Protocol):
    """The client's side of one authentication; used once."""

    def first(self) -> bytes:
        """The token that begins the exchange."""

    def respond(self, token: bytes) -> bytes | None:
        """The answer to the broker's token, None after the broker's last token.

        Raises AuthenticationFailed if the broker does not prove that it knows the password.
        """


def exchange_of(
    mechanism: str, module: LoginModule, new_nonce: Callable[[], str]
) -> ClientExchange:
    """The exchange of a mechanism with the `username` and `password` of a login module.

    `new_nonce` returns a random text of printable ASCII without commas. Raises
    AuthenticationFailed for a mechanism not in `MECHANISMS` and for a missing user or password.
    """
    if mechanism not in MECHANISMS:
        raise AuthenticationFailed(f"{mechanism} is none of {', '.join(MECHANISMS)}")
    user, password = module.options.get("username"), module.options.get("password")
    if not user or not password:
        raise AuthenticationFailed("sasl.jaas.config needs a username and a password")
    if mechanism == plain.NAME:
        return PlainClient(user, password)
    token = module.options.get("tokenauth", "").lower() == "true"
    return ScramClient(
        ALGORITHMS[mechanism], user, password, new_nonce() + (",tokenauth=true" if token else "")
    )


class PlainClient:
    """SASL/PLAIN (RFC 4616): the password is sent, so that it belongs on TLS only."""

    def __init__(self, user: str, password: str):
        self._token = f"\0{user}\0{password}".encode()

    def first(self) -> bytes:
        """The only message."""
        return self._token

    def respond(self, token: bytes) -> bytes | None:
        """The broker's token is empty."""
        return None


class BearerClient:
    """OAUTHBEARER (RFC 7628): the bearer of a token acts as its subject."""

    def __init__(self, token: str):
        self._token = token
        self._report = ""

    def first(self) -> bytes:
        """The token."""
        return f"{_HEADER}\1auth=Bearer {self._token}\1\1".encode()

    def respond(self, token: bytes) -> bytes | None:
        """None if the token was accepted; else the acknowledgement of the broker's report."""
        if self._report:
            raise AuthenticationFailed(f"the token is refused: {self._report}")
        if not token:
            return None
        self._report = token.decode(errors="replace")
        return b"\1"


class ScramClient:
    """SCRAM (RFC 5802): each side proves that it knows the password."""

    def __init__(self, algorithm: Algorithm, user: str, password: str, nonce: str):
        """`nonce` may be followed by extensions, such as ",tokenauth=true"."""
        self._algorithm = algorithm
        self._password = password
        self._nonce = nonce.partition(",")[0]
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={nonce}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        """The user's name and the nonce."""
        return f"{_HEADER}{self._bare}".encode()

    def respond(self, token: bytes) -> bytes | None:
        """The proof for the broker's challenge, then None after checking the broker's own."""
        if self._server_signature is None:
            return self._prove(token.decode(errors="replace"))
        expected = b"v=" + base64.b64encode(self._server_signature)
        if not hmac.compare_digest(token.partition(b",")[0], expected):
            raise AuthenticationFailed("the broker does not know the password")
        return None

    def _prove(self, challenge: str) -> bytes:
        match = _CHALLENGE.fullmatch(challenge)
        if match is None:
            raise AuthenticationFailed("the broker sent an invalid SCRAM message")
        nonce, iterations = match["nonce"], int(match["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("the broker sent another nonce")
        # Few iterations would let a false broker guess the password, and many would hang us.
        if not FEWEST_ITERATIONS <= iterations <= _MOST_ITERATIONS:
            raise AuthenticationFailed(f"the broker asks for {iterations} SCRAM iterations")
        try:
            salt = base64.b64decode(match["salt"], validate=True)
        except binascii.Error:
            raise AuthenticationFailed("the broker sent an invalid SCRAM message") from None
        make = self._algorithm.hash
        salted = hashlib.pbkdf2_hmac(make().name, self._password.encode(), salt, iterations)
        without_proof = f"c={base64.b64encode(_HEADER.encode()).decode()},r={nonce}"
        signed = f"{self._bare},{challenge},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", make)
        signature = hmac.digest(make(client_key).digest(), signed, make)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", make), signed, make)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
