"""Delegation tokens are found in a time that no request can multiply."""

from __future__ import annotations

from wirekafka.protocol.records.metadata import DelegationTokenRecord
from wirekafka.security.tokens import requested


class _Compared(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        _Compared.comparisons += 1
        return str.__eq__(self, other)


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
    _Compared.comparisons = 0
    token = _token([_Compared(f"User:renewer-{number}") for number in range(300)])
    assert not requested(token, {f"User:owner-{number}" for number in range(300)})
    assert _Compared.comparisons < 3_000
