"""Client assertions: signed tokens by which a node proves its identity to a provider (RFC 7523)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wirekafka.config.small_file import read_small_file


class UnusableAssertion(ValueError):
    """An assertion that cannot be read or signed; the text reveals no part of key or assertion."""


@dataclass(frozen=True, slots=True)
class AssertionFile:
    """A file with an assertion that something else keeps up to date."""

    path: str

    def make(self, now_ms: int) -> str:
        """Read the assertion. Raises OSError, UnusableAssertion."""
        text = read_small_file(self.path).decode(errors="replace").strip()
        if not text:
            raise UnusableAssertion(f"{self.path} is empty")
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedAssertion:
    """Assertions that are signed with a private key, which is read again for each.

    As in Kafka, claims of the template file replace configured claims of the same name, and the
    times replace both.
    """

    algorithm: str
    key_path: str
    passphrase: str | None = field(repr=False)
    claims: Mapping[str, str]
    template_path: str | None
    expires_s: int
    not_before_s: int
    has_id: bool

    def make(self, now_ms: int) -> str:
        """Sign an assertion. Raises OSError, UnusableAssertion."""
        # Imported where needed: the libraries take a tenth of a broker's start.
        from joserfc import jwt
        from joserfc.errors import JoseError

        header, claims = self._template()
        now_s = now_ms // 1000
        claims = {**self.claims, **claims, "iat": now_s, "exp": now_s + self.expires_s}
        claims["nbf"] = now_s - self.not_before_s
        if self.has_id:
            claims["jti"] = str(uuid.uuid4())
        header |= {"alg": self.algorithm, "typ": "JWT"}
        try:
            return jwt.encode(header, claims, self._key(), algorithms=[self.algorithm])
        except (JoseError, ValueError, TypeError) as error:
            reason = f"{self.key_path} cannot sign by {self.algorithm}: {type(error).__name__}"
            raise UnusableAssertion(reason) from None

    def _template(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if self.template_path is None:
            return {}, {}
        try:
            found = json.loads(read_small_file(self.template_path))
            header, claims = dict(found.get("header") or {}), dict(found.get("payload") or {})
        except (ValueError, TypeError, AttributeError, RecursionError):
            reason = f"{self.template_path} is no JSON object with header and payload"
            raise UnusableAssertion(reason) from None
        return header, claims

    def _key(self) -> Any:
        from cryptography.hazmat.primitives import serialization
        from joserfc.jwk import ECKey, RSAKey

        password = self.passphrase.encode() if self.passphrase else None
        try:
            key = serialization.load_pem_private_key(read_small_file(self.key_path), password)
            pem = key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            return (RSAKey if self.algorithm.startswith("RS") else ECKey).import_key(pem)
        except OSError:
            raise
        except Exception:  # Texts of the library may quote what it could not read.
            reason = f"{self.key_path} is no private key for {self.algorithm}, or its passphrase"
            raise UnusableAssertion(f"{reason} is wrong") from None
