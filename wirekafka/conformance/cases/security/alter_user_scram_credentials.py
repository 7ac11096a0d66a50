"""AlterUserScramCredentials: passwords that are set and deleted, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.security.users import (
    SHA_256,
    SHA_512,
    Deletion,
    Upsertion,
    alter,
    await_mechanism,
    set_password,
    upsertion,
)
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from wirekafka.protocol.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

BOOK = Book(AlterUserScramCredentialsRequest, "security", ConformanceLevel.SECURITY, "KIP-554")

Parts = Callable[[Stage], tuple[list[Any], list[Any]]]
"""The upsertions and the deletions of a request."""


def _changed(name: str, **fields: Any) -> Any:
    known = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": bytes(32)}
    return Upsertion(name=name, **{**known, **fields})


def _one(**fields: Any) -> Parts:
    """One credential of a user, with some fields changed."""
    return lambda stage: ([_changed(stage.name("frank"), **fields)], [])


def _deletion(stage: Stage, text: str, mechanism: int = 1) -> Any:
    return Deletion(name=stage.name(text), mechanism=mechanism)


_REQUESTS: dict[str, Parts] = {
    "nothing": lambda _: ([], []),
    "a user": _one(),
    "two users": lambda s: (
        [upsertion(s.name("frank")), upsertion(s.name("grace"), SHA_512, iterations=16_384)],
        [],
    ),
    "a user twice": lambda s: ([upsertion(s.name("frank")), upsertion(s.name("frank"))], []),
    "a user for both mechanisms": lambda s: (
        [upsertion(s.name("frank")), upsertion(s.name("frank"), SHA_512)],
        [],
    ),
    "a user that is created and deleted": lambda s: (
        [upsertion(s.name("frank"))],
        [_deletion(s, "frank", 2)],
    ),
    "a user that is deleted twice": lambda s: ([], [_deletion(s, "frank"), _deletion(s, "frank")]),
    "mechanism 0": _one(mechanism=0),
    "mechanism 3": _one(mechanism=3),
    "mechanism minus 1": _one(mechanism=-1),
    "4095 iterations": _one(iterations=4095),
    "no iterations": _one(iterations=0),
    "a negative count of iterations": _one(iterations=-1),
    "16384 iterations": _one(iterations=16_384),
    "16385 iterations": _one(iterations=16_385),
    "16385 iterations of SHA-512": _one(iterations=16_385, mechanism=2),
    "no salt": _one(salt=b""),
    "a salted password of three bytes": _one(salted_password=b"abc"),
    "a user without a name": lambda _: ([_changed("")], []),
    "a user whose name is a blank": lambda s: ([_changed(f"{s.name()} ")], []),
    "an unknown user to delete": lambda s: ([], [_deletion(s, "nobody")]),
    "an unknown mechanism to delete": lambda s: ([], [_deletion(s, "nobody", 7)]),
    "a user without a name to delete": lambda _: ([], [Deletion(name="", mechanism=1)]),
    "one of two that is wrong": lambda s: (
        [upsertion(s.name("heidi")), _changed(s.name("ivan"), iterations=1)],
        [],
    ),
    "one of two to delete that is unknown": lambda s: (
        [upsertion(s.name("heidi"))],
        [_deletion(s, "nobody")],
    ),
}


def _ask(stage: Stage, parts: Parts) -> None:
    upsertions, deletions = parts(stage)
    stage.ask(AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions))


for _what, _parts in _REQUESTS.items():

    @BOOK.play(_what)
    def _altered(stage: Stage, parts: Parts = _parts) -> None:
        _ask(stage, parts)


def _describe(stage: Stage, name: str) -> None:
    kind = DescribeUserScramCredentialsRequest.UserName
    stage.ask(DescribeUserScramCredentialsRequest(users=[kind(name=name)]), 0)


@BOOK.play("more iterations for a user")
def _more(stage: Stage) -> None:
    """A password that is set again replaces the first."""
    name = stage.name("frank")
    set_password(stage, name)
    stage.ask(
        AlterUserScramCredentialsRequest(
            deletions=[], upsertions=[upsertion(name, iterations=8192)]
        )
    )
    kind = DescribeUserScramCredentialsRequest.UserName
    asked = DescribeUserScramCredentialsRequest(users=[kind(name=name)])
    stage.until(
        lambda: stage.do(asked, 0).results[0].credential_infos[0].iterations == 8192,
        "the new password",
    )
    _describe(stage, name)


@BOOK.play("a deleted user")
def _deleted(stage: Stage) -> None:
    """A user without a password is unknown, and cannot be deleted again."""
    name = stage.name("frank")
    set_password(stage, name)
    request = AlterUserScramCredentialsRequest(
        deletions=[Deletion(name=name, mechanism=1)], upsertions=[]
    )
    stage.ask(request)
    await_mechanism(stage, name, SHA_256, is_there=False)
    _describe(stage, name)
    stage.ask(request)


@BOOK.play("the other mechanism of a user to delete")
def _other(stage: Stage) -> None:
    """Only the password for a mechanism that the user has can be deleted."""
    name = stage.name("frank")
    set_password(stage, name)
    stage.ask(
        AlterUserScramCredentialsRequest(
            deletions=[Deletion(name=name, mechanism=2)], upsertions=[]
        )
    )
    _describe(stage, name)


@BOOK.play("one of two passwords to delete")
def _one_of_two(stage: Stage) -> None:
    """The other password stays."""
    name = stage.name("frank")
    for mechanism in (SHA_256, SHA_512):
        set_password(stage, name, mechanism)
    alter(stage, deletions=[Deletion(name=name, mechanism=1)])
    await_mechanism(stage, name, SHA_256, is_there=False)
    _describe(stage, name)


@BOOK.play("what is refused changes nothing")
def _refused(stage: Stage) -> None:
    """Users of a request are changed apart: a wrong user does not keep the others from it."""
    heidi, ivan = stage.name("heidi"), stage.name("ivan")
    wrong = [upsertion(heidi), _changed(ivan, iterations=1)]
    stage.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=wrong))
    # A later change is known when the earlier ones are.
    set_password(stage, stage.name("judy"))
    for name in (heidi, ivan):
        _describe(stage, name)
