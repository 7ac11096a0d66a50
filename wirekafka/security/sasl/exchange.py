"""The interface of all SASL mechanisms: the exchange of tokens, its result and its failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class AuthenticationFailed(Exception):
    """Credentials that are refused.

    The text is for the broker's log and contains no secret. `shown` is the text that the client may
    see; None stands for a text that reveals only the mechanism.
    """

    def __init__(self, reason: str, shown: str | None = None):
        super().__init__(reason)
        self.shown = shown

    @classmethod
    def public(cls, reason: str) -> AuthenticationFailed:
        """A failure whose reason the client may see."""
        return cls(reason, reason)


@dataclass(frozen=True, slots=True)
class Challenge:
    """A token for the client, which has to send its next token."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Success:
    """The end of an exchange: the client is who it claims to be.

    `user` is the name in the principal. `expires_ms` is the wall-clock time in milliseconds at
    which the credential ends, None for passwords.
    """

    token: bytes
    user: str
    expires_ms: int | None = None
    by_delegation_token: bool = False


Step = Challenge | Success


class SaslExchange(Protocol):
    """The server side of one authentication; used once."""

    def respond(self, token: bytes, now_ms: int) -> Step:
        """Answer the client's next token. Raises AuthenticationFailed; it ends the exchange."""


class Mechanism(Protocol):
    """A SASL mechanism with its credentials, for all connections of a listener."""

    def start(self) -> SaslExchange:
        """Begin the exchange of one connection."""
