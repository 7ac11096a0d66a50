"""ExpireDelegationToken: who may end a token, and when."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.security.tokens import (
    ALICE,
    BOB,
    CAROL,
    DAY_MS,
    HOUR_MS,
    NEEDS,
    await_token,
    description,
    log_in_by,
    tokens_of,
)
from wirekafka.conformance.cases.security.users import add_user
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.expire_delegation_token import ExpireDelegationTokenRequest

BOOK = Book(ExpireDelegationTokenRequest, "security", ConformanceLevel.SECURITY, "KIP-48")
_PERIODS = {
    "in an hour": HOUR_MS,
    "in three days": 3 * DAY_MS,
    "after its life": 30 * DAY_MS,
    "at once": -1,
    "long ago": -HOUR_MS,
    "now": 0,
    "at the largest number": (1 << 63) - 1,
}

for _what, _period_ms in _PERIODS.items():

    @BOOK.play(_what, needs=NEEDS)
    def _expire(stage: Stage, period_ms: int = _period_ms) -> None:
        add_user(stage, ALICE)
        with tokens_of(stage) as tokens:
            tokens.expire(ALICE, tokens.prepare(ALICE), period_ms)


@BOOK.play("a token that has ended", needs=NEEDS)
def _ended(stage: Stage) -> None:
    """It is listed no more, and cannot end again."""
    alice = add_user(stage, ALICE)
    with tokens_of(stage) as tokens:
        token = tokens.prepare(ALICE)
        tokens.expire(ALICE, token, -1)
        await_token(stage, token.token_id, None)
        stage.ask(description(("User", alice)), 2, by=ALICE)
        tokens.expire(ALICE, token, -1)
        tokens.renew(ALICE, token, HOUR_MS, 2)


@BOOK.play("by others", needs=NEEDS)
def _others(stage: Stage) -> None:
    """The owner and the renewers may, and nobody else, not even the super user."""
    add_user(stage, ALICE)
    add_user(stage, BOB)
    carol = add_user(stage, CAROL)
    with tokens_of(stage) as tokens:
        token = tokens.prepare(ALICE, renewers=[("User", carol)])
        for user in (BOB, "first", CAROL, ALICE):
            tokens.expire(user, token, HOUR_MS)
        for user in (BOB, "first", CAROL):
            tokens.expire(user, token, -1)


for _what, _hmac in {"no HMAC": b"", "an unknown HMAC": bytes(64), "a short HMAC": b"x"}.items():

    @BOOK.play(_what, needs=NEEDS)
    def _unknown(stage: Stage, hmac: bytes = _hmac) -> None:
        add_user(stage, ALICE)
        for period_ms in (HOUR_MS, -1):
            request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
            stage.ask(request, by=ALICE)


@BOOK.play("by the login with the token", needs=NEEDS)
def _by_token(stage: Stage) -> None:
    """Who has logged in by a token ends none."""
    add_user(stage, ALICE)
    with tokens_of(stage) as tokens:
        token = tokens.prepare(ALICE)
        log_in_by(stage, "token", token)
        tokens.expire("token", token, -1)


@BOOK.play("on a listener without logins", needs={Need.NO_LOGIN})
def _anonymous(stage: Stage) -> None:
    stage.ask(ExpireDelegationTokenRequest(hmac=bytes(64), expiry_time_period_ms=-1))
