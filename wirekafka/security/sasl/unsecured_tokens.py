"""Accepts and makes unsigned JSON Web Tokens, which prove nothing: for tests only (KIP-255).

As in Kafka, OAUTHBEARER does this where no `sasl.server.callback.handler.class` is set.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from wirekafka.security.jaas import LoginModule
from wirekafka.security.sasl.claims import decoded_part, time_claim_ms
from wirekafka.security.sasl.oauthbearer import BearerToken, TokenRefused

_OPTION = "unsecuredValidator"
_LOGIN = "unsecuredLogin"
_LIFETIME_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsecuredValidator:
    """Reads the claims of tokens with the algorithm `none`, as Kafka's unsecured validator."""

    subject_claim: str = "sub"
    scope_claim: str = "scope"
    required_scopes: frozenset[str] = frozenset()
    clock_skew_ms: int = 0

    @classmethod
    def of(cls, module: LoginModule) -> UnsecuredValidator:
        """Read the options of a login module. Raises ValueError for a clock skew of no number."""

        def option(name: str, default: str) -> str:
            return module.options.get(_OPTION + name, "").strip() or default

        return cls(
            subject_claim=option("PrincipalClaimName", "sub"),
            scope_claim=option("ScopeClaimName", "scope"),
            required_scopes=frozenset(option("RequiredScope", "").split()),
            clock_skew_ms=int(option("AllowableClockSkewMs", "0")),
        )

    def validate(self, token: str, now_ms: int) -> BearerToken:
        """Read the claims of an unsigned token that is not expired. Raises TokenRefused."""
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise TokenRefused("a token that is not unsigned")
        header, claims = decoded_part(parts[0]), decoded_part(parts[1])
        if header.get("alg") != "none":
            raise TokenRefused("a token with a signature algorithm")
        subject = claims.get(self.subject_claim)
        if not isinstance(subject, str) or not subject:
            raise TokenRefused(f"the token has no valid {self.subject_claim} claim")
        expires_ms = self._expiry(claims, now_ms)
        self._check_scopes(claims.get(self.scope_claim))
        return BearerToken(subject, expires_ms)

    def _expiry(self, claims: dict[str, Any], now_ms: int) -> int:
        expires_ms, issued_ms = time_claim_ms(claims, "exp"), time_claim_ms(claims, "iat")
        if expires_ms is None or now_ms - self.clock_skew_ms >= expires_ms:
            raise TokenRefused("the token has expired")
        if issued_ms is not None and issued_ms > now_ms + self.clock_skew_ms:
            raise TokenRefused("the token is not valid yet")
        if issued_ms is not None and expires_ms <= issued_ms:
            raise TokenRefused("the token expires before it becomes valid")
        return expires_ms

    def _check_scopes(self, scopes: Any) -> None:
        found = scopes.split() if isinstance(scopes, str) else scopes or []
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise TokenRefused(f"the token has an invalid {self.scope_claim} claim")
        if not self.required_scopes <= set(found):
            raise TokenRefused("the token lacks a scope", " ".join(sorted(self.required_scopes)))


def unsigned_token(module: LoginModule, now_ms: int) -> str:
    """Return a token with the claims in a login module's options, as Kafka's handler makes it.

    Raises ValueError for an invalid number, and for a token without a subject.
    """

    def option(name: str, default: str) -> str:
        return module.options.get(_LOGIN + name, "").strip() or default

    now_s = now_ms / 1000
    claims: dict[str, Any] = {
        "iat": now_s,
        "exp": now_s + int(option("LifetimeSeconds", str(_LIFETIME_S))),
    }
    for name, text in module.options.items():
        kind, _, claim = name.removeprefix(_LOGIN).partition("Claim_")
        if not name.startswith(_LOGIN) or not claim:
            continue
        if kind == "String":
            claims[claim] = text
        elif kind == "Number":
            claims[claim] = float(text)
        elif kind == "List":
            # A first character that is no letter or digit is the separator.
            claims[claim] = text[1:].split(text[0]) if text and not text[0].isalnum() else [text]
    subject = option("PrincipalClaimName", "sub")
    if not claims.get(subject):
        raise ValueError(f"no {subject} claim: {_LOGIN}StringClaim_{subject} is not set")
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def _encoded(part: dict[str, Any]) -> str:
    text = json.dumps(part, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")
