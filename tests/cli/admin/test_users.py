"""`wirekafka users`."""

import io
import sys
from pathlib import Path

import pytest

from tests.cli.admin.conftest import RunJson, assert_refused, table
from tests.cli.conftest import Run, command_line
from wirekafka import Broker
from wirekafka.cli.admin import users as tested
from wirekafka.client.client import CliError

BOTH = ["SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(autouse=True)
def no_users(run: Run, run_json: RunJson) -> None:
    for name in {each["user"] for each in run_json("users", "list")}:
        run("users", "remove", name)


def add(run: Run, name: str, *words: str) -> None:
    outcome = run("users", "add", name, "--password-file", "-", *words, given="secret\n")
    assert outcome.status == 0, outcome.err


def test_a_user_is_added_listed_and_removed(run: Run, run_json: RunJson) -> None:
    add(run, "alice", "--iterations", "5000")
    expected = [{"user": "alice", "mechanism": each, "iterations": 5000} for each in BOTH]
    assert run_json("users", "list") == run_json("users", "list", "alice", "bob") == expected
    assert table(run("users", "list"))[0] == ["USER", "MECHANISM", "ITERATIONS"]
    outcome = run("users", "remove", "alice")
    assert (outcome.status, outcome.err) == (0, "removed alice for SCRAM-SHA-256, SCRAM-SHA-512\n")
    assert run_json("users", "list") == []
    assert run("users", "list").err == "no users\n"
    assert run("users", "list", "alice").err == "no such user\n"


def test_a_user_can_have_one_mechanism_and_get_the_other(run: Run, run_json: RunJson) -> None:
    add(run, "alice", "--mechanism", "scram-sha-512")
    assert [each["mechanism"] for each in run_json("users", "list")] == BOTH[1:]
    outcome = run("users", "add", "alice", "--password-file", "-", given="x")
    assert_refused(outcome, "user alice has a password for SCRAM-SHA-512")
    add(run, "alice", "--mechanism", "SCRAM-SHA-256")
    run("users", "remove", "alice", "--mechanism", "SCRAM-SHA-512")
    assert [each["mechanism"] for each in run_json("users", "list")] == BOTH[:1]


def test_a_new_password_is_the_only_password(
    run: Run, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All mechanisms change: an old password in another one would still let its owner in."""
    sent = []
    send = tested.set_password
    monkeypatch.setattr(
        tested, "set_password", lambda *arguments: (sent.append(arguments[1:]), send(*arguments))
    )
    add(run, "alice", "--iterations", "6000")
    outcome = run("users", "password", "alice", "--password-file", "-", given="new\n")
    assert outcome.err == "changed the password of alice for SCRAM-SHA-256, SCRAM-SHA-512\n"
    assert [password for _, password in sent] == ["secret", "new"]
    listed = run_json("users", "list")
    assert [(each["mechanism"], each["iterations"]) for each in listed] == [
        (each, 6000) for each in BOTH
    ]


def test_users_log_in_by_their_newest_password(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: object, tmp_path: Path
) -> None:
    def properties(user: str, password: str) -> tuple[str, str]:
        file = tmp_path / f"{user}-{password}.properties"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config="
            "org.apache.kafka.common.security.scram.ScramLoginModule required"
            f' username="{user}" password="{password}";\n'
        )
        return "--command-config", str(file)

    def log_in(password: str) -> str:
        return run("topics", "list", *properties("alice", password)).err

    with Broker(users={"admin": "root"}) as broker:
        run = command_line(broker.bootstrap_servers, monkeypatch, capfdbinary)
        as_admin = properties("admin", "root")
        assert "refuses the login" in log_in("first")
        run("users", "add", "alice", "--password-file", "-", *as_admin, given="first\n")
        assert log_in("first") == ""
        run("users", "password", "alice", "--password-file", "-", *as_admin, given="second\n")
        assert "refuses the login" in log_in("first") and log_in("second") == ""
        run("users", "remove", "alice", *as_admin)
        assert "refuses the login" in log_in("second")


def test_the_password_is_read_from_a_file(run: Run, run_json: RunJson, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")
    assert run("users", "add", "alice", "--password-file", str(file)).status == 0
    file.write_text("one\ntwo\n")
    outcome = run("users", "password", "alice", "--password-file", str(file))
    assert_refused(outcome, "expected one line with the password")
    outcome = run("users", "password", "alice", "--password-file", "/no/such/file")
    assert_refused(outcome, "No such file")


def test_the_password_is_asked_for_twice_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    typed = iter(["secret", "secret", "secret", "sceret"])
    monkeypatch.setattr(tested, "getpass", lambda prompt: next(typed))
    assert tested._password(None) == "secret"
    with pytest.raises(CliError, match="the passwords differ"):
        tested._password(None)
    assert not list(typed)


@pytest.mark.parametrize(
    ("words", "given", "reason"),
    [
        (("add", "bob"), "secret", "give --password-file"),
        (("add", "bob", "--password-file", "-"), "\n", "the password is empty"),
        (("add", "bob", "--password-file", "-", "--mechanism", "PLAIN"), "x", "no mechanism"),
        (("add", "", "--password-file", "-"), "x", "UNACCEPTABLE_CREDENTIAL"),
        (("password", "nobody", "--password-file", "-"), "x", "no user nobody"),
        (("remove", "nobody"), "", "no user nobody"),
        (("remove", "nobody", "--mechanism", "SCRAM-SHA-256"), "", "with SCRAM-SHA-256"),
    ],
)
def test_a_wrong_user_is_refused_in_one_line(
    run: Run, words: tuple[str, ...], given: str, reason: str
) -> None:
    assert_refused(run("users", *words, given=given), reason)


def test_iterations_out_of_bounds_are_wrong_usage(run: Run) -> None:
    outcome = run("users", "add", "bob", "--iterations", "4095", "--password-file", "-", given="x")
    assert outcome.status == 2 and "4096" in outcome.err
