"""DescribeDelegationToken: which tokens a user sees."""

from __future__ import annotations

from collections.abc import Callable

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.security.tokens import (
    ALICE,
    BOB,
    CAROL,
    NEEDS,
    description,
    log_in_by,
    tokens_of,
)
from wirekafka.conformance.cases.security.users import acl, add_user
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.describe_delegation_token import DescribeDelegationTokenRequest
from wirekafka.security.acl import CREATE_TOKENS, DELEGATION_TOKEN, DESCRIBE, DESCRIBE_TOKENS, USER

BOOK = Book(DescribeDelegationTokenRequest, "security", ConformanceLevel.SECURITY, "KIP-48")
_ALL = DescribeDelegationTokenRequest(owners=None)
Asked = Callable[[Stage], DescribeDelegationTokenRequest]


def _of(*names: str, type: str = "User") -> Asked:
    return lambda stage: description(*((type, stage.name(name)) for name in names))


_REQUESTS: dict[str, Asked] = {
    "all tokens": lambda _: _ALL,
    "tokens of nobody": _of(),
    "its own tokens": _of(ALICE),
    "tokens of another user": _of(BOB),
    "tokens of two users": _of(ALICE, BOB),
    "tokens of a user without any": _of("nobody"),
    "tokens of a group": _of(ALICE, type="Group"),
    "tokens of a user without a name": lambda _: description(("User", "")),
    "tokens of a user twice": _of(ALICE, ALICE),
}

for _what, _make in _REQUESTS.items():

    @BOOK.play(f"{_what}, by their owner", versions="1,3", needs=NEEDS)
    def _by_owner(stage: Stage, make: Asked = _make) -> None:
        """Alice asks, who owns a token; bob owns another that carol may renew."""
        add_user(stage, ALICE)
        add_user(stage, BOB)
        with tokens_of(stage) as tokens:
            tokens.prepare(ALICE)
            tokens.prepare(BOB, renewers=[("User", stage.name(CAROL))])
            stage.ask(make(stage), by=ALICE)

    @BOOK.play(f"{_what}, by a renewer", versions="3", needs=NEEDS)
    def _by_renewer(stage: Stage, make: Asked = _make) -> None:
        """Carol asks, who may renew bob's token."""
        add_user(stage, ALICE)
        add_user(stage, BOB)
        add_user(stage, CAROL)
        with tokens_of(stage) as tokens:
            tokens.prepare(ALICE)
            tokens.prepare(BOB, renewers=[("User", stage.name(CAROL))])
            stage.ask(make(stage), by=CAROL)


@BOOK.play("with DESCRIBE on a token", needs=NEEDS)
def _of_token(stage: Stage) -> None:
    """Who has the permission on a token sees that token of its owner, and no other."""
    alice, bob = stage.name(ALICE), f"User:{stage.name(BOB)}"
    add_user(stage, ALICE)
    with tokens_of(stage) as tokens:
        token = tokens.prepare(ALICE)
        tokens.prepare(ALICE)
        add_user(stage, BOB, acls=[acl(bob, DELEGATION_TOKEN, token.token_id, DESCRIBE)])
        for request in (_ALL, description(("User", alice))):
            stage.ask(request, by=BOB)


@BOOK.play("with DESCRIBE_TOKENS on a user", source="KIP-373", needs=NEEDS)
def _of_user(stage: Stage) -> None:
    """Who has the permission on a user sees all tokens of that user."""
    alice, bob = stage.name(ALICE), f"User:{stage.name(BOB)}"
    add_user(stage, ALICE)
    add_user(stage, BOB, acls=[acl(bob, USER, f"User:{alice}", DESCRIBE_TOKENS)])
    with tokens_of(stage) as tokens:
        tokens.prepare(ALICE)
        tokens.prepare(ALICE)
        for request in (_ALL, description(("User", alice))):
            stage.ask(request, by=BOB)


@BOOK.play("by the user who has asked for it for another", source="KIP-373", needs=NEEDS)
def _by_requester(stage: Stage) -> None:
    alice, bob = add_user(stage, ALICE), f"User:{stage.name(BOB)}"
    add_user(stage, BOB, acls=[acl(bob, USER, f"User:{alice}", CREATE_TOKENS)])
    with tokens_of(stage) as tokens:
        tokens.prepare(BOB, owner=alice)
        for user in (ALICE, BOB):
            stage.ask(_ALL, by=user)


@BOOK.play("by the super user", needs=NEEDS)
def _by_super(stage: Stage) -> None:
    alice = add_user(stage, ALICE)
    with tokens_of(stage) as tokens:
        tokens.prepare(ALICE, renewers=[("User", stage.name(CAROL)), ("User", stage.name(BOB))])
        stage.ask(description(("User", alice)))


@BOOK.play("by the login with the token", needs=NEEDS)
def _by_token(stage: Stage) -> None:
    """Who has logged in by a token sees none."""
    add_user(stage, ALICE)
    with tokens_of(stage) as tokens:
        log_in_by(stage, "token", tokens.prepare(ALICE))
        stage.ask(_ALL, by="token")


@BOOK.play("on a listener without logins", needs={Need.NO_LOGIN})
def _anonymous(stage: Stage) -> None:
    stage.ask(_ALL)
    stage.ask(description())
