"""Reads the claims of JSON Web Tokens, whose signatures it does not verify (RFC 7519)."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from wirekafka.security.sasl.oauthbearer import TokenRefused

_TIME_LIMIT_S = 1 << 40
"""The end of the accepted times; in ms, they fit into 64 bits."""


def decoded_part(part: str) -> dict[str, Any]:
    """The JSON object of a token's header or payload. Raises TokenRefused."""
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        raise TokenRefused("a token that is not JSON in base64") from None
    if not isinstance(found, dict):
        raise TokenRefused("a token that is not of JSON objects")
    return found


def time_claim_s(claims: dict[str, Any], name: str) -> float | None:
    """A time in s since 1970, perhaps with a fraction; None without the claim.

    Raises TokenRefused for a value that is no time.
    """
    value: Any = claims.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < _TIME_LIMIT_S:
        raise TokenRefused(f"the token has no valid {name} claim")
    time_s: float = value
    return time_s


def time_claim_ms(claims: dict[str, Any], name: str) -> int | None:
    """As `time_claim_s`, in ms."""
    time_s = time_claim_s(claims, name)
    return None if time_s is None else round(time_s * 1000)
