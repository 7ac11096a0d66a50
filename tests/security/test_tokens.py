"""Delegation tokens are found in a time that no request can multiply."""

from __future__ import annotations

from tests.counted import Comparisons, CountedText
from wirekafka.protocol.records.metadata import DelegationTokenRecord
from wirekafka.security.tokens import requested


def _token(renewers: list[str]) -> DelegationTokenRecord:
    return DelegationTokenRecord(owner="User:a", requester="User:b", renewers=renewers)


def test_a_token_is_requested_by_owner_requester_and_renewer() -> None:
    token = _token(["User:c"])
    assert requested(token, None)
    for name in ("User:a", "User:b", "User:c"):
        assert requested(token, {name, "User:z"})
    assert not requested(token, set())
    assert not requested(token, {"User:z", "a"})


def test_a_request_of_many_owners_compares_none_with_every_renewer() -> None:
    Comparisons.begin()
    token = _token([CountedText(f"User:renewer-{number}") for number in range(300)])
    assert not requested(token, {f"User:owner-{number}" for number in range(300)})
    assert Comparisons.made < 3_000
