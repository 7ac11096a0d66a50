"""The client's messages of SCRAM, which may be wrong on purpose."""

from __future__ import annotations

import base64
import hashlib
import hmac

from wirekafka.conformance.cases.security.users import MECHANISMS, PASSWORD, SHA_256


class ScramMessages:
    """One SCRAM exchange; the attributes may be changed between the messages."""

    def __init__(
        self, user: str, password: str = PASSWORD, mechanism: str = SHA_256, extensions: str = ""
    ) -> None:
        self.user, self.password, self.extensions = user, password, extensions
        self.algorithm = MECHANISMS[mechanism][1]
        self.header = "n,,"
        self.nonce = "abc"
        self.final_nonce: str | None = None
        self.final_extensions = ""
        self.signs_final_extensions = True
        self.binding: bytes | None = None
        self.proof: bytes | None = None
        self.signature = ""
        """The proof that the broker knows the password, once the last message is made."""

    def first(self) -> bytes:
        """The client's first message."""
        self._bare = f"n={self.user},r={self.nonce}{self.extensions}"
        return (self.header + self._bare).encode()

    def final(self, challenge: bytes) -> bytes:
        """The client's last message, after the broker's first."""
        parts = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salted = hashlib.pbkdf2_hmac(
            self.algorithm, self.password.encode(), base64.b64decode(parts["s"]), int(parts["i"])
        )
        binding = self.header.encode() if self.binding is None else self.binding
        nonce = parts["r"] if self.final_nonce is None else self.final_nonce
        without_proof = f"c={base64.b64encode(binding).decode()},r={nonce}"
        extended = without_proof + self.final_extensions
        signed_part = extended if self.signs_final_extensions else without_proof
        signed = f"{self._bare},{challenge.decode()},{signed_part}".encode()
        client_key = hmac.digest(salted, b"Client Key", self.algorithm)
        stored_key = hashlib.new(self.algorithm, client_key).digest()
        server_key = hmac.digest(salted, b"Server Key", self.algorithm)
        found = base64.b64encode(hmac.digest(server_key, signed, self.algorithm))
        self.signature = found.decode()
        signature = hmac.digest(stored_key, signed, self.algorithm)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        shown = base64.b64encode(proof if self.proof is None else self.proof)
        return f"{extended},p={shown.decode()}".encode()
