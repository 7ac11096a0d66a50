"""CreateDelegationToken: who gets a token, for how long, and for whom."""

from __future__ import annotations

import base64
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.security.logins import (
    RAW,
    connect,
    look_whether_open,
    scram,
    send_token,
    shake,
)
from wirekafka.conformance.cases.security.scram import ScramMessages
from wirekafka.conformance.cases.security.tokens import (
    ALICE,
    BOB,
    CAROL,
    DAY_MS,
    HOUR_MS,
    NEEDS,
    await_token,
    creation,
    log_in_by,
    tokens_of,
)
from wirekafka.conformance.cases.security.users import SHA_256, SHA_512, acl, add_user
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.create_delegation_token import CreateDelegationTokenRequest
from wirekafka.protocol.expire_delegation_token import ExpireDelegationTokenRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest
from wirekafka.security.acl import CREATE_TOKENS, READ, TOPIC, USER

BOOK = Book(CreateDelegationTokenRequest, "security", ConformanceLevel.SECURITY, "KIP-48")

_LIFETIMES = {
    "an hour": HOUR_MS,
    "a minute": 60_000,
    "two days": 2 * DAY_MS,
    "more than the longest": 8 * DAY_MS,
    "minus 5 ms": -5,
    "no time": 0,
    "the largest number": (1 << 63) - 1,
}

for _what, _lifetime_ms in _LIFETIMES.items():

    @BOOK.play(f"a token for {_what}", versions="1,3", needs=NEEDS)
    def _for(stage: Stage, lifetime_ms: int = _lifetime_ms) -> None:
        """The token ends after a day, or when its life does."""
        add_user(stage, ALICE)
        with tokens_of(stage) as tokens:
            tokens.create(ALICE, lifetime_ms=lifetime_ms)


@BOOK.play("a token of its own", needs=NEEDS)
def _own(stage: Stage) -> None:
    add_user(stage, ALICE)
    with tokens_of(stage) as tokens:
        tokens.create(ALICE)


@BOOK.play("two tokens of a user", versions="3", needs=NEEDS)
def _two(stage: Stage) -> None:
    """They differ."""
    add_user(stage, ALICE)
    with tokens_of(stage) as tokens:
        first, second = tokens.create(ALICE), tokens.create(ALICE)
        stage.note("differ", (first.token_id, first.hmac) != (second.token_id, second.hmac))
        stage.note("the size of the HMAC", len(first.hmac))
        stage.note("the size of the id", len(first.token_id))


_RENEWERS = {
    "a renewer": [("User", CAROL)],
    "a renewer twice": [("User", CAROL), ("User", CAROL)],
    "two renewers": [("User", CAROL), ("User", "nobody")],
    "a group as renewer": [("Group", CAROL)],
    "a renewer of a type in small letters": [("user", CAROL)],
    "a renewer without a type": [("", CAROL)],
    "a renewer without a name": [("User", "")],
    "a right renewer and a wrong one": [("User", CAROL), ("Group", CAROL)],
}

for _what, _renewers in _RENEWERS.items():

    @BOOK.play(f"a token with {_what}", needs=NEEDS)
    def _with(stage: Stage, renewers: list[tuple[str, str]] = _renewers) -> None:
        add_user(stage, ALICE)
        with tokens_of(stage) as tokens:
            tokens.create(ALICE, renewers=renewers)


_OWNERS = {
    "a token for the user itself": ("User", ALICE),
    "a token for another user": ("User", BOB),
    "a token for a group": ("Group", BOB),
    "a token for the user as a group": ("Group", ALICE),
    "a token for a user of a type in small letters": ("user", BOB),
    "a token for a user with a colon": ("User", f"{BOB}:x"),
}

for _what, (_type, _name) in _OWNERS.items():

    @BOOK.play(f"{_what} without permission", versions="3", source="KIP-373", needs=NEEDS)
    def _refused(stage: Stage, type: str = _type, name: str = _name) -> None:
        add_user(stage, ALICE)
        with tokens_of(stage) as tokens:
            tokens.create(ALICE, owner=stage.name(name), owner_type=type)

    @BOOK.play(f"{_what} with permission", versions="3", source="KIP-373", needs=NEEDS)
    def _permitted(stage: Stage, type: str = _type, name: str = _name) -> None:
        alice, owner = f"User:{stage.name(ALICE)}", stage.name(name)
        add_user(stage, ALICE, acls=[acl(alice, USER, f"User:{owner}", CREATE_TOKENS)])
        with tokens_of(stage) as tokens:
            tokens.create(ALICE, owner=owner, owner_type=type)


@BOOK.play("a token by the login with a token", versions="1,3", needs=NEEDS)
def _by_token(stage: Stage) -> None:
    """Who has logged in by a token gets no other."""
    add_user(stage, ALICE)
    with tokens_of(stage) as tokens:
        log_in_by(stage, "token", tokens.prepare(ALICE))
        stage.ask(creation(), by="token")


@BOOK.play("on a listener without logins", needs={Need.NO_LOGIN})
def _anonymous(stage: Stage) -> None:
    stage.ask(creation())
    stage.ask(creation(renewers=[("Group", CAROL)]))


def _messages(token: Any, mechanism: str = SHA_256) -> ScramMessages:
    """The messages of a login by a token: its HMAC is the password."""
    password = base64.b64encode(bytes(token.hmac)).decode()
    return ScramMessages(token.token_id, password, mechanism, extensions=",tokenauth=true")


for _mechanism in (SHA_256, SHA_512):

    @BOOK.play(f"a login by a token and {_mechanism}", versions="3", needs=NEEDS)
    def _login(stage: Stage, mechanism: str = _mechanism) -> None:
        """The session lasts until the token ends."""
        add_user(stage, ALICE)
        with tokens_of(stage) as tokens:
            token = tokens.prepare(ALICE)
            connect(stage)
            shake(stage, mechanism)
            messages = _messages(token, mechanism)
            challenge = send_token(stage, messages.first())
            parts = challenge.decode().split(",")
            stage.note("iterations", parts[-1])
            stage.call(challenge.decode(), "CHALLENGE")
            request = SaslAuthenticateRequest(auth_bytes=messages.final(challenge))
            answer = stage.do(request, 2, by=RAW)
            stage.note("the error", answer.error_code)
            stage.note("hours of the session", round(answer.session_lifetime_ms / HOUR_MS))
            look_whether_open(stage)


@BOOK.play("a login by a token with a wrong HMAC", versions="3", needs=NEEDS)
def _wrong(stage: Stage) -> None:
    add_user(stage, ALICE)
    with tokens_of(stage) as tokens:
        token = tokens.prepare(ALICE)
        connect(stage)
        shake(stage, SHA_256)
        messages = _messages(token)
        messages.password = "wrong"  # noqa: S105
        challenge = send_token(stage, messages.first())
        stage.call(challenge.decode(), "CHALLENGE")
        send_token(stage, messages.final(challenge))
        look_whether_open(stage)


@BOOK.play("a login by a token as a password", versions="3", needs=NEEDS)
def _as_password(stage: Stage) -> None:
    """Without the extension of tokens, the id of a token is no user."""
    add_user(stage, ALICE)
    with tokens_of(stage) as tokens:
        messages = _messages(tokens.prepare(ALICE))
        messages.extensions = ""
        connect(stage)
        scram(stage, messages)


@BOOK.play("a login by a token that has ended", versions="3", needs=NEEDS)
def _ended(stage: Stage) -> None:
    """The token is unknown."""
    add_user(stage, ALICE)
    with tokens_of(stage) as tokens:
        token = tokens.prepare(ALICE)
        ending = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
        stage.note("ends", stage.do(ending, 2, by=ALICE).error_code)
        await_token(stage, token.token_id, None)
        connect(stage)
        scram(stage, _messages(token))


@BOOK.play("the permissions of a login by a token", versions="3", needs=NEEDS)
def _permissions(stage: Stage) -> None:
    """Whoever logs in by a token has the permissions of its owner."""
    alice = f"User:{stage.name(ALICE)}"
    add_user(stage, ALICE, acls=[acl(alice, TOPIC, stage.topic, READ)])
    topics = [MetadataRequest.Topic(name=each) for each in (stage.topic, stage.compacted)]
    with tokens_of(stage) as tokens:
        log_in_by(stage, "token", tokens.prepare(ALICE))
        request = MetadataRequest(topics=topics, include_topic_authorized_operations=True)
        stage.ask(request, 9, by="token")


@BOOK.play("the permissions of a login by a token for another user", versions="3", needs=NEEDS)
def _of_another(stage: Stage) -> None:
    """They are the owner's, not the permissions of the user who has asked for the token."""
    alice, bob = stage.name(ALICE), stage.name(BOB)
    acls = [
        acl(f"User:{bob}", USER, f"User:{alice}", CREATE_TOKENS),
        acl(f"User:{alice}", TOPIC, stage.topic, READ),
        acl(f"User:{bob}", TOPIC, stage.compacted, READ),
    ]
    add_user(stage, BOB, acls=acls)
    topics = [MetadataRequest.Topic(name=each) for each in (stage.topic, stage.compacted)]
    with tokens_of(stage) as tokens:
        log_in_by(stage, "token", tokens.prepare(BOB, owner=alice))
        stage.ask(MetadataRequest(topics=topics), 9, by="token")
