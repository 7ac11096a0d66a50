"""Delegation tokens: their HMACs, who may renew them, and how they log in (KIP-48).

A token's HMAC is its password. It follows from the id and the secret that all nodes share, so that
no record contains it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from typing import Protocol

from wirekafka.errors import Error, KafkaError
from wirekafka.security.sasl.scram import FEWEST_ITERATIONS, Algorithm, Credential


class Token(Protocol):
    """The fields of a DelegationTokenRecord; principals are texts such as "User:alice"."""

    token_id: str
    owner: str
    requester: str
    renewers: list[str]
    max_timestamp: int
    expiration_timestamp: int


def hmac_of(token_id: str, secret: str) -> bytes:
    """The HMAC-SHA-512 of a token's id, 64 bytes."""
    return hmac.digest(secret.encode(), token_id.encode(), hashlib.sha512)


def is_expired(token: Token, now_ms: int) -> bool:
    """Whether a token can be neither renewed nor given a later expiry."""
    return min(token.max_timestamp, token.expiration_timestamp) < now_ms


def may_renew(token: Token, principal: str) -> bool:
    """Whether a principal may change when a token expires: its owner and its renewers may."""
    return principal == token.owner or principal in token.renewers


def belongs_to(token: Token, principal: str) -> bool:
    """Whether a principal may see a token without permissions: also who requested it may."""
    return principal == token.requester or may_renew(token, principal)


class TokenHmacs:
    """Finds tokens by their HMAC; computes each HMAC once."""

    def __init__(self) -> None:
        self._ids: dict[bytes, str] = {}
        self._known: set[str] = set()
        self._secret = ""

    def token_id(self, wanted: bytes, token_ids: Collection[str], secret: str) -> str:
        """The id of the token with this HMAC. Raises DELEGATION_TOKEN_NOT_FOUND."""
        if secret != self._secret or len(self._known) > 2 * len(token_ids):
            self._ids, self._known, self._secret = {}, set(), secret
        for token_id in token_ids:
            if token_id not in self._known:
                self._known.add(token_id)
                self._ids[hmac_of(token_id, secret)] = token_id
        found = self._ids.get(bytes(wanted))
        if found is None or found not in token_ids:
            raise KafkaError(Error.DELEGATION_TOKEN_NOT_FOUND)
        return found


class TokenCredentials:
    """The SCRAM credentials of tokens, derived when a token first logs in.

    Kafka derives them as soon as it learns of a token: the password is the HMAC in base64, the salt
    is random.
    """

    _MOST = 10_000

    def __init__(self, new_salt: Callable[[], bytes]):
        self._new_salt = new_salt
        self._derived: dict[tuple[str, str], Credential] = {}

    def credential(self, token_id: str, algorithm: Algorithm, secret: str) -> Credential:
        """The credential of an existing token; the first call takes milliseconds."""
        key = token_id, algorithm.name
        found = self._derived.get(key)
        if found is None:
            if len(self._derived) >= self._MOST:
                self._derived.clear()
            password = base64.b64encode(hmac_of(token_id, secret)).decode()
            found = self._derived[key] = Credential.of_password(
                password, algorithm, self._new_salt(), FEWEST_ITERATIONS
            )
        return found


def requested(token: Token, owners: AbstractSet[str] | None) -> bool:
    """Whether a description that is limited to these principals includes a token.

    Takes time for the token's renewers, however many principals a request names.
    """
    if owners is None or token.owner in owners or token.requester in owners:
        return True
    return not owners.isdisjoint(token.renewers)
