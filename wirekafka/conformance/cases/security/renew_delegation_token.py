"""RenewDelegationToken: who may renew a token, and for how long."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.security.tokens import (
    ALICE,
    BOB,
    CAROL,
    DAY_MS,
    HOUR_MS,
    NEEDS,
    log_in_by,
    tokens_of,
)
from wirekafka.conformance.cases.security.users import acl, add_user
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.renew_delegation_token import RenewDelegationTokenRequest
from wirekafka.security.acl import CREATE_TOKENS, USER

BOOK = Book(RenewDelegationTokenRequest, "security", ConformanceLevel.SECURITY, "KIP-48")
_PERIODS = {
    "an hour": HOUR_MS,
    "three days": 3 * DAY_MS,
    "longer than its life": 30 * DAY_MS,
    "no time": 0,
    "minus 1 ms": -1,
    "minus an hour": -HOUR_MS,
    "the largest number": (1 << 63) - 1,
}

for _what, _period_ms in _PERIODS.items():

    @BOOK.play(f"for {_what}", needs=NEEDS)
    def _for(stage: Stage, period_ms: int = _period_ms) -> None:
        add_user(stage, ALICE)
        with tokens_of(stage) as tokens:
            tokens.renew(ALICE, tokens.prepare(ALICE), period_ms)

    @BOOK.play(f"a token of two hours for {_what}", versions="2", needs=NEEDS)
    def _short(stage: Stage, period_ms: int = _period_ms) -> None:
        add_user(stage, ALICE)
        with tokens_of(stage) as tokens:
            token = tokens.prepare(ALICE, lifetime_ms=2 * HOUR_MS)
            tokens.renew(ALICE, token, period_ms)


@BOOK.play("by others", versions="1-2", needs=NEEDS)
def _others(stage: Stage) -> None:
    """The owner and the renewers may, and nobody else, not even the super user."""
    add_user(stage, ALICE)
    add_user(stage, BOB)
    carol = add_user(stage, CAROL)
    with tokens_of(stage) as tokens:
        token = tokens.prepare(ALICE, renewers=[("User", carol)])
        for user in (CAROL, BOB, "first", ALICE):
            tokens.renew(user, token, HOUR_MS)


@BOOK.play("by the user who has asked for it for another", versions="2", needs=NEEDS)
def _requester(stage: Stage) -> None:
    """The user who has created a token for another is no owner."""
    alice, bob = add_user(stage, ALICE), stage.name(BOB)
    add_user(stage, BOB, acls=[acl(f"User:{bob}", USER, f"User:{alice}", CREATE_TOKENS)])
    with tokens_of(stage) as tokens:
        token = tokens.prepare(BOB, owner=alice)
        tokens.renew(BOB, token, HOUR_MS)
        tokens.renew(ALICE, token, HOUR_MS)


for _what, _hmac in {"no HMAC": b"", "an unknown HMAC": bytes(64), "a short HMAC": b"x"}.items():

    @BOOK.play(_what, needs=NEEDS)
    def _unknown(stage: Stage, hmac: bytes = _hmac) -> None:
        add_user(stage, ALICE)
        stage.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=HOUR_MS), by=ALICE)


@BOOK.play("by the login with the token", needs=NEEDS)
def _by_token(stage: Stage) -> None:
    """Who has logged in by a token renews none."""
    add_user(stage, ALICE)
    with tokens_of(stage) as tokens:
        token = tokens.prepare(ALICE)
        log_in_by(stage, "token", token)
        tokens.renew("token", token, HOUR_MS)


@BOOK.play("on a listener without logins", needs={Need.NO_LOGIN})
def _anonymous(stage: Stage) -> None:
    stage.ask(RenewDelegationTokenRequest(hmac=bytes(64), renew_period_ms=HOUR_MS))
