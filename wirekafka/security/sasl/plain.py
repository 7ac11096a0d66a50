"""SASL/PLAIN: a user name and a password in one message (RFC 4616)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from wirekafka.security.jaas import LoginModule
from wirekafka.security.sasl.exchange import AuthenticationFailed, Success

NAME = "PLAIN"
LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"

_USER = "user_"
_OTHER_USER = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class Plain:
    """The users of a listener. Digests of their passwords are kept and compared.

    Digests have one size, so that the time of a comparison depends on no password's length.
    """

    def __init__(self, passwords: Mapping[str, str]):
        self._digests = {
            user: _digest(password) for user, password in passwords.items() if password
        }

    @classmethod
    def of(cls, module: LoginModule) -> Plain:
        """The users that a login module lists as `user_<name>="<password>"`."""
        return cls(
            {
                name.removeprefix(_USER): password
                for name, password in module.options.items()
                if name.startswith(_USER)
            }
        )

    def start(self) -> Plain:
        """Begin an exchange: it is one message and has no state."""
        return self

    def respond(self, token: bytes, now_ms: int) -> Success:
        """Check the client's only message. Raises AuthenticationFailed."""
        parts = token.decode(errors="replace").split("\0")
        if len(parts) != 3:
            raise AuthenticationFailed.public(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}"
            )
        authorization_id, user, password = parts
        if not user:
            raise AuthenticationFailed.public("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed.public("Authentication failed: password not specified")
        # Unknown users cost the same digest and comparison as known ones.
        expected = self._digests.get(user, _NOBODY)
        if not hmac.compare_digest(_digest(password), expected):
            raise AuthenticationFailed.public("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise AuthenticationFailed.public(_OTHER_USER)
        return Success(b"", user)


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode(errors="surrogatepass")).digest()


_NOBODY = bytes(32)
"""Compared for unknown users; no password is known to have this digest."""
