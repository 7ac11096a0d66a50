"""The sessions of a login: when they end."""

from wirekafka.security.sasl.exchange import SaslExchange, Success
from wirekafka.security.sasl.login import Enabled, Expected, Login

NOW_MS = 1_700_000_000_000


class Admitting:
    """A mechanism that admits everybody until its credential ends."""

    def __init__(self, expires_ms: int | None):
        self._expires_ms = expires_ms

    def start(self) -> SaslExchange:
        return self

    def respond(self, token: bytes, now_ms: int) -> Success:
        return Success(b"", "alice", self._expires_ms)


def logged_in(credential_ends_ms: int | None, session_ms: int = 0) -> Login:
    """A login that was completed at `NOW_MS`."""
    login = Login(Enabled({"ADMITTING": Admitting(credential_ends_ms)}, {"ADMITTING": session_ms}))
    login.handshake("ADMITTING", 1)
    login.respond(b"", NOW_MS)
    assert login.expected is Expected.REQUESTS
    return login


def test_a_session_of_an_expired_credential_has_ended_at_once() -> None:
    for ends_ms in (NOW_MS - 5000, NOW_MS):
        login = logged_in(ends_ms)
        assert login.session_lifetime_ms(NOW_MS) == 0
        assert login.is_expired(NOW_MS)


def test_a_session_ends_with_its_lifetime() -> None:
    for login in (logged_in(NOW_MS + 3), logged_in(NOW_MS + 9, 3), logged_in(None, 3)):
        assert login.session_lifetime_ms(NOW_MS) == 3
        assert not login.is_expired(NOW_MS + 2)
        assert login.is_expired(NOW_MS + 3)


def test_a_session_without_an_end_does_not_expire() -> None:
    assert not logged_in(None).is_expired(NOW_MS << 1)
