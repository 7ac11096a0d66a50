"""Requests about delegation tokens get the responses of a secured Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest

from compat_tests.secured import ADMIN, OurUsers, secured_kafka
from compat_tests.wire import comparable
from tests.eventually import eventually
from wirekafka.codec.message import Request
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.protocol.create_delegation_token import CreateDelegationTokenRequest
from wirekafka.protocol.describe_delegation_token import DescribeDelegationTokenRequest
from wirekafka.protocol.expire_delegation_token import ExpireDelegationTokenRequest
from wirekafka.protocol.renew_delegation_token import RenewDelegationTokenRequest
from wirekafka.security.acl import CREATE_TOKENS, DESCRIBE_TOKENS, USER, Operation
from wirekafka.security.tokens import hmac_of

SECRET = "the secret of all nodes"
DAY_MS = 86_400_000
_TIMES = (
    *("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"),
    *("issue_timestamp", "expiry_timestamp", "max_timestamp"),
)


class Users(Protocol):
    def ask(self, user: str, request: Request, version: int) -> Any: ...


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Users]]:
    """Apache Kafka and wirekafka with the same users.

    Bob may create and describe tokens of alice, carol may create tokens of bob.
    """
    directory = tmp_path_factory.mktemp("kafka")
    users = ("alice", "bob", "carol")
    own = OurUsers(delegation_token_secret_key=SECRET)
    with secured_kafka(directory, users, delegation_token_secret_key=SECRET) as kafka:
        for side in (kafka, own):
            permit(side)
        yield [kafka, own]
    own.close()


def permit(side: Users) -> None:
    def acl(user: str, operation: Operation, owner: str) -> Any:
        return CreateAclsRequest.AclCreation(
            resource_type=USER,
            resource_name=f"User:{owner}",
            principal=f"User:{user}",
            host="*",
            operation=operation,
            permission_type=3,
        )

    acls = [
        acl("bob", CREATE_TOKENS, "alice"),
        acl("bob", DESCRIBE_TOKENS, "alice"),
        acl("carol", CREATE_TOKENS, "bob"),
    ]
    results = side.ask(ADMIN, CreateAclsRequest(creations=acls), 3).results
    assert [each.error_code for each in results] == [0, 0, 0]


class Transcript:
    """The responses of one side; times are in minutes since the token's creation."""

    def __init__(self, side: Users):
        self.side = side
        self.lines: list[Any] = []
        self.tokens: list[Any] = []

    def ask(self, user: str, request: Request, version: int) -> Any:
        answer = self.side.ask(user, request, version)
        self.lines.append(self._shown(comparable(answer, {})))
        return answer

    def create(
        self,
        user: str,
        owner: str = "",
        *renewers: str,
        lifetime_ms: int = -1,
        version: int = 3,
        owner_type: str = "User",
    ) -> bytes:
        """Request a token; returns its HMAC."""
        named = [renewer.partition(":") for renewer in renewers]
        part = CreateDelegationTokenRequest.CreatableRenewers
        for_owner = {"owner_principal_type": owner_type, "owner_principal_name": owner}
        answer = self.ask(
            user,
            CreateDelegationTokenRequest(
                renewers=[
                    part(principal_type=kind, principal_name=name) for kind, _, name in named
                ],
                max_lifetime_ms=lifetime_ms,
                **(for_owner if version >= 3 else {}),
            ),
            version,
        )
        if not answer.error_code:
            assert bytes(answer.hmac) == hmac_of(answer.token_id, SECRET)
            assert len(answer.token_id) == 22
            self.tokens.append(answer)
            self._await(answer.token_id, answer.expiry_timestamp_ms)
        return bytes(answer.hmac)

    def renew(self, user: str, hmac: bytes, period_ms: int, version: int = 2) -> None:
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        self._await_change(hmac, self.ask(user, request, version))

    def expire(self, user: str, hmac: bytes, period_ms: int, version: int = 2) -> None:
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        answer = self.ask(user, request, version)
        self._await_change(hmac, answer, is_removed=period_ms < 0)

    def describe(self, user: str, *owners: str, version: int = 3) -> None:
        """List the tokens of owners; of all, if the only one is `*`."""
        part = DescribeDelegationTokenRequest.Owner
        named = [owner.partition(":") for owner in owners]
        listed = [part(principal_type=kind, principal_name=name) for kind, _, name in named]
        request = DescribeDelegationTokenRequest(owners=None if owners == ("*",) else listed)
        self.ask(user, request, version)

    def _await_change(self, hmac: bytes, answer: Any, *, is_removed: bool = False) -> None:
        if not answer.error_code:
            [token_id] = [each.token_id for each in self.tokens if bytes(each.hmac) == hmac]
            self._await(token_id, None if is_removed else answer.expiry_timestamp_ms)

    def _await(self, token_id: str, expiry_ms: int | None) -> None:
        """Wait until the broker has followed the controller; None: the token was removed."""
        request = DescribeDelegationTokenRequest(owners=None)

        def has_followed() -> bool:
            tokens = self.side.ask(ADMIN, request, 3).tokens
            return {each.token_id: each.expiry_timestamp for each in tokens}.get(token_id) == (
                expiry_ms
            )

        eventually(has_followed)

    def _shown(self, data: Any) -> Any:
        """A response as data without random ids, each time rounded to a minute."""
        ids = {each.token_id: f"token {number}" for number, each in enumerate(self.tokens)}
        for each in [data, *data.get("tokens", [])]:
            if each.get("token_id"):
                each["token_id"] = ids.get(each["token_id"], "a new token")
                each["hmac"] = len(each["hmac"])
            for name in _TIMES:
                if each.get(name, -1) > 0:
                    each[name] = round((each[name] - self._now_ms()) / 60_000)
        if "tokens" in data:
            data["tokens"] = sorted(
                (each for each in data["tokens"] if each["token_id"] in ids.values()), key=str
            )
        return data

    def _now_ms(self) -> int:
        if isinstance(self.side, OurUsers):
            return self.side.clock.now_ms()
        return round(time.time() * 1000)


Script = Callable[[Transcript], None]


def own_token(t: Transcript) -> None:
    for version in (1, 2, 3):
        hmac = t.create("alice", version=version)
        for each in (1, 2, 3):
            t.describe("alice", "User:alice", version=each)
        t.renew("alice", hmac, 3_600_000, version=min(version, 2))
        t.expire("alice", hmac, 7_200_000, version=min(version, 2))
        t.describe("alice", "*")
        t.expire("alice", hmac, -1, version=min(version, 2))
        t.describe("alice", "*")


def lifetimes(t: Transcript) -> None:
    for lifetime_ms in (0, -1, -5, 1, 3_600_000, 2 * DAY_MS, 8 * DAY_MS, 1 << 62):
        hmac = t.create("alice", lifetime_ms=lifetime_ms)
        if lifetime_ms == 1:
            continue
        for period_ms in (0, -1, 60_000, 3 * DAY_MS, 1 << 62):
            t.renew("alice", hmac, period_ms)
        for period_ms in (3 * DAY_MS, 60_000, 60 * DAY_MS):
            t.expire("alice", hmac, period_ms)


def another_owner(t: Transcript) -> None:
    hmac = t.create("bob", "alice")
    for user in ("alice", "bob", "carol", ADMIN):
        t.renew(user, hmac, 60_000)
        t.describe(user, "*")
        t.describe(user, "User:alice")
        t.describe(user, "User:bob")
    t.expire("carol", hmac, -1)
    t.expire(ADMIN, hmac, -1)
    t.create("bob", "carol")
    t.create("alice", "bob")
    t.create("carol", "bob")
    t.describe("carol", "*")
    t.describe("alice", "User:carol")
    t.create("bob", "bob")
    t.create("alice", "", owner_type="Group")
    t.create(ADMIN, "carol", owner_type="Group")
    t.create(ADMIN, "carol:colon")
    t.create("bob", "alice", "Group:x")
    t.create("bob", "carol", "Group:x")


def renewers(t: Transcript) -> None:
    hmac = t.create("alice", "", "User:carol", "User:carol", "User:nobody")
    for user in ("carol", "bob"):
        t.describe(user, "*")
        t.describe(user, "User:carol")
        t.describe(user, "User:alice", "User:bob")
        t.renew(user, hmac, 60_000)
    t.expire("bob", hmac, 60_000)
    t.expire("carol", hmac, -1)
    t.renew("alice", hmac, 60_000)
    for renewer in ("Group:carol", "user:carol", ":carol", "User:"):
        t.create("alice", "", renewer)


def expired(t: Transcript) -> None:
    hmac = t.create("alice", lifetime_ms=1)
    if isinstance(t.side, OurUsers):
        t.side.clock.advance(10)
    t.renew("alice", hmac, 60_000)
    t.expire("alice", hmac, 60_000)
    t.renew("bob", hmac, 60_000)
    t.expire("bob", hmac, 60_000)
    t.expire("bob", hmac, -1)
    t.describe("alice", "*")
    t.expire("alice", hmac, -1)
    t.expire("alice", hmac, -1)


def unknown(t: Transcript) -> None:
    for hmac in (b"", b"x", bytes(64)):
        t.renew("alice", hmac, 1)
        t.expire("alice", hmac, 1)
        t.expire("alice", hmac, -1)
    t.describe("alice")
    t.describe("alice", "User:nobody")
    t.describe("alice", "Group:alice", "User:")


@pytest.mark.parametrize(
    "script", [own_token, lifetimes, another_owner, renewers, expired, unknown]
)
def test_tokens_are_managed_as_by_apache_kafka(script: Script, sides: list[Users]) -> None:
    noted = []
    for side in sides:
        transcript = Transcript(side)
        script(transcript)
        noted.append(transcript.lines)
    kafka, own = noted
    for number, (expected, found) in enumerate(zip(kafka, own, strict=True)):
        assert found == expected, number
