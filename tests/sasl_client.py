"""The client's side of SASL, independent of the broker's; it can also send invalid messages."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

from joserfc import jws
from joserfc.jwk import RSAKey

from tests.raw_client import RawClient
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest
from wirekafka.security.sasl.jwt import ALGORITHMS

SOFTWARE = {"client_software_name": "raw", "client_software_version": "1"}


def plain(user: str, password: str, authorization_id: str = "") -> bytes:
    return f"{authorization_id}\0{user}\0{password}".encode()


class ScramClient:
    """One SCRAM exchange; the attributes may be changed between the messages."""

    def __init__(self, user: str, password: str, algorithm: str = "sha256", extensions: str = ""):
        self.user, self.password, self.algorithm = user, password, algorithm
        self.header = "n,,"
        self.nonce = "fyko+d2lbbFgONRv9qkxdawL"
        self.extensions = extensions
        self.final_nonce: str | None = None
        self.final_extensions = ""
        self.signs_final_extensions = True
        self.binding: bytes | None = None
        self.server_signature = b""

    def first(self) -> bytes:
        self.bare = f"n={self.user},r={self.nonce}{self.extensions}"
        return (self.header + self.bare).encode()

    def final(self, challenge: bytes) -> bytes:
        parts = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salted = hashlib.pbkdf2_hmac(
            self.algorithm, self.password.encode(), base64.b64decode(parts["s"]), int(parts["i"])
        )
        binding = self.header.encode() if self.binding is None else self.binding
        nonce = parts["r"] if self.final_nonce is None else self.final_nonce
        without_proof = f"c={base64.b64encode(binding).decode()},r={nonce}"
        extended = without_proof + self.final_extensions
        signed_part = extended if self.signs_final_extensions else without_proof
        signed = f"{self.bare},{challenge.decode()},{signed_part}".encode()
        client_key = hmac.digest(salted, b"Client Key", self.algorithm)
        stored_key = hashlib.new(self.algorithm, client_key).digest()
        signature = hmac.digest(stored_key, signed, self.algorithm)
        server_key = hmac.digest(salted, b"Server Key", self.algorithm)
        self.server_signature = hmac.digest(server_key, signed, self.algorithm)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{extended},p={base64.b64encode(proof).decode()}".encode()

    def is_proven_by(self, answer: bytes) -> bool:
        """Whether the server's last message shows that it knows the password too."""
        return answer == b"v=" + base64.b64encode(self.server_signature)


def bearer(token: str, authorization_id: str = "", extensions: str = "") -> bytes:
    who = f"a={authorization_id}" if authorization_id else ""
    return f"n,{who},\x01auth=Bearer {token}\x01{extensions}\x01".encode()


def unsigned_token(user: str = "bob", algorithm: str = "none", **claims: Any) -> str:
    """A token of a user without a signature; a claim that is None is left out."""
    now_s = int(time.time())
    body = {"sub": user, "iat": now_s - 1, "exp": now_s + 3600, **claims}
    present = {name: value for name, value in body.items() if value is not None}
    return f"{_encoded({'alg': algorithm})}.{_encoded(present)}."


def signed_token(key: RSAKey, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """A token of user bob for the audience `kafka` from the issuer `https://issuer`.

    A claim or header that is None is left out.
    """
    now_s = int(time.time())
    body = {
        "sub": "bob",
        "iss": "https://issuer",
        "aud": "kafka",
        "iat": now_s - 1,
        "exp": now_s + 3600,
        **claims,
    }
    fields = {"alg": "RS256", "kid": key.kid, **(header or {})}
    return jws.serialize_compact(
        {name: value for name, value in fields.items() if value is not None},
        json.dumps({name: value for name, value in body.items() if value is not None}).encode(),
        key,
        registry=jws.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False),
    )


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


class SaslClient(RawClient):
    """A raw client that can log in."""

    def versions(self, version: int = 3) -> Any:
        return self.call(ApiVersionsRequest(**(SOFTWARE if version >= 3 else {})), version)

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        return self.call(SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, token: bytes, version: int = 2) -> Any:
        return self.call(SaslAuthenticateRequest(auth_bytes=token), version)

    def log_in_plain(self, user: str, password: str) -> Any:
        """Log in and return the response to the password."""
        assert self.handshake("PLAIN").error_code == 0
        return self.authenticate(plain(user, password))

    def log_in_scram(self, mechanism: str, client: ScramClient) -> Any:
        """Log in and return the response to the final message, or to an earlier refusal."""
        assert self.handshake(mechanism).error_code == 0
        answer = self.authenticate(client.first())
        if answer.error_code:
            return answer
        return self.authenticate(client.final(bytes(answer.auth_bytes)))
