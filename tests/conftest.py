"""Fixtures that tests of several packages share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.manual_clock import ManualClock
from tests.secret_search import SecretSearch, search_processes, search_responses, searched_logs

SECURITY_TESTS = (
    "tests/cli/test_secure.py",
    "tests/console/test_access_changes.py",
    "tests/console/test_login_mechanisms.py",
    "tests/server/test_hostile_clients.py",
    "tests/server/test_hostile_tls.py",
    "tests/server/test_jwks.py",
    "tests/server/test_logins.py",
    "tests/server/test_node_token.py",
    "tests/server/test_peer_security.py",
    "tests/server/test_request_log.py",
    "tests/server/test_tls.py",
    "tests/server/test_token_logins.py",
    "tests/server/test_wire_tap.py",
)
"""Tests of logins, keys and tokens: all that their nodes write is searched for secrets."""


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that moves only when the test says so."""
    return ManualClock()


@pytest.fixture(autouse=True)
def secrets(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SecretSearch]:
    """Fails a security test whose node writes a planted secret to a socket, a log or a file."""
    search = SecretSearch()
    if not request.node.nodeid.startswith(SECURITY_TESTS):
        yield search
        return
    directory: Path = request.getfixturevalue("tmp_path")
    search_responses(search, monkeypatch)
    search_processes(search, monkeypatch)
    with searched_logs(search):
        yield search
    search.look_into_logs_of_partitions(directory)
    assert not search.leaks, search.leaks
