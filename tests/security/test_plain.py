"""PLAIN accepts exactly the listed users, and takes the same time to refuse others."""

import statistics
import time

import pytest

from tests.sasl_client import plain
from wirekafka.security.jaas import parse
from wirekafka.security.sasl.exchange import AuthenticationFailed, Success
from wirekafka.security.sasl.plain import LOGIN_MODULE, Plain

MODULE = (
    f'{LOGIN_MODULE} required username=admin password=inter user_alice="s\u00e9cret" user_x="";'
)


def mechanism() -> Plain:
    return Plain.of(parse(MODULE))


@pytest.mark.parametrize("authorization_id", ["", "alice"])
def test_a_listed_user_logs_in(authorization_id: str) -> None:
    token = plain("alice", "s\u00e9cret", authorization_id)
    assert mechanism().respond(token, 0) == Success(b"", "alice")


@pytest.mark.parametrize(
    "token",
    [
        plain("alice", "wrong"),
        plain("alice", "s\u00e9crets"),
        plain("alice", "s\u00e9cre"),
        plain("Alice", "s\u00e9cret"),
        plain("admin", "inter"),
        plain("x", ""),
        plain("nobody", "s\u00e9cret"),
        plain("alice", "s\u00e9cret", "admin"),
        b"",
        b"\0\0",
        b"\0alice\0",
        b"\0alice\0s\xc3\xa9cret\0",
        b"\0\0s\xc3\xa9cret",
    ],
)
def test_other_users_and_passwords_are_refused(token: bytes) -> None:
    with pytest.raises(AuthenticationFailed) as refusal:
        mechanism().respond(token, 0)
    assert "cret" not in str(refusal.value)


def test_users_and_passwords_cannot_be_found_by_timing() -> None:
    """CVE-2021-38153: neither who exists nor how much of a password is right shows in the time."""
    password = "p" * 2000
    checked = Plain({"alice": password})
    tokens = {
        "unknown user": plain("mallory", "q" * 2000),
        "first wrong": plain("alice", "q" + "p" * 1999),
        "last wrong": plain("alice", "p" * 1999 + "q"),
    }
    spent: dict[str, list[int]] = {name: [] for name in tokens}
    for _ in range(2000):
        for name, token in tokens.items():
            begun = time.perf_counter_ns()
            with pytest.raises(AuthenticationFailed):
                checked.respond(token, 0)
            spent[name].append(time.perf_counter_ns() - begun)
    medians = [statistics.median(times) for times in spent.values()]
    assert max(medians) < 1.25 * min(medians), spent.keys()
