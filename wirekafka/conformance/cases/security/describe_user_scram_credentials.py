"""DescribeUserScramCredentials: the mechanisms and iterations of users."""

from __future__ import annotations

from collections.abc import Callable

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.security.users import SHA_512, set_password
from wirekafka.conformance.stage import Stage
from wirekafka.errors import Error
from wirekafka.protocol.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

BOOK = Book(DescribeUserScramCredentialsRequest, "security", ConformanceLevel.SECURITY, "KIP-554")


def _of(*names: str) -> DescribeUserScramCredentialsRequest:
    kind = DescribeUserScramCredentialsRequest.UserName
    return DescribeUserScramCredentialsRequest(users=[kind(name=name) for name in names])


_NAMES: dict[str, Callable[[str, str], list[str]]] = {
    "a user": lambda carol, _: [carol],
    "a user and an unknown one": lambda carol, nobody: [nobody, carol],
    "an unknown user": lambda _, nobody: [nobody],
    "a user twice": lambda carol, _: [carol, carol],
    "an unknown user twice": lambda _, nobody: [nobody, nobody],
    "a user without a name": lambda *_: [""],
    "a user twice and another": lambda carol, nobody: [carol, nobody, carol],
}

for _what, _names in _NAMES.items():

    @BOOK.play(_what)
    def _describe(stage: Stage, names: Callable[[str, str], list[str]] = _names) -> None:
        carol = stage.name("carol")
        set_password(stage, carol)
        stage.ask(_of(*names(carol, stage.name("nobody"))))


@BOOK.play("a user with passwords for both mechanisms")
def _both(stage: Stage) -> None:
    name = stage.name("carol")
    set_password(stage, name)
    set_password(stage, name, SHA_512)
    stage.ask(_of(name))


for _all, _is_null in (("all users", False), ("all users by null", True)):

    @BOOK.play(_all)
    def _everybody(stage: Stage, is_null: bool = _is_null) -> None:
        """The answer has the users of this case among many."""
        name = stage.name("carol")
        set_password(stage, name)
        request = DescribeUserScramCredentialsRequest(users=None if is_null else [])
        answer = stage.do(request)
        stage.note("the error", Error.of(answer.error_code).name)
        stage.note("its users", [each for each in answer.results if each.user == name])
