"""Creation, renewal, expiry and removal of delegation tokens (KIP-48, KIP-900)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY
from typing import NamedTuple

from wirekafka.codec.message import Message
from wirekafka.errors import Error, KafkaError
from wirekafka.log.checkpoints import uuid_text
from wirekafka.metadata.controller.command import (
    MOST_RECORDS_PER_BATCH,
    ControllerCommand,
    ControllerState,
    Decision,
)
from wirekafka.protocol.records.metadata import DelegationTokenRecord, RemoveDelegationTokenRecord
from wirekafka.runtime.machine import command
from wirekafka.security.tokens import hmac_of, is_expired, may_renew

_SUPPORTED_SINCE = 14
"""The metadata.version 3.6-IV2, whose brokers all understand the records."""


class NewToken(NamedTuple):
    """A created token and its HMAC, which only the client that requested it is sent."""

    token: DelegationTokenRecord
    hmac: bytes


@command
class CreateToken(ControllerCommand[NewToken]):
    """Create a token; the reply is a `NewToken`. Principals are texts such as "User:alice".

    A `max_lifetime_ms` that is not positive, or larger than `delegation.token.max.lifetime.ms`, is
    replaced by this option's value.
    """

    _: KW_ONLY

    owner: str
    requester: str
    renewers: Sequence[str]
    max_lifetime_ms: int

    def decide(self, state: ControllerState, now_ms: int) -> Decision[NewToken]:
        """Return the token's record. Raises KafkaError."""
        secret = _secret(state)
        if state.image.metadata_version < _SUPPORTED_SINCE:
            raise KafkaError(Error.UNSUPPORTED_VERSION)
        if any(not renewer.startswith("User:") for renewer in self.renewers):
            raise KafkaError(Error.INVALID_PRINCIPAL_TYPE)
        config = state.config
        lifetime_ms = _limited(self.max_lifetime_ms, config.delegation_token_max_lifetime_ms)
        token = DelegationTokenRecord(
            owner=self.owner,
            requester=self.requester,
            renewers=list(self.renewers),
            issue_timestamp=now_ms,
            max_timestamp=now_ms + lifetime_ms,
            expiration_timestamp=now_ms + min(lifetime_ms, config.delegation_token_expiry_time_ms),
            token_id=uuid_text(state.new_id()),
        )
        return Decision([token], NewToken(token, hmac_of(token.token_id, secret)))


@command
class RenewToken(ControllerCommand[int]):
    """Set a later or earlier expiry; the reply is the expiry in wall-clock milliseconds.

    A `period_ms` that is not positive, or larger than `delegation.token.expiry.time.ms`, is
    replaced by this option's value.
    """

    hmac: bytes
    requester: str
    period_ms: int

    def decide(self, state: ControllerState, now_ms: int) -> Decision[int]:
        """Return the changed record. Raises KafkaError."""
        token = _found(state, self.hmac)
        if is_expired(token, now_ms):
            raise KafkaError(Error.DELEGATION_TOKEN_EXPIRED)
        _check_may_renew(token, self.requester)
        limit_ms = state.config.delegation_token_expiry_time_ms
        return _expiring_at(token, now_ms + _limited(self.period_ms, limit_ms))


@command
class ExpireToken(ControllerCommand[int]):
    """Set when a token expires; a negative `period_ms` removes it at once.

    The reply is the time of expiry in wall-clock milliseconds.
    """

    hmac: bytes
    requester: str
    period_ms: int

    def decide(self, state: ControllerState, now_ms: int) -> Decision[int]:
        """Return the changed record, or the record that removes the token. Raises KafkaError."""
        token = _found(state, self.hmac)
        _check_may_renew(token, self.requester)
        if self.period_ms < 0:
            return Decision([RemoveDelegationTokenRecord(token_id=token.token_id)], now_ms)
        if is_expired(token, now_ms):
            raise KafkaError(Error.DELEGATION_TOKEN_EXPIRED)
        return _expiring_at(token, now_ms + self.period_ms)


def expired_tokens(state: ControllerState, now_ms: int) -> list[Message]:
    """The records that remove expired tokens, as many as fit into one batch."""
    expired: list[Message] = [
        RemoveDelegationTokenRecord(token_id=token.token_id)
        for token in state.image.security.tokens.values()
        if is_expired(token, now_ms)
    ]
    return expired[:MOST_RECORDS_PER_BATCH]


def _secret(state: ControllerState) -> str:
    secret = state.config.delegation_token_secret_key
    if not secret:
        raise KafkaError(Error.DELEGATION_TOKEN_AUTH_DISABLED)
    return secret


def _found(state: ControllerState, wanted: bytes) -> DelegationTokenRecord:
    secret = _secret(state)
    tokens = state.image.security.tokens
    return tokens[state.token_hmacs.token_id(wanted, tokens.keys(), secret)]


def _check_may_renew(token: DelegationTokenRecord, requester: str) -> None:
    if not may_renew(token, requester):
        raise KafkaError(Error.DELEGATION_TOKEN_OWNER_MISMATCH)


def _expiring_at(token: DelegationTokenRecord, due_ms: int) -> Decision[int]:
    changed = copy(token)  # The image changes only when the record is replayed.
    changed.expiration_timestamp = min(token.max_timestamp, due_ms)
    return Decision([changed], changed.expiration_timestamp)


def _limited(wanted_ms: int, limit_ms: int) -> int:
    return min(wanted_ms, limit_ms) if wanted_ms > 0 else limit_ms
