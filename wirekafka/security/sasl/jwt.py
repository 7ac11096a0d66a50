"""Validates signed JSON Web Tokens with the keys of an identity provider (RFC 7519, KIP-768)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key
from joserfc.registry import Header

from wirekafka.security.sasl.claims import time_claim_s
from wirekafka.security.sasl.oauthbearer import BearerToken, TokenRefused

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
)
"""The accepted signatures, all of public keys: neither `none` nor shared secrets."""

_REGISTRY = jws.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)


class InvalidKeys(ValueError):
    """A document that is no JSON Web Key Set."""


def read_keys(document: bytes | str) -> list[Key]:
    """The public keys of supported kinds in a JSON Web Key Set (RFC 7517).

    Raises InvalidKeys for a document of another form, or without any usable key.
    """
    try:
        entries = json.loads(document)["keys"]
        keys = [key for entry in entries if (key := _key(entry)) is not None]
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise InvalidKeys(f"no JSON Web Key Set: {type(error).__name__}") from None
    if not keys:
        raise InvalidKeys("a JSON Web Key Set without keys that verify signatures")
    return keys


def _key(entry: dict[str, Any]) -> Key | None:
    if entry.get("use", "sig") != "sig" or entry.get("kty") not in ("RSA", "EC", "OKP"):
        return None
    try:
        return JWKRegistry.import_key(entry)
    except (JoseError, ValueError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtValidator:
    """Checks tokens as Kafka's BrokerJwtValidator does; None as an expectation accepts anything."""

    keys: Callable[[str | None], Sequence[Key]]
    """The keys for a key id, or the keys for tokens without a key id."""
    issuer: str | None
    audiences: frozenset[str] | None
    clock_skew_s: int = 30
    subject_claim: str = "sub"
    scope_claim: str = "scope"

    def validate(self, token: str, now_ms: int) -> BearerToken:
        """Verify the signature and the claims of a token. Raises TokenRefused."""
        claims = self._verified(token)
        expires_s = self._check_times(claims, now_ms // 1000)
        self._check_origin(claims)
        self._check_scopes(claims.get(self.scope_claim))
        subject = claims.get(self.subject_claim)
        if not isinstance(subject, str) or not subject.strip():
            raise TokenRefused(f"the token has no valid {self.subject_claim} claim")
        return BearerToken(subject.strip(), expires_s * 1000)

    def _verified(self, token: str) -> dict[str, Any]:
        if token.count(".") != 2 or not all(token.split(".")):
            raise TokenRefused("the token does not have a header, a payload and a signature")
        try:
            signed = jws.extract_compact(token.encode(), None, _REGISTRY)
            header = signed.headers()
            if not any(self._is_signed_by(key, signed) for key in self._candidates(header)):
                raise TokenRefused("no known key has made the token's signature")
            claims = json.loads(signed.payload)
        except (JoseError, ValueError, RecursionError) as error:
            raise TokenRefused(f"the token cannot be verified: {type(error).__name__}") from None
        if not isinstance(claims, dict):
            raise TokenRefused("the token's payload is no JSON object")
        return claims

    def _candidates(self, header: Header) -> list[Key]:
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise TokenRefused("the token is not signed with an accepted algorithm")
        if key_id is not None and not isinstance(key_id, str):
            raise TokenRefused("the token's key id is no text")
        return [key for key in self.keys(key_id) if key.get("alg", algorithm) == algorithm]

    def _is_signed_by(self, key: Key, signed: jws.CompactSignature) -> bool:
        try:
            return jws.validate_compact(signed, key, registry=_REGISTRY)
        except JoseError:
            return False  # A key of another type than the algorithm needs.

    def _check_times(self, claims: dict[str, Any], now_s: int) -> int:
        """The token's expiry in seconds. Its issue time may be in the future, as Kafka allows."""
        expires_s = _required_time_s(claims, "exp")
        issued_s = _required_time_s(claims, "iat")
        not_before_s = _time_s(claims, "nbf")
        if now_s - self.clock_skew_s >= expires_s:
            raise TokenRefused("the token has expired")
        if not_before_s is not None and now_s + self.clock_skew_s < not_before_s:
            raise TokenRefused("the token is not valid yet")
        if expires_s < max(issued_s, not_before_s or issued_s):
            raise TokenRefused("the token expires before it becomes valid")
        return expires_s

    def _check_origin(self, claims: dict[str, Any]) -> None:
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise TokenRefused("the token is from another issuer")
        if self.audiences is None:
            return
        audience = claims.get("aud")
        named = [audience] if isinstance(audience, str) else audience
        if not isinstance(named, list) or not any(
            isinstance(each, str) and each in self.audiences for each in named
        ):
            raise TokenRefused("the token is for another audience")

    def _check_scopes(self, scopes: Any) -> None:
        listed = [scopes] if isinstance(scopes, str) else scopes if isinstance(scopes, list) else []
        if not all(isinstance(each, str) and each.strip() for each in listed):
            raise TokenRefused(f"the token has an invalid {self.scope_claim} claim")
        if len({each.strip() for each in listed}) != len(listed):
            raise TokenRefused(f"the token repeats a value of its {self.scope_claim} claim")


def _required_time_s(claims: dict[str, Any], name: str) -> int:
    time_s = _time_s(claims, name)
    if time_s is None:
        raise TokenRefused(f"the token has no valid {name} claim")
    return time_s


def _time_s(claims: dict[str, Any], name: str) -> int | None:
    """A time in whole seconds, rounded down."""
    time_s = time_claim_s(claims, name)
    return None if time_s is None else int(time_s)
